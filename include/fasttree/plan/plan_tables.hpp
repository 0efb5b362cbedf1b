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
  int partials = 0;                 ///< partial results, each of all query heads
  std::int64_t slots = 0;           ///< that the cache must have
  std::int64_t unique_keys = 0;     ///< of nodes that some request attends to
  std::int64_t path_keys = 0;  ///< the same, counted once per query: what no sharing would read
  std::vector<EdgeDecision> decisions;

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
  }
};

}  // namespace fasttree
