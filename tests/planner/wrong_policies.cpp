// SPDX-License-Identifier: Apache-2.0
// Policies that yield what no kernel can run: refused with an error while planning, never run.

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>

#include <doctest/doctest.h>

#include "support/random_forest.hpp"

namespace {

using namespace fasttree;

/// NoSharing, with its last group changed.
template <class Change>
struct Changed {
  Change change;
  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    NoSharing{}.group(tree, target, grouping);
    change(grouping.groups.back());
  }
};

template <class Policy>
void refused(Policy const& policy) {
  PrefixTree const tree = test::Forest{{-1}, {40}, {{0}, {0, 30}}}.tree();
  Grouping grouping;
  PlanTables tables;
  REQUIRE_THROWS_AS(
      build_plan(tree, PlanTarget{{{64, 32}, {16, 32}}, 4, 8, 4}, policy, grouping, tables), Error);
}

template <class Change>
Changed<Change> changed(Change change) {
  return {change};
}

}  // namespace

// In this order: a planner that does not refuse the first would not come back from the last.
TEST_CASE("a policy whose items do not fit the wide tile, or have no queries or keys, is refused") {
  refused(changed([](KeyGroup& group) { group.queries_per_item = 17; }));  // 68 rows of 64
  refused(GreedyEdges<>{.long_piece = 0});
  refused(changed([](KeyGroup& group) { group.queries_per_item = 0; }));
  refused(changed([](KeyGroup& group) { group.keys_per_item = 0; }));
}
