// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stream of key tiles that a team works through: task after task from the queue, range after
// range of a task's item. A task is a work item for one KV head; neighbouring tasks are the KV
// heads of one item, which in a cache in token order lie on the same pages.

#include <fasttree/core/kokkos.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree::portable {

/// Keys [begin, begin + count) of a range, for one task; no keys past the last task.
struct Tile {
  int task, range, begin, count;
};

/// The tiles of one team; every thread of it calls each function.
class TileStream {
 public:
  PlanArrays plan;
  WorkQueue* queue;
  int kv_heads;
  int wide_keys, narrow_keys;  ///< of a tile, by the item

  KOKKOS_INLINE_FUNCTION int tasks() const { return plan.counts->items * kv_heads; }
  KOKKOS_INLINE_FUNCTION WorkItem const& item(int task) const {
    return plan.items[task / kv_heads];
  }
  KOKKOS_INLINE_FUNCTION int kv_head(int task) const { return task % kv_heads; }
  KOKKOS_INLINE_FUNCTION bool is_narrow(WorkItem const& item) const {
    return item.query_end - item.query_begin <= plan.counts->narrow_queries;
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION Tile first(Team const& team) const {
    int task = 0;
    Kokkos::single(
        Kokkos::PerTeam(team), [&](int& next) { next = Kokkos::atomic_fetch_add(&queue->next, 1); },
        task);
    if (task >= tasks()) return {task, 0, 0, 0};
    // Every item has keys: the planner makes no other.
    return tile_at(task, relevant_range(item(task), item(task).range_begin), 0);
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION Tile after(Team const& team, Tile const& tile) const {
    int const begin = tile.begin + tile.count;
    if (begin < plan.ranges[tile.range].length) return tile_at(tile.task, tile.range, begin);
    int const range = relevant_range(item(tile.task), tile.range + 1);
    if (range < item(tile.task).range_end) return tile_at(tile.task, range, 0);
    return first(team);
  }

  /// Says that the team found no task left; the last team empties the queue for the next call.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void finish(Team const& team) const {
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      if (Kokkos::atomic_fetch_add(&queue->finished, 1) == team.league_size() - 1)
        *queue = WorkQueue{};
    });
  }

 private:
  KOKKOS_INLINE_FUNCTION Tile tile_at(int task, int range, int begin) const {
    int const most = is_narrow(item(task)) ? narrow_keys : wide_keys;
    int const rest = plan.ranges[range].length - begin;
    return {task, range, begin, rest < most ? rest : most};
  }

  /// The first range, from `range` on, that concerns queries of the item.
  KOKKOS_INLINE_FUNCTION int relevant_range(WorkItem const& of, int range) const {
    while (range < of.range_end && (plan.ranges[range].query_begin >= of.query_end ||
                                    plan.ranges[range].query_end <= of.query_begin))
      ++range;
    return range;
  }
};

}  // namespace fasttree::portable
