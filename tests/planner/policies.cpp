// SPDX-License-Identifier: Apache-2.0
// The law of plans on random forests, for every policy, several tiles and heads; policies on small
// trees by hand; a plan in a constant expression.

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/one_tile_policy.hpp"
#include "support/plan_law.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"

namespace {

using namespace fasttree;
using fasttree::test::Forest;
using fasttree::test::OneTilePolicy;
using fasttree::test::PlanLaw;
using fasttree::test::SubtreePolicy;

constexpr Tiles small_tiles{{8, 4}, {4, 4}}, paper_tiles{{64, 32}, {16, 32}};

template <class Policy>
PlanTables plan_of(PrefixTree const& tree, PlanTarget const& target, Policy const& policy) {
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  return tables;
}

template <class Policy>
void keeps_the_law(PrefixTree const& tree, PlanTarget const& target, Policy const& policy) {
  PlanTables const tables = plan_of(tree, target, policy);
  CHECK(PlanLaw(tree, target, tables).broken() == "");
}

template <class Policy>
void keeps_the_law_on_random_forests(Policy const& policy, test::ForestSize size = {}) {
  PlanTarget const targets[] = {
      {small_tiles, 1, 1, 1},    {small_tiles, 3, 2, 16},   {small_tiles, 4, 1, 4},
      {small_tiles, 16, 1, 8},   {paper_tiles, 1, 32, 132}, {paper_tiles, 4, 8, 132},
      {paper_tiles, 16, 1, 132}, {paper_tiles, 5, 1, 1},    {{{96, 64}, {24, 64}}, 128, 2, 3}};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = test::random_forest(seed, size).tree(seed % 3 == 0 ? 8 : 1);
    for (PlanTarget const& target : targets) {
      CAPTURE(target.group);
      CAPTURE(target.slots);
      keeps_the_law(tree, target, policy);
    }
  }
}

/// A tree that a compiler plans: a root of 10 tokens, leaves of 5 and 7 with 1 and 2 requests.
template <class Policy>
constexpr PlanTables small_plan(Policy const& policy) {
  int const parents[] = {-1, 0, 0}, lengths[] = {10, 5, 7};
  Request const requests[] = {{1}, {2}, {2}};
  PrefixTree const tree(parents, lengths, requests);
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, PlanTarget{paper_tiles, 1, 1, 1}, policy, grouping, tables);
  return tables;
}

}  // namespace

TEST_CASE("NoSharing covers every pair of a query and a key once") {
  keeps_the_law_on_random_forests(NoSharing{});
}

TEST_CASE("ShareEveryNode covers every pair of a query and a key once") {
  keeps_the_law_on_random_forests(ShareEveryNode{});
}

TEST_CASE("GreedyEdges covers every pair of a query and a key once") {
  keeps_the_law_on_random_forests(GreedyEdges<>{});
  keeps_the_law_on_random_forests(GreedyEdges<>{}, {60, 300, 200, 3});
}

TEST_CASE("GreedyEdges covers every pair once with pieces of any size and costs of any kind") {
  keeps_the_law_on_random_forests(GreedyEdges<>{.long_piece = 7, .short_piece = 1});
  keeps_the_law_on_random_forests(GreedyEdges<>{.costs = {.gamma = 1e9}});  // joins every edge
  keeps_the_law_on_random_forests(GreedyEdges<>{.costs = {0, 0, -1}});      // joins none
}

TEST_CASE("MinimalTraffic covers every pair once, on machines of every kind") {
  MachineCosts const cheap_items{.item = 0.01, .cache = 1e6, .wide = 1e3, .narrow = 4e3};
  MachineCosts const dear_items{.item = 100, .alone = 2}, slow_cache{.item = 0.1, .cache = 100};
  for (MachineCosts const& costs : {MachineCosts{}, cheap_items, dear_items, slow_cache}) {
    keeps_the_law_on_random_forests(MinimalTraffic<>{costs});
    keeps_the_law_on_random_forests(MinimalTraffic<>{costs}, {60, 300, 100, 3});
  }
  for (int const piece : {1, 7, 64})
    keeps_the_law_on_random_forests(MinimalTraffic<>{.fixed_piece = piece});
}

TEST_CASE("a policy whose groups carry whole subtrees covers every pair once") {
  keeps_the_law_on_random_forests(SubtreePolicy{});
  keeps_the_law_on_random_forests(SubtreePolicy{.keys_per_item = 9});
  keeps_the_law_on_random_forests(OneTilePolicy{.wide = true});
  keeps_the_law_on_random_forests(OneTilePolicy{.wide = false});
}

