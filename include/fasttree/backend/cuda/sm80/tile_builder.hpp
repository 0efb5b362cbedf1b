// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which keys a tile holds, where they lie and which rows see them: written by one warp, a tile
// ahead of the copies and two ahead of the arithmetic, so that nobody waits for the plan or for a
// page table. Tasks are (work item, KV head) pairs from the workspace's queue, in the plan's order.
// The keys of a task's ranges stand side by side in its tiles, whatever ranges they are from: first
// those that rows of several warps see, then those of one warp each, 16 of every warp in a tile, so
// that leaves of different warps are multiplied at the same time.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/cp_async.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/strided_array.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int tile_keys = 64;
inline constexpr int tile_rows = 64;
inline constexpr int group_keys = 16;  ///< keys that a step of the arithmetic takes
inline constexpr int warp_rows = 16;

/// A work item for one KV head. An item of one query may have more rows than a tile: then there is
/// a task for each `tile_rows` of them.
struct Task {
  WorkItem item;
  int kv_head;
  int first_row;  ///< of the item's rows
  int rows;
  bool narrow;
};

/// A tile of keys, in shared memory.
template <class Stored>
struct TileRecord {
  Stored const* keys[tile_keys];  ///< null where there is no key
  Stored const* values[tile_keys];
  Stored const* queries[tile_rows];  ///< of the task; only in its first tile
  int visible[tile_rows];            ///< keys of its path that a row sees; likewise
  int positions[tile_keys];          ///< along the paths
  /// Rows of the task that attend to a key.
  alignas(16) std::uint8_t row_begin[tile_keys], row_end[tile_keys];
  std::uint8_t groups_of_warp[tile_rows / warp_rows];  ///< a bit for each group that its rows see
  int last_position;                                   ///< the largest
  bool aligned;       ///< all rows of keys and values begin at multiples of 16 bytes
  bool for_all_rows;  ///< all keys exist, and all rows attend to them as far as their tails allow
  int number;         ///< of the task; none: no task is left
  Task task;

  static constexpr int none = -1;
};

/// What the building warp knows. Its threads gather keys together, or in teams of 8 for a warp's
/// rows each; what is said of a team is the same in each thread of it.
template <class Cache>
class TileBuilder {
 public:
  using Stored = typename Cache::element_type;
  using Record = TileRecord<Stored>;

  __device__ TileBuilder(PlanArrays const& plan, WorkQueue* queue, Cache const& cache,
                         StridedArray<Stored const, 3> const& queries, int kv_heads, int group)
      : plan_(plan),
        queue_(queue),
        cache_(cache),
        queries_(queries),
        lane_(static_cast<int>(threadIdx.x) % 32),
        kv_heads_(kv_heads),
        group_(group),
        row_blocks_(group > tile_rows ? (group + tile_rows - 1) / tile_rows : 1),
        tasks_(plan.counts->items * kv_heads * row_blocks_),
        narrow_queries_(plan.counts->narrow_queries) {}

  /// Writes the next tile of the block.
  __device__ void build(Record& record) {
    Keys keys;
    bool opens_task = false;
    while (number_ != Record::none && !gather(keys)) {
      take_task();
      opens_task = true;
    }
    if (number_ != Record::none) {
      write(keys, record);
      if (opens_task) write_rows(record);
    }
    if (lane_ == 0) {
      record.number = number_;
      record.task = task_;
    }
    if (number_ != Record::none) move_on(keys);
  }

 private:
  static constexpr unsigned all = 0xffffffffu;
  static constexpr int keys_per_thread = tile_keys / 32;

  /// Which keys are gathered: those of rows of several warps, by all threads; those of the rows of
  /// one warp for each team of 8; those of the last warp that has any, by all threads.
  enum class Pass { of_several_warps, of_each_warp, of_one_warp };

  /// Keys of a tile: of a team, and in this thread those numbered as the thread and a team's width
  /// later.
  struct Keys {
    int count = 0;
    long long slot[keys_per_thread];
    int position[keys_per_thread];
    int begin[keys_per_thread], end[keys_per_thread];  ///< rows
  };

