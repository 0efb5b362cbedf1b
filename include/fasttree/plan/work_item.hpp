// SPDX-License-Identifier: Apache-2.0
#pragma once
// The records of a plan, as kernels read them. Queries are numbered in the plan's depth-first
// order. Law: over all items of a plan, every pair of a query and a key on its path is covered
// exactly once.

#include <cstdint>

namespace fasttree {

/// Keys with consecutive slots and consecutive positions, and the interval of queries that attend
/// to them (inside the item's interval: so one item can carry a whole subtree, upper nodes for all
/// its queries, a leaf's keys for one).
struct KeyRange {
  std::int64_t slot_begin;
  int length;
  int position;  ///< of the first key, along the path of every query that attends to it
  int query_begin, query_end;

  friend constexpr bool operator==(KeyRange const&, KeyRange const&) = default;
};

/// What one team of threads computes for each KV head: an interval of queries against key ranges.
struct WorkItem {
  int query_begin, query_end;
  int range_begin, range_end;
  int partial_begin;  ///< the partial result of its first query, or `direct`

  /// No other item has keys for these queries: results go straight to the output.
  static constexpr int direct = -1;

  friend constexpr bool operator==(WorkItem const&, WorkItem const&) = default;
};

}  // namespace fasttree
