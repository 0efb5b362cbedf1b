// SPDX-License-Identifier: Apache-2.0
// The tree: what is refused and how it is said, orders, positions, slots, counts; shapes of any
// depth.

#include <fasttree/tree/prefix_tree.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/oracle.hpp"
#include "support/random_forest.hpp"

namespace {

using fasttree::Error;
using fasttree::PrefixTree;
using fasttree::Request;
using fasttree::SlotLayout;
using fasttree::test::Forest;

constexpr int most = std::numeric_limits<int>::max();

void refuses(Forest const& forest, char const* message, int slot_alignment = 1) {
  CHECK_THROWS_WITH_AS(forest.tree(slot_alignment), message, Error);
}

std::vector<int> list(std::span<int const> span) { return {span.begin(), span.end()}; }

/// What a node's counts are, from their definition.
struct Below {
  int requests = 0, queries = 0;
};
Below count_below(PrefixTree const& tree, int node) {
  Below below;
  for (int r = 0; r < tree.requests(); ++r)
    for (int above = tree.request(r).node; above != PrefixTree::no_parent;
         above = tree.parent(above))
      if (above == node) {
        ++below.requests;
        below.queries += tree.request(r).query_length;
      }
  return below;
}

}  // namespace

TEST_CASE("a small tree: children, positions, slots, requests and queries") {
  Forest const forest{{1, -1, 1, 2}, {4, 3, 0, 5}, {{3, 2}, {0}, {3}, {1, 0}}};
  PrefixTree const tree = forest.tree();
  CHECK(tree.nodes() == 4);
  CHECK(tree.requests() == 4);
  CHECK(tree.queries() == 4);
  CHECK(tree.slots() == 12);
  CHECK(list(tree.children(1)) == std::vector{0, 2});
  CHECK(list(tree.children(0)).empty());
  CHECK(list(tree.requests_on(3)) == std::vector{0, 2});
  CHECK(tree.requests_under(1) == 4);
  CHECK(tree.queries_under(2) == 3);
  CHECK(tree.position(1) == 0);
  CHECK(tree.position(3) == 3);
  CHECK(tree.path_length(3) == 8);
  CHECK(tree.slot_begin(3) == 7);
  CHECK(tree.first_query(0) == 0);
  CHECK(tree.first_query(1) == 2);
  CHECK(tree.first_query(2) == 3);
}

TEST_CASE("a node begins on a multiple of the slot alignment, empty nodes too") {
  PrefixTree const tree = Forest{{-1, 0, 0, 1}, {5, 0, 16, 1}, {}}.tree(16);
  CHECK(tree.slot_begin(0) == 0);
  CHECK(tree.slot_begin(1) == 16);
  CHECK(tree.slot_begin(2) == 16);
  CHECK(tree.slot_begin(3) == 32);
  CHECK(tree.slots() == 48);
}

TEST_CASE("slots have 64 bits: more tokens than an int counts") {
  PrefixTree const tree = Forest{{-1, -1, -1}, {most, most, 5}, {{2}}}.tree(2);
  CHECK(tree.slot_begin(2) == 2 * (std::int64_t{most} + 1));
  CHECK(tree.slots() == 2 * (std::int64_t{most} + 1) + 6);
}

TEST_CASE("random forests: every order and count is what its definition says") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Forest const forest = fasttree::test::random_forest(seed);
    PrefixTree const tree = forest.tree(4);
    std::vector<int> place(tree.nodes(), -1);
    for (int i = 0; i < tree.nodes(); ++i) place[tree.parents_first()[i]] = i;
    std::vector<int> owner(tree.slots(), -1);
    for (int node = 0; node < tree.nodes(); ++node) {
      CAPTURE(node);
      REQUIRE(place[node] >= 0);
      int const above = tree.parent(node);
      CHECK(above == forest.parents[node]);
      if (above != PrefixTree::no_parent) {
        CHECK(place[above] < place[node]);
        CHECK(std::ranges::count(tree.children(above), node) == 1);
      }
      CHECK(tree.position(node) == (above < 0 ? 0 : tree.path_length(above)));
      CHECK(tree.slot_begin(node) % 4 == 0);
      for (int i = 0; i < tree.length(node); ++i) {
        CHECK(owner[tree.slot_begin(node) + i] == -1);
        owner[tree.slot_begin(node) + i] = node;
      }
      Below const below = count_below(tree, node);
      CHECK(tree.requests_under(node) == below.requests);
      CHECK(tree.queries_under(node) == below.queries);
    }
    for (int r = 0; r < tree.requests(); ++r)
      CHECK(std::ranges::count(tree.requests_on(tree.request(r).node), r) == 1);
  }
}