  __device__ void take_task() {
    if (lane_ == 0) number_ = atomicAdd(&queue_->next, 1);
    number_ = __shfl_sync(all, number_, 0);
    if (number_ >= tasks_) {
      number_ = Record::none;
      return;
    }
    int const of_head = number_ / kv_heads_;
    task_.kv_head = number_ % kv_heads_;
    task_.item = plan_.items[of_head / row_blocks_];
    task_.first_row = of_head % row_blocks_ * tile_rows;
    int const queries = task_.item.query_end - task_.item.query_begin;
    task_.rows = min(queries * group_ - task_.first_row, tile_rows);
    task_.narrow = queries <= narrow_queries_;
    begin_pass(Pass::of_several_warps, 0);
  }

  // ---- passes

  __device__ void begin_pass(Pass pass, int warp) {
    pass_ = pass;
    width_ = pass == Pass::of_each_warp ? 8 : 32;
    warp_ = warp;
    if (pass != Pass::of_one_warp) range_ = task_.item.range_begin, taken_ = 0;
  }

  /// The next keys of the task, up to a tile; false where it has no more.
  __device__ bool gather(Keys& keys) {
    keys.count = 0;
    fill(keys);
    if (__any_sync(all, keys.count > 0)) return true;
    if (pass_ != Pass::of_several_warps || task_.rows <= warp_rows) return false;
    begin_pass(Pass::of_each_warp, lane_ / 8);
    fill(keys);
    return __any_sync(all, keys.count > 0);
  }

  /// Where all keys were of one warp, its others are as well, and need not leave room.
  __device__ void move_on(Keys const& keys) {
    if (pass_ != Pass::of_each_warp) return;
    unsigned const having = __ballot_sync(all, keys.count > 0);
    int const team = (__ffs(having) - 1) / 8;
    if (having != 0xffu << 8 * team) return;
    range_ = __shfl_sync(all, range_, 8 * team);
    taken_ = __shfl_sync(all, taken_, 8 * team);
    begin_pass(Pass::of_one_warp, team);
  }

  __device__ bool is_of_pass(int begin_row, int end_row) const {
    int const first = begin_row / warp_rows, last = (end_row - 1) / warp_rows;
    if (pass_ == Pass::of_several_warps) return first != last || task_.rows <= warp_rows;
    return first == last && first == warp_;
  }

  // ---- keys

  /// A row of the task for a query of the item, within the tile.
  __device__ int row_of(int query) const {
    return min(max((query - task_.item.query_begin) * group_ - task_.first_row, 0), task_.rows);
  }

  __device__ void fill(Keys& keys) {
    for (;;) {
      bool const more = keys.count < keys_per_thread * width_ && range_ < task_.item.range_end;
      if (!__any_sync(all, more)) return;
      take_ranges(keys, more);
    }
  }

  /// Appends keys of the next ranges, each of which a thread of the team looks at; `more`: whether
  /// this team wants any.
  __device__ void take_ranges(Keys& keys, bool more) {
    int const thread = lane_ % width_;
    KeyRange range{};
    int length = 0, begin_row = 0, end_row = 0;
    if (more && range_ + thread < task_.item.range_end) {
      range = plan_.ranges[range_ + thread];
      begin_row = row_of(range.query_begin);
      end_row = row_of(range.query_end);
      if (begin_row < end_row && is_of_pass(begin_row, end_row)) length = range.length;
    }
    if (thread == 0 && length > 0) {  // a tile before has had some of its keys
      range.slot_begin += taken_;
      range.position += taken_;
      length -= taken_;
    }
    int end = length;  // behind the range's keys, counted over the ranges
    for (int step = 1; step < width_; step *= 2) {
      int const before = __shfl_up_sync(all, end, step, width_);
      if (thread >= step) end += before;
    }
    int const total = __shfl_sync(all, end, width_ - 1, width_);
    FASTTREE_UNROLL
    for (int i = 0; i < keys_per_thread; ++i) {
      int const key = thread + width_ * i - keys.count;
      int from = 0;  // the thread whose range has the key
      for (int step = width_ / 2; step > 0; step /= 2)
        if (__shfl_sync(all, end, from + step - 1, width_) <= key) from += step;
      int const offset = key - __shfl_sync(all, end - length, from, width_);
      long long const slot =
          __shfl_sync(all, static_cast<long long>(range.slot_begin), from, width_);
      int const position = __shfl_sync(all, range.position, from, width_);
      int const rows = __shfl_sync(all, begin_row | end_row << 8, from, width_);
      if (key < 0 || key >= total) continue;
      keys.slot[i] = slot + offset;
      keys.position[i] = position + offset;
      keys.begin[i] = rows & 0xff;
      keys.end[i] = rows >> 8;
    }
    advance(keys, more, length, end, total);
  }