TEST_CASE("NoSharing has no group of two requests; ShareEveryNode reads every key once") {
  PrefixTree const tree = Forest{{-1, 0, 0}, {90, 20, 30}, {{1}, {1}, {2}, {2}}}.tree();
  PlanTarget const target{paper_tiles, 1, 1, 1};
  PlanTables const alone = plan_of(tree, target, NoSharing{});
  for (WorkItem const& item : alone.items) CHECK(item.query_end - item.query_begin == 1);
  CHECK(alone.partials == 0);
  CHECK(alone.merge_queries.empty());
  PlanTables const shared = plan_of(tree, target, ShareEveryNode{});
  std::int64_t keys = 0;
  for (WorkItem const& item : shared.items)
    for (KeyRange const& range : shared.ranges_of(item)) keys += range.length;
  CHECK(keys == shared.unique_keys);
  CHECK(shared.unique_keys == 140);
  CHECK(shared.path_keys == 2 * 110 + 2 * 120);
  CHECK(shared.partials == 8);
}

TEST_CASE("items that fit the narrow tile take it, unless it was given up or lacks rows for one") {
  PrefixTree const tree = Forest{{-1}, {90}, {{0}}}.tree();
  auto const narrow_queries = [&](Tiles const& tiles, int group, auto const& policy) {
    return plan_of(tree, {tiles, group, 1, 1}, policy).narrow_queries;
  };
  CHECK(narrow_queries(paper_tiles, 1, NoSharing{}) == 16);
  CHECK(narrow_queries(paper_tiles, 5, NoSharing{}) == 3);
  CHECK(narrow_queries(paper_tiles, 16, NoSharing{}) == 1);
  CHECK(narrow_queries(paper_tiles, 17, NoSharing{}) == 0);
  CHECK(narrow_queries({paper_tiles.wide, paper_tiles.wide}, 1, NoSharing{}) == 0);
  CHECK(narrow_queries(paper_tiles, 1, OneTilePolicy{.wide = true}) == 0);
  CHECK(narrow_queries(paper_tiles, 1, OneTilePolicy{.wide = false}) == 16);
}

TEST_CASE("GreedyEdges gives up the tile that leaves the machine idle") {
  // 20 queries, more than a narrow tile, on 100 keys: one wide item for 132 slots.
  PrefixTree const star = test::level_forest({1, 20}, {100, 0}).tree();
  PlanTables const narrow = plan_of(star, {paper_tiles, 1, 1, 132}, GreedyEdges<>{});
  CHECK(narrow.tiles == Tiles{paper_tiles.narrow, paper_tiles.narrow});
  CHECK(narrow.narrow_queries == 16);
  CHECK(narrow.items.size() == 2);
  for (WorkItem const& item : narrow.items) CHECK(item.query_end - item.query_begin <= 16);
  // One query: one narrow item.
  PrefixTree const chain = Forest{{-1}, {100}, {{0}}}.tree();
  PlanTables const wide = plan_of(chain, {paper_tiles, 1, 1, 132}, GreedyEdges<>{});
  CHECK(wide.tiles == Tiles{paper_tiles.wide, paper_tiles.wide});
  CHECK(wide.narrow_queries == 0);
}

// Clang 14 does not accept std::vector::resize of libstdc++ 12 in a constant expression.
#if !defined(__clang__) || __clang_major__ > 14
TEST_CASE("a plan can be made in a constant expression") {
  static_assert(small_plan(NoSharing{}).items.size() == 3);
  static_assert(small_plan(NoSharing{}).partials == 0);
  static_assert(small_plan(ShareEveryNode{}).items.size() == 3);
  static_assert(small_plan(ShareEveryNode{}).partials == 6);
  static_assert(small_plan(GreedyEdges<>{}).partials <= 6);
  static_assert(small_plan(MinimalTraffic<>{}).items.size() == 1);
  static_assert(small_plan(MinimalTraffic<>{}).partials == 0);
  CHECK(small_plan(GreedyEdges<>{}).items == [] {
    Grouping grouping;
    PlanTables tables;
    build_plan(Forest{{-1, 0, 0}, {10, 5, 7}, {{1}, {2}, {2}}}.tree(),
               PlanTarget{paper_tiles, 1, 1, 1}, GreedyEdges<>{}, grouping, tables);
    return tables.items;
  }());
}
#endif

TEST_CASE(
    "nothing to plan: no nodes, no requests, requests without queries, nodes without requests") {
  PlanTarget const target{paper_tiles, 4, 8, 132};
  Forest const forests[] = {
      {}, {{-1}, {5}, {}}, {{-1, 0}, {5, 5}, {{1, 0}, {0, 0}}}, {{-1, -1}, {0, 0}, {}}};
  for (Forest const& forest : forests) {
    PrefixTree const tree = forest.tree();
    for (PlanTables const& tables :
         {plan_of(tree, target, NoSharing{}), plan_of(tree, target, ShareEveryNode{}),
          plan_of(tree, target, GreedyEdges<>{}), plan_of(tree, target, MinimalTraffic<>{})}) {
      CHECK(tables.items.empty());
      CHECK(tables.merge_queries.empty());
      CHECK(tables.partials == 0);
      CHECK(PlanLaw(tree, target, tables).broken() == "");
    }
  }
}

