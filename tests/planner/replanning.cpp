// SPDX-License-Identifier: Apache-2.0
// A plan made again: into existing memory it equals a fresh one, and where the memory suffices
// nothing is allocated at all (not only nothing that Kokkos sees: operator new is counted).

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include "support/count_allocations.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;

constexpr PlanTarget target{{{64, 32}, {16, 32}}, 4, 8, 132};

bool same(PlanTables const& a, PlanTables const& b) {
  auto const decision = [](EdgeDecision const& x, EdgeDecision const& y) {
    return x.node == y.node && x.queries == y.queries && x.keys == y.keys &&
           x.parent_keys == y.parent_keys && x.cost_apart == y.cost_apart &&
           x.cost_together == y.cost_together && x.together == y.together;
  };
  return a.tiles == b.tiles && a.query_order == b.query_order && a.visible_keys == b.visible_keys &&
         a.items == b.items && a.ranges == b.ranges && a.merge_queries == b.merge_queries &&
         a.merge_begin == b.merge_begin && a.merge_partials == b.merge_partials &&
         a.partials == b.partials && a.slots == b.slots && a.unique_keys == b.unique_keys &&
         a.path_keys == b.path_keys && std::ranges::equal(a.decisions, b.decisions, decision);
}

template <class Policy>
void replans_as_if_fresh(Policy const& policy) {
  Grouping grouping;
  PlanTables again;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = test::random_forest(seed, {40, 400, 60, 3}).tree();
    Grouping fresh_grouping;
    PlanTables fresh;
    build_plan(tree, target, policy, fresh_grouping, fresh);
    build_plan(tree, target, policy, grouping, again);
    CHECK(same(again, fresh));
  }
}

template <class Policy>
void replans_without_allocation(Policy const& policy) {
  PrefixTree const large = test::level_forest({1, 8, 64, 256}, {2000, 500, 100, 20}).tree();
  PrefixTree const small = test::level_forest({2, 4, 32}, {300, 40, 7}).tree();
  Grouping grouping;
  PlanTables tables;
  build_plan(large, target, policy, grouping, tables);
  build_plan(small, target, policy, grouping,
             tables);  // may split keys where the large one does not
  for (PrefixTree const* const tree : {&small, &large}) {
    CAPTURE(tree->nodes());
    long const before = test::allocations;
    build_plan(*tree, target, policy, grouping, tables);
    CHECK(test::allocations - before == 0);
  }
}

}  // namespace

TEST_CASE("a plan made into memory that held another equals a fresh one") {
  replans_as_if_fresh(NoSharing{});
  replans_as_if_fresh(ShareEveryNode{});
  replans_as_if_fresh(GreedyEdges<>{});
  replans_as_if_fresh(MinimalTraffic<>{});
  replans_as_if_fresh(MinimalTraffic<>{.fixed_piece = 100});
}

TEST_CASE("a plan that fits into the memory of the one before allocates nothing") {
  replans_without_allocation(NoSharing{});
  replans_without_allocation(ShareEveryNode{});
  replans_without_allocation(GreedyEdges<>{});
  replans_without_allocation(MinimalTraffic<>{});
  replans_without_allocation(MinimalTraffic<>{.fixed_piece = 100});
}
