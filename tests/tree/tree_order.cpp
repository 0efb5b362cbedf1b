// SPDX-License-Identifier: Apache-2.0
// Depth-first order: the requests under a node are one interval, its own first, chosen children
// last.

#include <fasttree/tree/prefix_tree.hpp>
#include <fasttree/tree/tree_order.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/random_forest.hpp"

namespace {

using fasttree::depth_first_order;
using fasttree::PrefixTree;
using fasttree::test::Forest;

bool is_under(PrefixTree const& tree, int node, int above) {
  while (node != above && node != PrefixTree::no_parent) node = tree.parent(node);
  return node == above;
}

}  // namespace

TEST_CASE("random forests: the requests under a node are one interval, its own at its beginning") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = fasttree::test::random_forest(seed).tree();
    auto const comes_last = [&](int child) { return (child + seed) % 3 == 0; };
    std::vector<int> order, begin;
    depth_first_order(tree, comes_last, order, begin);
    REQUIRE(std::ssize(order) == tree.requests());
    for (int node = 0; node < tree.nodes(); ++node) {
      CAPTURE(node);
      int const own = static_cast<int>(tree.requests_on(node).size());
      int last_begin = tree.requests();
      for (int const child : tree.children(node))
        if (comes_last(child)) last_begin = std::min(last_begin, begin[child]);
      for (int const child : tree.children(node))
        if (!comes_last(child)) CHECK(begin[child] + tree.requests_under(child) <= last_begin);
      for (int i = 0; i < tree.requests(); ++i) {
        bool const inside = i >= begin[node] && i < begin[node] + tree.requests_under(node);
        CHECK(is_under(tree, tree.request(order[i]).node, node) == inside);
        if (inside && i < begin[node] + own) CHECK(tree.request(order[i]).node == node);
      }
    }
    std::ranges::sort(order);
    for (int i = 0; i < tree.requests(); ++i) CHECK(order[i] == i);
  }
}

TEST_CASE("what the arrays held before does not matter") {
  PrefixTree const tree = Forest{{-1, 0, 0}, {1, 1, 1}, {{2}, {1}, {0}}}.tree();
  std::vector<int> order{7, 7, 7, 7, 7, 7}, begin(9, -4);
  depth_first_order(
      tree, [](int child) { return child == 1; }, order, begin);
  CHECK(order == std::vector{2, 0, 1});
  CHECK(begin == std::vector{0, 2, 1});
}

TEST_CASE("a chain of 100 000 nodes with a request on each is ordered from the root down") {
  int const count = 100'000;
  Forest forest;
  for (int i = 0; i < count; ++i) {
    forest.parents.push_back(i - 1);
    forest.requests.push_back({i});
  }
  forest.lengths.assign(count, 1);
  std::vector<int> order, begin;
  depth_first_order(
      forest.tree(), [](int) { return true; }, order, begin);
  CHECK(std::ranges::is_sorted(order));
  CHECK(order == begin);
}