TEST_CASE("random forests: nodes and requests in depth-first order, and their records") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = fasttree::test::random_forest(seed).tree();
    auto const order = tree.parents_first(), requests = tree.depth_first_requests();
    REQUIRE(std::ssize(tree.path_nodes()) == tree.nodes());
    std::vector<int> path, visited;  // of a walk by definition
    for (int root = tree.nodes(); root-- > 0;)
      if (tree.parent(root) == PrefixTree::no_parent) path.push_back(root);
    while (!path.empty()) {
      int const node = path.back();
      path.pop_back();
      visited.push_back(node);
      auto const children = tree.children(node);
      path.insert(path.end(), children.rbegin(), children.rend());
    }
    CHECK(visited == list(order));
    int queries = 0;
    for (int place = 0, i = 0; place < tree.nodes(); ++place) {
      int const node = order[place];
      fasttree::PathNode const& record = tree.path_nodes()[place];
      CHECK(&tree.path_node(node) == &record);
      CHECK((record.parent < 0 ? record.parent : order[record.parent]) == tree.parent(node));
      CHECK(record.length == tree.length(node));
      CHECK(record.query_begin == queries);
      CHECK(tree.first_places()[node] == i);
      for (int const request : tree.requests_on(node)) {
        CHECK(requests[i] == request);
        CHECK(tree.bottoms()[i] == place);
        CHECK(tree.request_keys(request) == tree.path_length(node));
        CHECK(tree.query_begins()[i++] == queries);
        queries += tree.request(request).query_length;
      }
    }
    CHECK(tree.query_begins()[tree.requests()] == queries);
  }
}

TEST_CASE(
    "room is kept behind nodes on which the only query below them hangs, and behind no other") {
  Forest const forest{
      {-1, 0, 0, 0, -1, 4}, {4, 3, 5, 2, 6, 1}, {{1}, {2}, {2}, {3, 2}, {4, 0}, {5}}};
  PrefixTree const tree(forest.parents, forest.lengths, forest.requests,
                        SlotLayout{.alignment = 2, .room = 10});
  CHECK(tree.room() == 10);
  for (int node = 0; node < 6; ++node) CHECK(tree.grows(node) == (node == 1 || node == 5));
  std::vector<std::int64_t> slots;
  for (int node = 0; node < 6; ++node) slots.push_back(tree.slot_begin(node));
  CHECK(slots == std::vector<std::int64_t>{0, 4, 18, 24, 26, 32});
  CHECK(tree.slots() == 44);
}

TEST_CASE("a tree takes the slots that it is given, with gaps and in any order") {
  std::vector<int> const parents{-1, 0, 0, 0}, lengths{4, 3, 0, 5};
  std::vector<Request> const requests{{1}, {2}, {3}};
  std::vector<std::int64_t> const slots{100, 7, 8, 0};  // an empty node lies anywhere
  PrefixTree const tree(parents, lengths, requests, slots);
  for (int node = 0; node < 4; ++node) CHECK(tree.slot_begin(node) == slots[node]);
  CHECK(tree.slots() == 104);
  CHECK(tree.room() == 0);
  std::vector<std::int64_t> const with_room{100, 7, 12, 0};
  CHECK(PrefixTree(parents, lengths, requests, with_room, 2).slots() == 104);
  CHECK(PrefixTree({}, {}, {}, std::span<std::int64_t const>{}).slots() == 0);
}

TEST_CASE("nothing at all is a tree: no nodes, no requests, no queries, no slots") {
  PrefixTree const tree = Forest{}.tree(16);
  CHECK(tree.nodes() == 0);
  CHECK(tree.requests() == 0);
  CHECK(tree.queries() == 0);
  CHECK(tree.slots() == 0);
}

TEST_CASE("a chain of 100 000 nodes, deepest first and last, needs no recursion") {
  int const count = 100'000;
  for (bool const deepest_first : {false, true}) {
    CAPTURE(deepest_first);
    Forest forest;
    for (int i = 0; i < count; ++i)
      forest.parents.push_back(deepest_first ? (i + 1 < count ? i + 1 : -1) : i - 1);
    forest.lengths.assign(count, 2);
    int const deepest = deepest_first ? 0 : count - 1;
    forest.requests = {{deepest}};
    PrefixTree const tree = forest.tree();
    CHECK(tree.path_length(deepest) == 2 * count);
    CHECK(tree.queries_under(deepest_first ? count - 1 : 0) == 1);
  }
}

// Clang 14 does not accept std::vector::resize of libstdc++ 12 in a constant expression.
#if !defined(__clang__) || __clang_major__ > 14
TEST_CASE("a tree can be made in a constant expression") {
  constexpr auto slots = [] {
    int const parents[] = {-1, 0}, lengths[] = {10, 3};
    Request const requests[] = {{1}, {0}};
    PrefixTree const tree(parents, lengths, requests, SlotLayout{8});
    return tree.slots() + tree.queries_under(0);
  };
  static_assert(slots() == 26);
}
#endif

