// SPDX-License-Identifier: Apache-2.0
// A planner of one's own: it says which requests read which keys together, and the library does the rest.
// This one reads a long node once for all requests below it, and short ones with each request anew.
// A planner only moves parentheses: the result must be that of no sharing at all, up to rounding.

#include <fasttree/tree_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>

/// Shares nodes of at least `least_tokens` tokens.
struct ShareLongNodes {
  int least_tokens = 64;

  void group(fasttree::PrefixTree const& tree, fasttree::PlanTarget const& target,
             fasttree::Grouping& grouping) const {
    int const queries = target.queries(target.tiles.wide), keys = 1024;  // most of a work item
    fasttree::order_requests(tree, grouping);
    for (int const node : tree.parents_first()) {
      if (tree.length(node) < least_tokens) continue;
      int const begin = grouping.query_begin[grouping.node_begin[node]];
      fasttree::open_group(begin, begin + tree.queries_under(node), queries, keys, grouping);
      fasttree::append_keys(tree, tree.parent(node), node, grouping);
    }
    for (int i = 0; i < tree.requests(); ++i) {
      fasttree::open_group(grouping.query_begin[i], grouping.query_begin[i + 1], queries, keys,
                           grouping);
      int node = tree.request(grouping.request_order[i]).node;
      for (; node != fasttree::PrefixTree::no_parent; node = tree.parent(node))
        if (tree.length(node) < least_tokens)
          fasttree::append_keys(tree, tree.parent(node), node, grouping);
    }
  }
};

using Space = Kokkos::DefaultExecutionSpace;
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

Array make_array(std::string const& name, std::int64_t rows, int heads) {
  Array const array(name, rows, heads, 64);
  Kokkos::parallel_for(
      name, Kokkos::RangePolicy<Space>(0, array.size()),
      KOKKOS_LAMBDA(int i) { array.data()[i] = static_cast<float>(i * 7919LL % 2003) / 1001 - 1; });
  return array;
}

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  Space const space;

  // A system prompt, two short greetings below it, and two requests below each.
  int const parents[] = {-1, 0, 0, 1, 1, 2, 2}, lengths[] = {500, 8, 12, 90, 70, 100, 30};
  fasttree::Request const requests[] = {{3}, {4}, {5}, {6}};
  fasttree::PrefixTree const tree(parents, lengths, requests);
  fasttree::AttentionShape<float, 64> const shape{.query_heads = 8, .kv_heads = 2};

  Array const queries = make_array("queries", tree.queries(), 8);
  Array const keys = make_array("keys", tree.slots(), 2);
  Array const values = make_array("values", tree.slots(), 2);
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);  // refers to them
  auto const attend = [&](auto const& planner) {
    auto const plan = fasttree::make_plan(space, tree, shape, planner);
    auto const workspace = fasttree::make_workspace(space, plan);
    Array const output("output", tree.queries(), 8, 64);
    fasttree::tree_attention(space, plan, queries, cache, output, workspace);
    std::cout << fasttree::explain(plan);
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
  };
  auto const own = attend(ShareLongNodes{}), reference = attend(fasttree::NoSharing{});

  float difference = 0;
  for (std::size_t i = 0; i < own.size(); ++i)
    difference = std::max(difference, std::abs(own.data()[i] - reference.data()[i]));
  std::cout << "largest difference " << difference << '\n';
  float const tolerance =
      612 * 0x1p-23f;  // keys of the longest path times the distance of floats near 1
  return difference <= tolerance ? 0 : 1;
}
