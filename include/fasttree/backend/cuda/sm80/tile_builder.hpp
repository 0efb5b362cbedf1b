// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which keys a tile holds, where they lie and which rows see them: found out by warps of their own
// while others multiply, so that nobody waits for the plan or for a page table. All of them go
// through the same tiles, and each writes 32 keys of every tile; of a task's queries, which are
// its first tile, all but the last write parts of 32, while that one sorts the task's ranges.
// Tasks are (work item, KV head) pairs from the workspace's queue, in the plan's order. The ranges
// of a task are sorted into a table (key_table.hpp); in its order their keys stand side by side in
// tiles: those that rows of several warps see in turn with those of one warp each, 16 of every
// warp in a tile, so that leaves of different warps are multiplied at the same time.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/cp_async.hpp>
#include <fasttree/backend/cuda/sm80/key_table.hpp>
#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/core/strided_array.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree::cuda::sm80 {

/// The building warps' own.
template <class Stored, int Warps>
struct BuilderMemory {
  KeyRow<Stored> rows[Block<Warps>::tile_keys];  ///< of the tile that is written, by parts
  typename KeyTable<Warps>::Memory table;
  int number;                                    ///< of the task
  int least_visible[Block<Warps>::build_warps];  ///< keys of its path, by 32 rows that see them
};

/// What a building warp knows; all know the same, but for the key that a thread is to find.
template <class Cache, int Warps>
class TileBuilder {
 public:
  using Stored = typename Cache::element_type;