TEST_CASE("queries without keys are in no item and in the merge, as identity rows") {
  PrefixTree const tree = Forest{{-1, -1}, {0, 3}, {{0}, {1, 5}}}.tree();
  PlanTarget const target{small_tiles, 1, 1, 1};
  for (PlanTables const& tables :
       {plan_of(tree, target, NoSharing{}), plan_of(tree, target, GreedyEdges<>{})}) {
    CHECK(PlanLaw(tree, target, tables).broken() == "");
    CHECK(tables.merge_queries == std::vector{0});
    CHECK(tables.visible_keys == std::vector{0, 0, 0, 1, 2, 3});
  }
}

TEST_CASE("a key range that no query attends to makes no item") {
  struct IdleRange {
    int keys_per_item;

    constexpr void group(PrefixTree const& tree, PlanTarget const&, Grouping& grouping) const {
      order_requests(tree, grouping);
      grouping.ranges.push_back({0, 3, 0, 1, 1});
      grouping.groups.push_back({0, 2, 0, 1, 2, keys_per_item});
    }
  };
  auto const tree = Forest{{-1}, {3}, {{0}, {0}}}.tree();
  Grouping grouping;
  PlanTables tables;
  for (int const keys_per_item : {2, 100}) {
    build_plan(tree, PlanTarget{}, IdleRange{keys_per_item}, grouping, tables);
    CHECK(tables.items.empty());
    CHECK(tables.merge_queries.size() == 2);
  }
}

TEST_CASE("a chain of 100 000 nodes is planned without recursion by every policy") {
  int const count = 100'000;
  Forest forest;
  for (int i = 0; i < count; ++i) forest.parents.push_back(i - 1);
  forest.lengths.assign(count, 1);
  forest.requests = {{count - 1}, {count / 2}};
  PrefixTree const tree = forest.tree();
  PlanTarget const target{paper_tiles, 1, 1, 4};
  keeps_the_law(tree, target, NoSharing{});
  keeps_the_law(tree, target, ShareEveryNode{});
  keeps_the_law(tree, target, GreedyEdges<>{});
  keeps_the_law(tree, target, MinimalTraffic<>{});
  // With gaps between slots each node is a range; pieces must not look at all of them.
  keeps_the_law(forest.tree(2), target, MinimalTraffic<>{.fixed_piece = 3});
}

TEST_CASE("contexts of 2^31 - 1 tokens are planned: no length overflows") {
  int const most = std::numeric_limits<int>::max();
  PrefixTree const tree = Forest{{-1, 0}, {most - 9, 9}, {{1}, {0}, {0}}}.tree(16);
  PlanTarget const target{paper_tiles, 4, 8, 4};
  auto const keys = [&](PlanTables const& tables) {
    std::int64_t sum = 0;
    for (WorkItem const& item : tables.items)
      for (KeyRange const& range : tables.ranges_of(item))
        sum += std::int64_t{range.length} * (std::min(item.query_end, range.query_end) -
                                             std::max(item.query_begin, range.query_begin));
    return sum;
  };
  std::int64_t const pairs = 3 * std::int64_t{most} - 18;
  CHECK(keys(plan_of(tree, target, NoSharing{})) == pairs);
  CHECK(keys(plan_of(tree, target, ShareEveryNode{})) == pairs);
  GreedyEdges<> const large{.long_piece = 1 << 30, .short_piece = 1 << 28};
  CHECK(keys(plan_of(tree, target, large)) == pairs);
  CHECK(keys(plan_of(tree, target, MinimalTraffic<>{})) == pairs);
  CHECK(keys(plan_of(tree, target, MinimalTraffic<>{.fixed_piece = most})) == pairs);
  for (int const key_rows : {1, 32}) {
    PlanTarget const tiles{{{64, key_rows, 16}, {16, key_rows, 16}}, 4, 8, 1000};
    Forest const alone{{-1}, {most}, {{0}}};
    CHECK(keys(plan_of(alone.tree(), tiles, MinimalTraffic<>{})) == most);
    Forest const many{std::vector(40, -1), std::vector(40, most), [] {
                        std::vector<Request> requests;
                        for (int node = 0; node < 40; ++node) requests.push_back({node});
                        return requests;
                      }()};
    CHECK(keys(plan_of(many.tree(), tiles, MinimalTraffic<>{})) == 40 * std::int64_t{most});
  }
}