  /// Moves on behind the keys that found room in the tile.
  __device__ void advance(Keys& keys, bool more, int length, int end, int total) {
    int const room = keys_per_thread * width_ - keys.count;
    unsigned const team = width_ == 32 ? all : 0xffu << lane_ / 8 * 8;
    int const whole = __popc(__ballot_sync(all, end <= room) & team);  // ranges with all their keys
    int const first = __shfl_sync(all, end - length, whole % width_, width_);
    if (!more) return;
    if (total <= room) {
      keys.count += total;
      range_ += width_;
      taken_ = 0;
    } else {
      keys.count += room;
      range_ += whole;
      taken_ = (whole == 0 ? taken_ : 0) + room - first;
    }
  }

  // ---- records

  __device__ void write(Keys const& keys, Record& record) const {
    bool for_all_rows = true, aligned = true;
    int last_position = -1;
    FASTTREE_UNROLL
    for (int i = 0; i < keys_per_thread; ++i) {
      int const of_team = lane_ % width_ + width_ * i;
      int const key = lane_ / width_ * keys_per_thread * width_ + of_team;
      bool const exists = of_team < keys.count;
      int const begin = exists ? keys.begin[i] : tile_rows, end = exists ? keys.end[i] : 0;
      Stored const *key_row = nullptr, *value_row = nullptr;
      if (exists) {
        auto const at = cache_.locate(keys.slot[i]);
        key_row = cache_.key(at, task_.kv_head);
        value_row = cache_.value(at, task_.kv_head);
        last_position = max(last_position, keys.position[i]);
      }
      aligned = aligned && (address(key_row) | address(value_row)) % 16 == 0;
      record.keys[key] = key_row;
      record.values[key] = value_row;
      record.positions[key] = exists ? keys.position[i] : 0;
      record.row_begin[key] = static_cast<std::uint8_t>(begin);
      record.row_end[key] = static_cast<std::uint8_t>(end);
      for_all_rows = for_all_rows && begin == 0 && end == task_.rows;
    }
    record.for_all_rows = __all_sync(all, for_all_rows);
    record.aligned = __all_sync(all, aligned);
    record.last_position = __reduce_max_sync(all, last_position);
    __syncwarp();
    int const group = lane_ % (tile_keys / group_keys);
    int begin = tile_rows, end = 0;
    for (int key = group * group_keys; key < (group + 1) * group_keys; ++key) {
      begin = min(begin, static_cast<int>(record.row_begin[key]));
      end = max(end, static_cast<int>(record.row_end[key]));
    }
    FASTTREE_UNROLL
    for (int warp = 0; warp < tile_rows / warp_rows; ++warp)
      record.groups_of_warp[warp] = static_cast<std::uint8_t>(
          __ballot_sync(all, begin < (warp + 1) * warp_rows && end > warp * warp_rows) & 0xf);
  }

  __device__ static std::uintptr_t address(Stored const* row) {
    return reinterpret_cast<std::uintptr_t>(row);
  }

  /// Where the queries of the task are. Rows past its last are copies of it.
  __device__ void write_rows(Record& record) const {
    for (int row = lane_; row < tile_rows; row += 32) {
      int const of_item = task_.first_row + min(row, task_.rows - 1);
      int const query = task_.item.query_begin + of_item / group_;
      int const head = task_.kv_head * group_ + of_item % group_;
      record.visible[row] = plan_.visible_keys[query];
      Stored const* const elements = &queries_(plan_.query_order[query], head, 0);
      record.queries[row] = elements;
      for (std::int64_t d = 0; d < queries_.extents[2]; d += 64)
        prefetch_to_l2(elements + d * queries_.strides[2]);
    }
  }

  PlanArrays const& plan_;
  WorkQueue* queue_;
  Cache const& cache_;
  StridedArray<Stored const, 3> const& queries_;
  int lane_, kv_heads_, group_, row_blocks_, tasks_, narrow_queries_;
  int number_ = 0;  ///< of the task; at first none is open, and its ranges are at an end
  Task task_{};
  Pass pass_ = Pass::of_one_warp;
  int width_ = 32;  ///< threads of a team
  int warp_ = 0;    ///< whose rows see the keys that the team gathers
  int range_ = 0;   ///< the next range of the team
  int taken_ = 0;   ///< keys of it that earlier tiles hold
};

}  // namespace fasttree::cuda::sm80
