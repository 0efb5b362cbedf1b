// SPDX-License-Identifier: Apache-2.0
// The work of items: what is merged is counted once, whoever has partial results of it.

#include <fasttree/plan/predict.hpp>

#include <doctest/doctest.h>

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include <fasttree/planner/policies.hpp>
#include <support/random_forest.hpp>

namespace {

using namespace fasttree;

/// Query rows that are merged, as the tables say, and as the items share them.
void check_merged_rows(PrefixTree const& tree, PlanTarget const& target, auto const& policy) {
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  double shared = 0, rows = 0;
  for (WorkItem const& item : tables.items) {
    ItemWork const work = work_of(tables, item);
    CHECK((work.merged_rows > 0) == (work.partial_rows > 0));
    shared += work.merged_rows;
  }
  for (int const query : tables.merge_queries)
    if (tables.merge_begin[query + 1] > tables.merge_begin[query]) rows += target.group;
  CHECK(shared == doctest::Approx(rows));
}

}  // namespace

TEST_CASE("items share the merging of their rows, of each row all of it") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = test::random_forest(seed, {40, 300, 40, 2}).tree();
    PlanTarget const target{{{64, 32, 16}, {16, 32, 16}}, seed % 2 ? 4 : 1, 2, 16};
    check_merged_rows(tree, target, ShareEveryNode{});
    check_merged_rows(tree, target, NoSharing{});
    check_merged_rows(tree, target, GreedyEdges<>{});
    check_merged_rows(tree, target, MinimalTraffic<>{});
  }
}

TEST_CASE("the price of an item: what it merges, and that it has partial results at all") {
  MachineCosts const costs{.item = 3, .partial = 5, .results = 2, .merge = 7};
  PlanTarget const target{.tiles = {}, .row_bytes = 10, .partial_bytes = 100};
  CHECK(costs.item_time(target, {.rows = 4}) == 3 + 4 * 10 / 2.);
  CHECK(costs.item_time(target, {.rows = 4, .partial_rows = 4, .merged_rows = 2}) ==
        3 + 5 + 4 * 10 / 2. + 2 * 4 * 100 / 2. + 2 * 7);
}
