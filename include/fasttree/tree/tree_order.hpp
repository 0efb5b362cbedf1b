// SPDX-License-Identifier: Apache-2.0
#pragma once
// Depth-first order of requests: the requests under a node are one interval of it, so that a plan
// names any subtree's requests by two numbers. A node's own requests come first, then those of its
// children; a planner may ask for some children to come last, which makes the others an interval as
// well.

#include <vector>

namespace fasttree {

/// Puts the requests of `tree`, a PrefixTree, into depth-first order. Linear time, no recursion.
///
/// \param comes_last  comes_last(child): whether a child comes after its siblings
/// \param order       out: position -> request; its memory is reused
/// \param node_begin  out: node -> position of the first request on it or below it; likewise
template <class Tree, class ComesLast>
constexpr void depth_first_order(Tree const& tree, ComesLast comes_last, std::vector<int>& order,
                                 std::vector<int>& node_begin) {
  order.resize(tree.requests());
  node_begin.resize(tree.nodes());
  int next_tree = 0;
  for (int const node : tree.parents_first()) {
    if (tree.parent(node) == Tree::no_parent) {
      node_begin[node] = next_tree;
      next_tree += tree.requests_under(node);
    }
    int next = node_begin[node];
    for (int const request : tree.requests_on(node)) order[next++] = request;
    bool some_come_last = false;
    auto const place = [&](int child) {
      node_begin[child] = next;
      next += tree.requests_under(child);
    };
    for (int const child : tree.children(node)) {
      if (comes_last(child)) {
        some_come_last = true;
      } else {
        place(child);
      }
    }
    if (!some_come_last) continue;
    for (int const child : tree.children(node))
      if (comes_last(child)) place(child);
  }
}

}  // namespace fasttree
