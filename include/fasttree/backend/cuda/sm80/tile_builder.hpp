// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which keys a tile holds, where they lie and which rows see them: written by one warp, a tile
// ahead of the copies and two ahead of the arithmetic, so that nobody waits for the plan or for a
// page table. Tasks are (work item, KV head) pairs from the workspace's queue, in the plan's order;
// the keys of a task's ranges stand side by side in its tiles, whatever ranges they are from.

#include <cstdint>

#include <fasttree/core/kokkos.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int tile_keys = 64;
inline constexpr int tile_rows = 64;
inline constexpr int group_keys = 16;  ///< keys that a step of the arithmetic takes

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
  Stored const* keys[tile_keys];  ///< null past the last key of a task
  Stored const* values[tile_keys];
  int positions[tile_keys];                               ///< along the paths
  std::uint8_t row_begin[tile_keys], row_end[tile_keys];  ///< rows of the task that attend to a key
  std::uint8_t group_begin[tile_keys / group_keys];       ///< the least and the largest of a group
  std::uint8_t group_end[tile_keys / group_keys];
  int last_position;  ///< the largest
  bool for_all_rows;  ///< all keys exist, and all rows attend to them as far as their tails allow
  int number;         ///< of the task; none: no task is left
  Task task;

  static constexpr int none = -1;
};

/// What the building warp knows; the same in each of its threads.
template <class Cache>
class TileBuilder {
 public:
  using Stored = typename Cache::element_type;
  using Record = TileRecord<Stored>;

  __device__ TileBuilder(PlanArrays const& plan, WorkQueue* queue, Cache const& cache, int kv_heads,
                         int group)
      : plan_(plan),
        queue_(queue),
        cache_(cache),
        lane_(static_cast<int>(threadIdx.x) % 32),
        kv_heads_(kv_heads),
        group_(group),
        row_blocks_(group > tile_rows ? (group + tile_rows - 1) / tile_rows : 1),
        tasks_(plan.counts->items * kv_heads * row_blocks_),
        narrow_queries_(plan.counts->narrow_queries) {}

  /// Writes the next tile of the block.
  __device__ void build(Record& record) {
    Keys keys;
    while (number_ != Record::none) {
      keys = gather();
      if (keys.count > 0) break;
      take_task();
    }
    if (number_ != Record::none) write(keys, record);
    if (lane_ == 0) {
      record.number = number_;
      record.task = task_;
    }
  }

  /// Takes the first task, or the next.
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
    range_ = task_.item.range_begin;
    taken_ = 0;
  }

 private:
  static constexpr unsigned all = 0xffffffffu;
  static constexpr int keys_per_thread = tile_keys / 32;

  /// Keys of a tile, those numbered lane and lane + 32 in this thread.
  struct Keys {
    int count = 0;
    long long slot[keys_per_thread];
    int position[keys_per_thread];
    int begin[keys_per_thread], end[keys_per_thread];  ///< rows
  };

  /// A row of the task for a query of the item, within the tile.
  __device__ int row_of(int query) const {
    return min(max((query - task_.item.query_begin) * group_ - task_.first_row, 0), task_.rows);
  }

  /// The next keys of the task, up to a tile; none where it has no more.
  __device__ Keys gather() {
    Keys keys;
    while (keys.count < tile_keys && range_ < task_.item.range_end) take_ranges(keys);
    return keys;
  }

  /// Appends keys of the next 32 ranges, each of which a thread looks at.
  __device__ void take_ranges(Keys& keys) {
    KeyRange range{};
    int length = 0;
    if (range_ + lane_ < task_.item.range_end) {
      range = plan_.ranges[range_ + lane_];
      range.query_begin = max(range.query_begin, task_.item.query_begin);
      range.query_end = min(range.query_end, task_.item.query_end);
      if (range.query_begin < range.query_end) length = range.length;
    }
    if (lane_ == 0) {  // a tile before has had some of its keys
      range.slot_begin += taken_;
      range.position += taken_;
      length -= taken_;
    }
    int end = length;  // behind the range's keys, counted over the ranges
    for (int step = 1; step < 32; step *= 2) {
      int const before = __shfl_up_sync(all, end, step);
      if (lane_ >= step) end += before;
    }
    int const total = __shfl_sync(all, end, 31);
    int const begin_row = row_of(range.query_begin), end_row = row_of(range.query_end);
    for (int i = 0; i < keys_per_thread; ++i) {
      int const key = lane_ + 32 * i - keys.count;
      int from = 0;  // the thread whose range has the key
      for (int step = 16; step > 0; step /= 2)
        if (__shfl_sync(all, end, from + step - 1) <= key) from += step;
      int const offset = key - __shfl_sync(all, end - length, from);
      long long const slot = __shfl_sync(all, static_cast<long long>(range.slot_begin), from);
      int const position = __shfl_sync(all, range.position, from);
      int const begin = __shfl_sync(all, begin_row, from), last = __shfl_sync(all, end_row, from);
      if (key < 0 || key >= total) continue;
      keys.slot[i] = slot + offset;
      keys.position[i] = position + offset;
      keys.begin[i] = begin;
      keys.end[i] = last;
    }
    advance(keys, length, end, total);
  }

  /// Moves on behind the keys that found room in the tile.
  __device__ void advance(Keys& keys, int length, int end, int total) {
    int const room = tile_keys - keys.count;
    if (total <= room) {
      keys.count += total;
      range_ += 32;
      taken_ = 0;
      return;
    }
    int const whole = __popc(__ballot_sync(all, end <= room));  // ranges with all their keys
    taken_ = (whole == 0 ? taken_ : 0) + room - __shfl_sync(all, end - length, whole);
    range_ += whole;
    keys.count = tile_keys;
  }

  __device__ void write(Keys const& keys, Record& record) const {
    bool for_all_rows = true;
    int last_position = -1;
    for (int i = 0; i < keys_per_thread; ++i) {
      int const key = lane_ + 32 * i;
      bool const exists = key < keys.count;
      int begin = exists ? keys.begin[i] : tile_rows, end = exists ? keys.end[i] : 0;
      record.keys[key] = record.values[key] = nullptr;
      if (exists) {
        auto const at = cache_.locate(keys.slot[i]);
        record.keys[key] = cache_.key(at, task_.kv_head);
        record.values[key] = cache_.value(at, task_.kv_head);
        record.positions[key] = keys.position[i];
        last_position = max(last_position, keys.position[i]);
      }
      record.row_begin[key] = static_cast<std::uint8_t>(begin);
      record.row_end[key] = static_cast<std::uint8_t>(end);
      for_all_rows = for_all_rows && begin == 0 && end == task_.rows;
      for (int step = group_keys / 2; step > 0; step /= 2) {
        begin = min(begin, __shfl_xor_sync(all, begin, step));
        end = max(end, __shfl_xor_sync(all, end, step));
      }
      if (lane_ % group_keys == 0) {
        record.group_begin[key / group_keys] = static_cast<std::uint8_t>(begin);
        record.group_end[key / group_keys] = static_cast<std::uint8_t>(end);
      }
    }
    record.for_all_rows = __all_sync(all, for_all_rows);
    record.last_position = __reduce_max_sync(all, last_position);
  }

  PlanArrays const& plan_;
  WorkQueue* queue_;
  Cache const& cache_;
  int lane_, kv_heads_, group_, row_blocks_, tasks_, narrow_queries_;
  int number_ = 0;
  Task task_{};
  int range_ = 0;  ///< the next range
  int taken_ = 0;  ///< keys of it that earlier tiles hold
};

}  // namespace fasttree::cuda::sm80
