// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which keys a tile holds, where they lie and which rows see them: found out by two warps while
// others multiply, so that nobody waits for the plan or for a page table. The two go through the
// same tiles, and write them in turn. Tasks are (work item, KV head) pairs from the workspace's
// queue, in the plan's order. The ranges of a task are sorted into a table (key_table.hpp); in the
// order of the table their keys stand side by side in tiles: first those that rows of several warps
// see, then those of one warp each, 16 of every warp in a tile, so that leaves of different warps
// are multiplied at the same time.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/cp_async.hpp>
#include <fasttree/backend/cuda/sm80/key_table.hpp>
#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/strided_array.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int build_warps = 2;

/// The building warps' own.
template <class Stored>
struct BuilderMemory {
  KeyRow<Stored> rows[build_warps][tile_keys];  ///< of the tile that a warp writes
  KeyTable::Memory table;
  int number;         ///< of the task
  int least_visible;  ///< keys of its path that some row of the task sees
};

/// What a building warp knows; both know the same. Its threads gather keys together, or in teams of
/// 8 for a warp's rows each; what is said of a team is the same in each thread of it.
template <class Cache>
class TileBuilder {
 public:
  using Stored = typename Cache::element_type;

  __device__ TileBuilder(PlanArrays const& plan, WorkQueue* queue, Cache const& cache,
                         StridedArray<Stored const, 3> const& queries, int kv_heads, int group,
                         BuilderMemory<Stored>& memory)
      : plan_(plan),
        queue_(queue),
        cache_(cache),
        queries_(queries),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32 % build_warps),
        kv_heads_(kv_heads),
        group_(group),
        row_blocks_(group > tile_rows ? (group + tile_rows - 1) / tile_rows : 1),
        tasks_(plan.counts->items * kv_heads * row_blocks_),
        narrow_queries_(plan.counts->narrow_queries),
        table_(memory.table) {}

  /// Chooses the next keys of the block, up to a tile; false where it has no more. `next_record` is
  /// where to describe their task if it is a new one: then true in `opens_task`.
  __device__ bool gather(TaskRecord& next_record, bool& opens_task) {
    opens_task = false;
    while (!has_keys()) {
      synchronize();  // nobody needs the table any more
      if (range_ >= task_.item.range_end) {
        if (!take_task()) return false;
        opens_task = true;
      }
      if (warp_ == 0) {
        fill_table();
      } else if (opens_task) {
        describe_task(next_record);
      }
      synchronize();
      table_.read_bounds();
      least_visible_ = memory_.least_visible;
      range_ += KeyTable::capacity;
      begin_pass(Pass::of_several_warps, KeyTable::several);
    }
    return true;
  }

  /// Goes on to the next tile.
  __device__ void pass() { next_ = min(next_ + 2 * width_, end_); }

  /// Describes the tile; where its keys lie is then in the builder's memory.
  __device__ void write(TileRecord& record) {
    bool for_all_rows = true;
    int last_position = -1;
    unsigned groups_of_warps = 0;
    Stored const *key_row[2], *value_row[2];
    aligned_ = true;
    FASTTREE_UNROLL
    for (int i = 0; i < 2; ++i) {
      int const of_team = thread_ + width_ * i, key = first_key_ + of_team;
      bool const exists = of_team < end_ - next_;
      // Places without a key take that of one that is there, so that they hold numbers.
      KeyTable::Key const found = table_.find(exists ? next_ + of_team : some_key_, near_[i]);
      auto const at = cache_.locate(found.slot);
      key_row[i] = cache_.key(at, task_.kv_head);
      value_row[i] = cache_.value(at, task_.kv_head);
      aligned_ = aligned_ && (address(key_row[i]) | address(value_row[i])) % 16 == 0;
      memory_.rows[warp_][key] = {key_row[i], value_row[i]};
      int const begin = found.rows & 0xff, end = found.rows >> 8;
      record.positions[key] = found.position;
      record.rows[key] = static_cast<std::uint16_t>(exists ? begin | (end - begin) << 8 : 0);
      for_all_rows = for_all_rows && exists && begin == 0 && end == task_.rows;
      if (!exists) continue;
      last_position = max(last_position, found.position);
      int const first_warp = begin / warp_rows, last_warp = (end - 1) / warp_rows;
      groups_of_warps |= (0x1111u << 4 * first_warp & 0x1111u >> 4 * (3 - last_warp))
                         << key / group_keys;
    }
    aligned_ = __all_sync(all, aligned_);
    for_all_rows = __all_sync(all, for_all_rows);
    last_position = __reduce_max_sync(all, last_position);
    groups_of_warps = __reduce_or_sync(all, groups_of_warps);
    if (lane_ == 0) {
      record.for_all_rows = for_all_rows;
      record.has_tails = last_position >= least_visible_;
      record.together = pass_ == Pass::of_several_warps && !task_.narrow;
      record.groups_of_warps = static_cast<std::uint16_t>(groups_of_warps);
    }
    __syncwarp();
  }

  /// Where the keys of the tile lie.
  __device__ KeyRow<Stored> const* rows() const { return memory_.rows[warp_]; }

  /// Whether all rows of keys and values of the tile begin at multiples of 16 bytes.
  __device__ bool aligned() const { return aligned_; }

 private:
  static constexpr unsigned all = 0xffffffffu;

  /// Which keys are gathered: those of rows of several warps, by all threads; those of the rows of
  /// one warp for each team of 8; those of the last warp that has any, by all threads.
  enum class Pass { of_several_warps, of_each_warp, of_one_warp };

  __device__ static void synchronize() { barrier<2, 32 * build_warps>(); }

  // ---- tasks

  __device__ bool take_task() {
    int number = static_cast<int>(blockIdx.x);  // then those that no block begins with
    if (has_begun_) {
      if (warp_ == 0 && lane_ == 0)
        memory_.number = static_cast<int>(gridDim.x) + atomicAdd(&queue_->next, 1);
      synchronize();
      number = memory_.number;
    }
    has_begun_ = true;
    if (number >= tasks_) return false;
    int const of_head = number / kv_heads_;
    task_.kv_head = number % kv_heads_;
    task_.item = plan_.items[of_head / row_blocks_];
    task_.first_row = of_head % row_blocks_ * tile_rows;
    int const queries = task_.item.query_end - task_.item.query_begin;
    task_.rows = min(queries * group_ - task_.first_row, tile_rows);
    task_.narrow = queries <= narrow_queries_;
    range_ = task_.item.range_begin;
    return true;
  }

  /// Where the queries of the task are. Rows past its last are copies of it.
  __device__ void describe_task(TaskRecord& record) {
    if (lane_ == 0) record.task = task_;
    int least = 0x7fffffff;
    for (int row = lane_; row < tile_rows; row += 32) {
      int const known = min(row, task_.rows - 1);
      int const query = task_.item.query_begin + task_.query_of(known, group_);
      record.visible[row] = plan_.visible_keys[query];
      least = min(least, record.visible[row]);
      record.queries[row] = plan_.query_order[query];
      Stored const* const elements =
          &queries_(record.queries[row], task_.head_of(known, group_), 0);
      for (std::int64_t d = 0; d < queries_.extents[2]; d += 64)
        prefetch_to_l2(elements + d * queries_.strides[2]);
    }
    memory_.least_visible = __reduce_min_sync(all, least);
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
      return min(max((query - task_.item.query_begin) * group_ - task_.first_row, 0), task_.rows);
    };
    return row_of(range.query_begin) | row_of(range.query_end) << 8;
  }

  __device__ void begin_pass(Pass pass, int stream) {
    bool const in_teams = pass == Pass::of_each_warp;
    pass_ = pass;
    width_ = in_teams ? 8 : 32;
    thread_ = in_teams ? lane_ % 8 : lane_;
    first_key_ = in_teams ? lane_ / 8 * group_keys : 0;
    next_ = table_.begin(stream);
    end_ = table_.begin(stream + 1);
    near_[0] = near_[1] = 0;
  }

  /// Whether keys of the table are left; goes on to the pass that they are in.
  __device__ bool has_keys() {
    unsigned having = __ballot_sync(all, next_ < end_);
    if (having == 0 && pass_ == Pass::of_several_warps) {
      begin_pass(Pass::of_each_warp, KeyTable::of_warp(lane_ / 8));
      having = __ballot_sync(all, next_ < end_);
    }
    if (having == 0) return false;
    int const team = (__ffs(having) - 1) / 8;
    if (pass_ == Pass::of_each_warp && having == 0xffu << 8 * team) {
      // All others are done, and need not leave room.
      int const next = __shfl_sync(all, next_, 8 * team);
      begin_pass(Pass::of_one_warp, KeyTable::of_warp(team));
      next_ = next;
    }
    some_key_ = __shfl_sync(all, next_, pass_ == Pass::of_each_warp ? 8 * team : 0);
    return true;
  }

  __device__ static std::uintptr_t address(Stored const* row) {
    return reinterpret_cast<std::uintptr_t>(row);
  }

  PlanArrays const& plan_;
  WorkQueue* queue_;
  Cache const& cache_;
  StridedArray<Stored const, 3> const& queries_;
  BuilderMemory<Stored>& memory_;
  int lane_, warp_, kv_heads_, group_, row_blocks_, tasks_, narrow_queries_;
  bool has_begun_ = false, aligned_ = true;
  Task task_{};
  int least_visible_ = 0;
  int range_ = 0;  ///< of the task, the first that has not been in the table
  KeyTable table_;
  Pass pass_ = Pass::of_one_warp;
  int width_ = 32;          ///< threads of a team
  int thread_ = 0;          ///< of the team
  int first_key_ = 0;       ///< of the tile, that the team gathers
  int next_ = 0, end_ = 0;  ///< keys of the table that the team has still to gather
  int some_key_ = 0;        ///< one of those of the tile
  int near_[2] = {};        ///< ranges of the table, of the last keys that this thread found
};

}  // namespace fasttree::cuda::sm80
