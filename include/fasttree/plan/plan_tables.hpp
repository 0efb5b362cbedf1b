// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan on the host: what planners write and `AttentionPlan` uploads. Plain arrays, usable in
// constant expressions; their memory is reused when a plan is made again.

#include <cstdint>
#include <span>
#include <vector>

#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/tile_policy.hpp>
#include <fasttree/plan/work_item.hpp>

namespace fasttree {

/// What a planner weighed at one edge of the tree, for `explain`.
struct EdgeDecision {
  int node;              ///< the child at the edge
  int queries;           ///< of the group that reads it: all below, less those that left
  int keys;              ///< its own keys and those it has taken over
  int parent_keys;       ///< keys of its parent's group
  double cost_apart;     ///< two groups: keys split, partial results merged
  double cost_together;  ///< the child's queries read the parent's keys as well
  bool together;
};

/// What updates of a plan go by, and the memory in which they are made: see update_tables.hpp.
struct PlanUpdates {
  int room = 0;          ///< tokens for which each query has slots of its own behind its last key
  int longest_item = 0;  ///< keys of the longest item that was planned
  int ranges_read = 0;   ///< how many ranges there were when each was read by some item
  /// Ranges that end with the last key of a query and are its alone: that of each query, and some
  /// that no query attends to any more; or none, where they are not yet known.
  std::vector<int> last_ranges;
  std::vector<int> free_partials;  ///< partial results that no item writes
  std::vector<KeyRange> other_ranges;

  constexpr void clear() {
    room = longest_item = ranges_read = 0;
    last_ranges.clear();
    free_partials.clear();
  }
};

/// Work items and what surrounds them. Queries are numbered in depth-first order.
struct PlanTables {
  PlanTarget target;              ///< what the plan was made for
  Tiles tiles;                    ///< those that the planner used: a planner may do with one
  int narrow_queries = 0;         ///< items of more queries take the wide tile; 0: all do
  std::vector<int> query_order;   ///< depth-first number -> row of the query and output arrays
  std::vector<int> visible_keys;  ///< per query: how many keys of its path it sees
  std::vector<WorkItem> items;
  std::vector<KeyRange> ranges;
  std::vector<int> merge_queries;  ///< queries that no item writes: merged, or without any key
  std::vector<int> merge_begin;    ///< query, and one more -> its partial results in the next array
  std::vector<int> merge_partials;  ///< partial results, in the order in which they are merged
  int partials = 0;        ///< partial results, each of all query heads; updates leave unused ones
  std::int64_t slots = 0;  ///< that the cache must have
  /// Of nodes that some request attends to; more than there are where updates removed requests, or
  /// added some that share keys.
  std::int64_t unique_keys = 0;
  std::int64_t path_keys = 0;  ///< the same, counted once per query: what no sharing would read
  std::vector<EdgeDecision> decisions;  ///< of the last plan, before updates
  PlanUpdates updates;

  constexpr std::span<KeyRange const> ranges_of(WorkItem const& item) const {
    return std::span<KeyRange const>(ranges).subspan(item.range_begin,
                                                     item.range_end - item.range_begin);
  }

  constexpr void clear() {
    for (auto* array : {&query_order, &visible_keys, &merge_queries, &merge_begin, &merge_partials})
      array->clear();
    items.clear();
    ranges.clear();
    decisions.clear();
    narrow_queries = partials = 0;
    slots = unique_keys = path_keys = 0;
    updates.clear();
  }
};

}  // namespace fasttree