  __device__ TileBuilder(PlanArrays const& plan, WorkQueue* queue, Cache const& cache,
                         StridedArray<Stored const, 3> const& queries, int kv_heads, int group,
                         BuilderMemory<Stored, Warps>& memory)
      : plan_(plan),
        queue_(queue),
        cache_(cache),
        queries_(queries),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32 - Warps),
        kv_heads_(kv_heads),
        row_blocks_(group > tile_rows ? (group + tile_rows - 1) / tile_rows : 1),
        tasks_(plan.counts->items * kv_heads * row_blocks_),
        narrow_queries_(plan.counts->narrow_queries),
        table_(memory.table) {
    task_.group = group;
  }

  /// Chooses the next keys of the block, up to a tile; false where it has no more. Calls
  /// `open_task` where they are those of a new task.
  template <class OpenTask>
  __device__ bool gather(OpenTask const& open_task) {
    while (!has_keys()) {
      synchronize();  // nobody needs the table any more
      if (range_ >= task_.item.range_end) {
        if (!take_task()) return false;
        open_task();
      }
      if (warp_ == last_warp) fill_table();
      synchronize();
      table_.read_bounds();
      read_least_visible();
      range_ += Table::capacity;
      begin_streams();
    }
    return true;
  }

  /// Describes the new task, and calls copy_queries(rows, part) for every 32 of its rows. Rows past
  /// its last are copies of it. By all warps but the last, which fills the table meanwhile.
  template <class CopyQueries>
  __device__ void describe_task(TaskRecord<Warps>& record, CopyQueries const& copy_queries) {
    if (warp_ == last_warp) return;
    if (warp_ == 0 && lane_ == 0) record.task = task_;
#pragma unroll 1
    for (int part = warp_; 32 * part < task_.row_warps * warp_rows; part += last_warp) {
      int const row = 32 * part + lane_;
      auto const [of_item, head] = task_.row(min(row, task_.rows - 1));
      int const query = task_.item.query_begin + of_item;
      record.visible[row] = plan_.visible_keys[query];
      record.queries[row] = plan_.query_order[query];
      record.of_item[row] = static_cast<std::uint8_t>(of_item);
      memory_.rows[row].key = &queries_(record.queries[row], head, 0);
      int const least = __reduce_min_sync(all, record.visible[row]);
      if (lane_ == 0) memory_.least_visible[part] = least;
      __syncwarp();
      copy_queries(memory_.rows + 32 * part, part);
    }
  }

  /// Goes on to the next tile.
  __device__ void pass() {
    bool const in_tile = side_by_side_ > 0 ? stream_ != several_lane : stream_ == first_stream_;
    if (in_tile) next_ = min(next_ + (tile_keys >> side_by_side_), end_);
  }

  /// Whether the task has no keys after the tiles that have been passed.
  __device__ bool ends_task() const {
    return !__any_sync(all, next_ < end_) && range_ >= task_.item.range_end;
  }

  /// Finds out where the keys of the warp's part of the tile lie.
  __device__ void locate() {
    int const key = 32 * warp_ + lane_;  // of the tile
    int const group = key / group_keys;
    int const stream = side_by_side_ > 0 ? group & ((1 << side_by_side_) - 1) : first_stream_;
    int const of_stream = (group >> side_by_side_) * group_keys + key % group_keys;
    int const number = __shfl_sync(all, next_, stream) + of_stream;
    int const end = __shfl_sync(all, end_, stream);
    exists_ = number < end;
    together_ = first_stream_ == several_lane
                    ? min(end - __shfl_sync(all, next_, several_lane), tile_keys)
                    : 0;
    // A step of wgmma multiplies what two or four warps wrote.
    is_empty_ = together_ > 0 ? warp_ / 2 * 64 >= together_ : !__any_sync(all, exists_);
    // Places without a key take that of one that is there, so that they hold numbers.
    int const near = together_ > 0 ? near_of_several_ : near_of_one_;
    found_ = table_.find(exists_ ? number : some_key_, near);
    (together_ > 0 ? near_of_several_ : near_of_one_) = found_.range;
    auto const at = cache_.locate(found_.slot);
    KeyRow<Stored> const row{cache_.key(at, task_.kv_head), cache_.value(at, task_.kv_head)};
    aligned_ = __all_sync(all, (address(row.key) | address(row.value)) % 16 == 0);
    memory_.rows[key] = row;
    __syncwarp();
  }

  /// Describes the warp's part of the tile, when it has been located.
  __device__ void describe(TileRecord<Warps>& record) const {
    int const key = 32 * warp_ + lane_;
    int const begin = found_.rows & 0xff, end = found_.rows >> 8;
    record.positions[key] = found_.position;
    record.rows[key] = static_cast<std::uint16_t>(exists_ ? begin | (end - begin) << 8 : 0);
    bool const for_all_rows = __all_sync(all, exists_ && begin == 0 && end == task_.rows);
    bool const has_tails = __any_sync(all, exists_ && found_.position >= least_visible_);
    // Of both groups, the warps that see them, a bit for each.
    unsigned const seen_by =
        exists_ ? (2u << (end - 1) / warp_rows) - (1u << begin / warp_rows) : 0u;
    bool const first = lane_ < group_keys;
    unsigned const groups[] = {__reduce_or_sync(all, first ? seen_by : 0u),
                               __reduce_or_sync(all, first ? 0u : seen_by)};
    if (lane_ < Warps) {
      int const row_warp = lane_ & (task_.row_warps - 1);
      unsigned bits = 0;
      for (int g = 0; g < 2; ++g)
        if (lane_ >> row_shift_ == (2 * warp_ + g) >> row_shift_)
          bits |= (groups[g] >> row_warp & 1) << g;
      record.groups[lane_][warp_] = static_cast<std::uint8_t>(bits);
    }
    if (lane_ == 0) {
      using Record = TileRecord<Warps>;
      record.masks[warp_] = static_cast<std::uint8_t>((for_all_rows ? 0 : Record::some_rows) |
                                                      (has_tails ? Record::tails : 0));
      if (warp_ == 0) record.together = (together_ + part_keys - 1) / part_keys;
    }
  }

  /// Where the keys of the warp's part of the tile lie.
  __device__ KeyRow<Stored> const* rows() const { return memory_.rows + 32 * warp_; }

  /// Whether the part has no keys.
  __device__ bool is_empty() const { return is_empty_; }

  /// Whether all rows of keys and values of the part begin at multiples of 16 bytes.
  __device__ bool aligned() const { return aligned_; }

 private:
  using Table = KeyTable<Warps>;
  static constexpr int tile_rows = Block<Warps>::tile_rows;
  static constexpr int tile_keys = Block<Warps>::tile_keys;
  static constexpr int part_keys = TileRecord<Warps>::part_keys;
  static constexpr int several_lane = 16;
  static constexpr int last_warp = Block<Warps>::build_warps - 1;
  static constexpr int build_threads = 32 * Block<Warps>::build_warps;
  static constexpr unsigned all = 0xffffffffu;

  __device__ static void synchronize() { barrier<2, build_threads>(); }

  // ---- tasks

  __device__ bool take_task() {
    if (warp_ == 0 && lane_ == 0) memory_.number = atomicAdd(&queue_->next, 1);
    synchronize();
    int const number = memory_.number;
    if (number >= tasks_) return false;
    unsigned const heads = static_cast<unsigned>(kv_heads_);
    int of_head = static_cast<int>(static_cast<unsigned>(number) / heads);
    task_.kv_head = number - of_head * kv_heads_;
    task_.first_row = 0;
    if (row_blocks_ > 1) {
      task_.first_row = of_head % row_blocks_ * tile_rows;
      of_head /= row_blocks_;
    }
    task_.item = plan_.items[of_head];
    int const queries = task_.item.query_end - task_.item.query_begin;
    task_.rows = min(queries * task_.group - task_.first_row, tile_rows);
    row_shift_ = queries <= narrow_queries_ ? 0 : task_.rows <= 32 ? 1 : task_.rows <= 64 ? 2 : 3;
    task_.row_warps = 1 << row_shift_;
    range_ = task_.item.range_begin;
    return true;
  }

  __device__ void read_least_visible() {
    least_visible_ = memory_.least_visible[0];
    for (int warp = 1; 32 * warp < task_.row_warps * warp_rows; ++warp)
      least_visible_ = min(least_visible_, memory_.least_visible[warp]);
  }

  // ---- keys

  /// Puts the next ranges of the task into the table.
  __device__ void fill_table() {
    table_.fill(plan_.ranges, range_, task_.item.range_end,
                [&](KeyRange const& range) { return rows_of(range); });
  }

  /// The rows of the task for a range: the first, and 256 times the one behind the last.
  __device__ int rows_of(KeyRange const& range) const {
    auto const row_of = [&](int query) {
      return min(max((query - task_.item.query_begin) * task_.group - task_.first_row, 0),
                 task_.rows);
    };
    return row_of(range.query_begin) | row_of(range.query_end) << 8;
  }

  /// Threads `several_lane` and up keep count of the stream of several warps' rows, which goes by
  /// that number here, those below of the streams of one warp's. The former is first, so that the
  /// tiles of a task are the same whatever its block had before.
  __device__ void begin_streams() {
    stream_ = lane_ < several_lane ? lane_ & (task_.row_warps - 1) : several_lane;
    int const of_table = stream_ == several_lane ? Table::several : Table::of_warp(stream_);
    next_ = table_.begin(of_table);
    end_ = table_.begin(of_table + 1);
    near_of_several_ = near_of_one_ = 0;
    int const of_several = __shfl_sync(all, end_ - next_, several_lane);
    int const of_one = __reduce_add_sync(all, lane_ < task_.row_warps ? end_ - next_ : 0);
    in_a_row_ = of_one / 2 >= of_several ? 2 : 1;
    before_several_ = 0;
  }

  /// Whether keys of the table are left; chooses those that fill the next tile: of several warps'
  /// rows and of one warp's in turn, of the latter two at a time where they are twice as many, so
  /// that shared keys are multiplied while the others, which nobody has read yet, come from memory.
  __device__ bool has_keys() {
    unsigned const having = __ballot_sync(all, next_ < end_);
    if (having == 0) return false;
    unsigned const of_one = having & ((1u << several_lane) - 1);
    bool const is_last =
        __popc(of_one) << row_shift_ == several_lane;  // need not leave room for others
    bool const of_several = having != of_one && (of_one == 0 || before_several_ == 0);
    before_several_ = of_several ? in_a_row_ : before_several_ - 1;
    first_stream_ = of_several ? several_lane : __ffs(of_one) - 1;
    side_by_side_ = of_several || is_last ? 0 : row_shift_;
    some_key_ = __shfl_sync(all, next_, first_stream_);
    return true;
  }

  __device__ static std::uintptr_t address(Stored const* row) {
    return reinterpret_cast<std::uintptr_t>(row);
  }

  PlanArrays const& plan_;
  WorkQueue* queue_;
  Cache const& cache_;
  StridedArray<Stored const, 3> const& queries_;
  BuilderMemory<Stored, Warps>& memory_;
  int lane_, warp_, kv_heads_, row_blocks_, tasks_, narrow_queries_;
  Task task_{};
  int row_shift_ = 0;  ///< two to the power of it: task_.row_warps
  int least_visible_ = 0;
  int range_ = 0;  ///< of the task, the first that has not been in the table
  Table table_;
  int stream_ = 0;          ///< that this thread keeps count of
  int next_ = 0, end_ = 0;  ///< its keys that are still to be gathered
  int side_by_side_ = 0;    ///< two to the power of it: streams of one warp in the tile
  int first_stream_ = 0;    ///< of the tile: its only one, unless several are side by side
  int in_a_row_ = 1;        ///< tiles of one warp's keys, while there are others
  int before_several_ = 0;  ///< such tiles before it is several warps' turn
  int together_ = 0;        ///< keys of several warps' rows in the tile
  int some_key_ = 0;        ///< one of those of the tile
  int near_of_several_ = 0, near_of_one_ = 0;  ///< ranges of the last keys found in such streams
  typename Table::Key found_{};                ///< of this thread in the tile
  bool exists_ = false;                        ///< else another's stands in its place
  bool is_empty_ = false, aligned_ = true;
};

}  // namespace fasttree::cuda::sm80
