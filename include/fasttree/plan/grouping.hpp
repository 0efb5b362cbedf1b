// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a planner policy decides: which queries read which keys together, and how large the pieces
// are. `build_plan` cuts it into work items. Queries are numbered in the depth-first order chosen
// here.

#include <cstdint>
#include <vector>

#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/plan_tables.hpp>

namespace fasttree {

/// Queries that read keys together: query tiles of `queries_per_item` times key pieces of
/// `keys_per_item`, both positive. Of each range, those queries of the group read it that lie in
/// the range's own interval.
struct KeyGroup {
  int query_begin, query_end;
  int range_begin, range_end;
  int queries_per_item;
  int keys_per_item;
};

/// Neighbouring queries, and what a policy thinks that reading their keys together takes.
struct PricedBlock {
  int begin, end;
  bool upper;    ///< reads the upper part of the paths; see planner/path_parts.hpp
  bool partial;  ///< yields partial results even if one item reads all its keys
  /// How many pieces take least, of one, two, four, ...: it is not cut into fewer.
  std::int64_t pieces;
  double keys;
  double time;        ///< microseconds of one item for all of it,
  double piece_time;  ///< and of the longest of the pieces
};

/// The path of a query, in keys.
struct QueryPath {
  int bottom;    ///< the place, in depth-first order, of the node at its end
  int keys;      ///< of all of it
  int seen;      ///< by the query
  int shared;    ///< with the query before it
  int unpadded;  ///< above nodes that fit the wide tile and whose queries begin with this one
  int top;       ///< above the node at which it may be parted; see planner/path_parts.hpp
};

/// Memory for policies to think in; what it holds means nothing between plans. Each array is named
/// by what planner/path_parts.hpp, query_blocks.hpp, block_search.hpp and block_pieces.hpp keep in
/// it.
struct PolicyScratch {
  std::vector<QueryPath> paths;                         ///< by queries
  std::vector<int> upper_shared, lower_shared, parted;  ///< by queries
  std::vector<double> upper_keys, lower_keys;           ///< by queries
  std::vector<double> padded_keys, upper_pairs;         ///< by queries
  std::vector<double> gain;                             ///< by queries of a node
  std::vector<double> least, with_block, stretch;       ///< by queries
  std::vector<int> block_begins;
  std::vector<PricedBlock> blocks, best_blocks;
  std::vector<int> block_order, class_of_block, next_in_class;
  std::vector<KeyRange> ranges;
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
  PolicyScratch scratch;

  constexpr void clear() {
    for (auto* array : {&request_order, &node_begin, &query_begin, &items_of_query}) array->clear();
    groups.clear();
    ranges.clear();
    decisions.clear();
  }
};

}  // namespace fasttree
