// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a planner policy decides: which queries read which keys together, and how large the pieces
// are. `build_plan` cuts it into work items. Queries are numbered in the depth-first order chosen
// here.

#include <vector>

#include <fasttree/plan/plan_tables.hpp>

namespace fasttree {

/// Queries that read keys together: query tiles of `queries_per_item` times key pieces of
/// `keys_per_item`, both positive.
struct KeyGroup {
  int query_begin, query_end;
  int range_begin, range_end;
  int queries_per_item;
  int keys_per_item;
};

/// A policy's decision, and the memory in which the next one is made.
struct Grouping {
  Tiles tiles;                     ///< those that the groups are meant for: either may be given up
  std::vector<int> request_order;  ///< depth-first position -> request
  std::vector<int> node_begin;     ///< node -> position of the first request under it
  std::vector<int> query_begin;    ///< position, and one more -> number of its first query
  std::vector<KeyGroup> groups;
  std::vector<KeyRange> ranges;
  std::vector<EdgeDecision> decisions;  ///< for `explain`; may stay empty
  std::vector<int> items_of_query;      ///< scratch of build_plan

  constexpr void clear() {
    for (auto* array : {&request_order, &node_begin, &query_begin, &items_of_query}) array->clear();
    groups.clear();
    ranges.clear();
    decisions.clear();
  }
};

/// The machine and the heads that a plan is made for.
struct PlanTarget {
  Tiles tiles;
  int group = 1;  ///< query heads per KV head
  int kv_heads = 1;
  int slots = 1;  ///< work items that run at once

  /// Queries that fit a tile: at least one, so that any ratio of heads has a plan.
  constexpr int queries(TilePolicy const& tile) const {
    return tile.query_rows > group ? tile.query_rows / group : 1;
  }

  /// The most queries of an item that takes the narrow tile, if groups are meant for `used`: none
  /// where that tile is not there, was given up, or has not the rows of one query.
  constexpr int narrow_queries(Tiles const& used) const {
    bool const there = tiles.narrow != tiles.wide && used.narrow == tiles.narrow;
    return there ? tiles.narrow.query_rows / group : 0;
  }
};

}  // namespace fasttree
