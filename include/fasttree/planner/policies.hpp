// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a planner policy is, and the two simplest: each request alone, and every node once.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include <fasttree/plan/grouping.hpp>
#include <fasttree/planner/split_keys.hpp>
#include <fasttree/tree/prefix_tree.hpp>
#include <fasttree/tree/tree_order.hpp>

namespace fasttree {

/// A planner policy groups the queries of a tree for a machine: it calls `order_requests`, then
/// fills the groups so that each pair of a query and a key on its path is in exactly one of them.
template <class Policy>
concept PlannerPolicy = std::copy_constructible<Policy> &&
    requires(Policy const& policy, PrefixTree const& tree, PlanTarget const& target,
             Grouping& grouping) {
  policy.group(tree, target, grouping);
};

namespace detail {

/// Numbers the queries of requests that are in order.
constexpr void count_queries(PrefixTree const& tree, Grouping& grouping) {
  grouping.query_begin.resize(tree.requests() + 1);
  int queries = 0;
  for (int i = 0; i < tree.requests(); ++i) {
    grouping.query_begin[i] = queries;
    queries += tree.request(grouping.request_order[i]).query_length;
  }
  grouping.query_begin[tree.requests()] = queries;
}

}  // namespace detail

/// Orders requests depth-first into an empty grouping and numbers their queries.
constexpr void order_requests(PrefixTree const& tree, Grouping& grouping) {
  auto const copy = [](std::span<int const> from, std::vector<int>& to) {
    to.assign(from.begin(), from.end());
  };
  copy(tree.depth_first_requests(), grouping.request_order);
  copy(tree.first_places(), grouping.node_begin);
  copy(tree.query_begins(), grouping.query_begin);
}

/// The same with some children after their siblings: those for which `comes_last(child)`.
template <class ComesLast>
constexpr void order_requests(PrefixTree const& tree, ComesLast comes_last, Grouping& grouping) {
  depth_first_order(tree, comes_last, grouping.request_order, grouping.node_begin);
  detail::count_queries(tree, grouping);
}

/// Opens a group of the queries [query_begin, query_end); `append_keys` fills it.
constexpr void open_group(int query_begin, int query_end, int queries_per_item, int keys_per_item,
                          Grouping& grouping) {
  int const first = static_cast<int>(grouping.ranges.size());
  grouping.groups.push_back(
      {query_begin, query_end, first, first, queries_per_item, keys_per_item});
}

namespace detail {

/// Appends the keys [from, to) of a path, as append_keys says. `node_at(bottom)` is its last node,
/// a PathNode, and `node_at` of that one's parent the node above.
template <class NodeAt>
constexpr void append_path(NodeAt const& node_at, int from, int to, int bottom,
                           Grouping& grouping) {
  auto& ranges = grouping.ranges;
  auto const first = static_cast<std::ptrdiff_t>(ranges.size());
  KeyGroup& group = grouping.groups.back();
  std::int64_t next_slot = -1;  // of the range that was appended last
  auto const alike = [&](KeyRange const& a, KeyRange const& b) {
    int const latest_begin = std::max(a.query_begin, b.query_begin);
    int const earliest_end = std::min(a.query_end, b.query_end);
    return (a.query_begin == b.query_begin && a.query_end == b.query_end) ||
           (latest_begin < group.query_begin && earliest_end >= group.query_end);
  };
  for (int at = bottom, position = to; position > from;) {
    PathNode const& node = node_at(at);
    at = node.parent;
    position = node.position;
    if (node.length == 0 || position >= to) continue;
    KeyRange const range{node.slot_begin, node.length, position, node.query_begin,
                         node.query_begin + node.queries};
    bool const joins = range.slot_begin + range.length == next_slot && alike(range, ranges.back());
    next_slot = range.slot_begin;
    if (joins) {
      KeyRange& below = ranges.back();
      below = {range.slot_begin, range.length + below.length, position,
               std::max(range.query_begin, below.query_begin),
               std::min(range.query_end, below.query_end)};
    } else {
      ranges.push_back(range);
    }
  }
  std::reverse(ranges.begin() + first, ranges.end());
  group.range_end = static_cast<int>(ranges.size());
}

}  // namespace detail

/// Appends the keys [from, to) of a path, both ends of nodes and the first less than the second, to
/// the group that was opened last, where the order of requests is the tree's own; `bottom` is the
/// place of the node at its end among the tree's path_nodes().
constexpr void append_path(PrefixTree const& tree, int from, int to, int bottom,
                           Grouping& grouping) {
  auto const node_at = [nodes = tree.path_nodes()](int place) -> PathNode const& {
    return nodes[place];
  };
  detail::append_path(node_at, from, to, bottom, grouping);
}

/// Appends the keys of a node to the group that was opened last, after those of nodes before it in
/// depth-first order, in the same order of requests. Joins them to those of the node above, if all its queries are the same.
constexpr void append_node(PathNode const& node, Grouping& grouping) {
  auto& ranges = grouping.ranges;
  int const query_end = node.query_begin + node.queries;
  if (std::ssize(ranges) > grouping.groups.back().range_begin) {
    KeyRange& before = ranges.back();
    if (before.query_begin == node.query_begin && before.query_end == query_end &&
        before.slot_begin + before.length == node.slot_begin) {
      before.length += node.length;
      return;
    }
  }
  ranges.push_back({node.slot_begin, node.length, node.position, node.query_begin, query_end});
}

/// Appends the keys of the path from below the node `above` (no_parent: the whole path) down to
/// `bottom` to the group that was opened last; each node's with the interval of all queries under
/// it, of which those of the group read it. Ranges that follow each other in slots are joined where
/// the same queries read them: those of one interval, or all of the group after others.
constexpr void append_keys(PrefixTree const& tree, int above, int bottom, Grouping& grouping) {
  auto const node_at = [&](int node) {
    PathNode path_node = tree.path_node(node);
    path_node.parent = tree.parent(node);
    path_node.query_begin = grouping.query_begin[grouping.node_begin[node]];
    return path_node;
  };
  int const from = above == PrefixTree::no_parent ? 0 : tree.path_length(above);
  int const to = tree.path_length(bottom);
  if (from < to) detail::append_path(node_at, from, to, bottom, grouping);
}

/// Attention as systems without sharing do it: each request reads its whole path.
struct NoSharing {
  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    order_requests(tree, grouping);
    for (int i = 0; i < tree.requests(); ++i) {
      open_group(grouping.query_begin[i], grouping.query_begin[i + 1],
                 target.queries(target.tiles.wide), 1, grouping);
      int const bottom = tree.bottoms()[i], keys = tree.path_nodes()[bottom].path_length();
      if (keys > 0) append_path(tree, 0, keys, bottom, grouping);
    }
    split_evenly(target, grouping);
  }
};

/// Every node is read once for all queries below it, which costs a partial result per query and
/// node.
struct ShareEveryNode {
  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    order_requests(tree, grouping);
    for (int const node : tree.parents_first()) {
      int const begin = grouping.query_begin[grouping.node_begin[node]];
      open_group(begin, begin + tree.queries_under(node), target.queries(target.tiles.wide), 1,
                 grouping);
      append_keys(tree, tree.parent(node), node, grouping);
    }
    split_evenly(target, grouping);
  }
};

}  // namespace fasttree
