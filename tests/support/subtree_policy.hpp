// SPDX-License-Identifier: Apache-2.0
#pragma once
// A policy as a user might write it, which no policy of the library resembles: one group per root
// carries the whole tree below it, with a key range for every node and its queries as a
// sub-interval. It shares every key and needs a partial result only where a tree is too large for
// one item.

#include <cstddef>

#include <fasttree/planner/policies.hpp>

namespace fasttree::test {

struct SubtreePolicy {
  int keys_per_item = 1 << 30;

  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    order_requests(tree, grouping);
    for (int root = 0; root < tree.nodes(); ++root) {
      if (tree.parent(root) != PrefixTree::no_parent) continue;
      int const first = static_cast<int>(grouping.ranges.size());
      std::vector<int> below{root};
      for (std::size_t i = 0; i < below.size(); ++i) {
        int const node = below[i], begin = first_query(grouping, node);
        for (int const child : tree.children(node)) below.push_back(child);
        if (tree.length(node) == 0 || tree.queries_under(node) == 0) continue;
        grouping.ranges.push_back({tree.slot_begin(node), tree.length(node), tree.position(node),
                                   begin, begin + tree.queries_under(node)});
      }
      int const begin = first_query(grouping, root);
      grouping.groups.push_back({begin, begin + tree.queries_under(root), first,
                                 static_cast<int>(grouping.ranges.size()),
                                 target.queries(target.tiles.wide), keys_per_item});
    }
  }

 private:
  static constexpr int first_query(Grouping const& grouping, int node) {
    return grouping.query_begin[grouping.node_begin[node]];
  }
};

}  // namespace fasttree::test