TEST_CASE("refused: arrays of different lengths") {
  refuses({{-1, 0}, {1}, {}}, "fasttree::PrefixTree: lengths.size(): expected 2, found 1");
}

TEST_CASE("refused: a parent that is no node") {
  refuses({{-1, 2}, {1, 1}, {}},
          "fasttree::PrefixTree: parents[1]: expected -1 or a node below 2, found 2");
  refuses({{-2}, {1}, {}},
          "fasttree::PrefixTree: parents[0]: expected -1 or a node below 1, found -2");
}

TEST_CASE("refused: cycles, short and long, with trees beside them and nodes below them") {
  refuses({{0}, {1}, {}},
          "fasttree::PrefixTree: parents: expected a forest, found a cycle on or above node 0");
  refuses({{-1, 0, 4, 2, 3}, {1, 1, 1, 1, 1}, {}},
          "fasttree::PrefixTree: parents: expected a forest, found a cycle on or above node 2");
  refuses({{1, 2, 1}, {1, 1, 1}, {{0}}},
          "fasttree::PrefixTree: parents: expected a forest, found a cycle on or above node 0");
}

TEST_CASE("refused: a negative length") {
  refuses({{-1, 0}, {1, -1}, {}}, "fasttree::PrefixTree: lengths[1]: expected 0 or more, found -1");
}

TEST_CASE("refused: a path of 2^31 tokens; one token less is fine") {
  CHECK(Forest{{-1, 0}, {most - 5, 5}, {{1}}}.tree().path_length(1) == most);
  refuses({{-1, 0}, {most - 5, 6}, {}},
          "fasttree::PrefixTree: lengths: expected paths of less than 2^31 tokens, found a longer "
          "one down to node 1");
}

TEST_CASE("refused: a request on no node, of negative length, or too many queries") {
  refuses({{-1}, {1}, {{0}, {1}}},
          "fasttree::PrefixTree: requests[1].node: expected a node below 1, found 1");
  refuses({{-1}, {1}, {{-1}}},
          "fasttree::PrefixTree: requests[0].node: expected a node below 1, found -1");
  refuses({{}, {}, {{0}}},
          "fasttree::PrefixTree: requests[0].node: expected a node below 0, found 0");
  refuses({{-1}, {1}, {{0, -3}}},
          "fasttree::PrefixTree: requests[0].query_length: expected 0 or more, found -3");
  refuses({{-1}, {1}, {{0, most}, {0, most}}},
          "fasttree::PrefixTree: requests: expected less than 2^31 - 1 queries in all, found "
          "4294967294");
}

TEST_CASE("refused: an alignment of 0 or less") {
  refuses({{-1}, {1}, {}},
          "fasttree::PrefixTree: layout.alignment: expected a positive number, found 0", 0);
}

TEST_CASE("refused: slots that are not one for each node, negative, too large or of two nodes") {
  auto const refuses_slots = [](std::vector<std::int64_t> slots, int room, char const* message) {
    std::vector<int> const parents{-1, 0, 0}, lengths{4, 3, 5};
    std::vector<Request> const requests{{1}, {2}};
    CHECK_THROWS_WITH_AS(PrefixTree(parents, lengths, requests, slots, room), message, Error);
  };
  refuses_slots({0, 4}, 0, "fasttree::PrefixTree: slot_begins.size(): expected 3, found 2");
  refuses_slots(
      {0, -4, 4}, 0,
      "fasttree::PrefixTree: slot_begins[1]: expected from 0 to less than 2^63, found -4");
  refuses_slots({0, 4, std::numeric_limits<std::int64_t>::max() - 4}, 0,
                "fasttree::PrefixTree: slot_begins[2]: expected from 0 to less than 2^63, found "
                "9223372036854775803");
  refuses_slots(
      {0, 8, 3}, 0,
      "fasttree::PrefixTree: slot_begins[2]: expected slots of its own, from 4 on, found 3");
  refuses_slots(
      {20, 4, 9}, 3,
      "fasttree::PrefixTree: slot_begins[2]: expected slots of its own, from 10 on, found 9");
  refuses_slots({0, 4, 7}, -1, "fasttree::PrefixTree: room: expected 0 or more, found -1");
}

TEST_CASE("refused: a path of 2^31 tokens with its room") {
  std::vector<int> const parents{-1, 0}, lengths{most - 5, 3};
  std::vector<Request> const requests{{1}};
  CHECK(PrefixTree(parents, lengths, requests, SlotLayout{.room = 2}).slots() == most);
  CHECK_THROWS_AS(PrefixTree(parents, lengths, requests, SlotLayout{.room = 3}), Error);
}
