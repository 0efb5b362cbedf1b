// SPDX-License-Identifier: Apache-2.0
// The work of items and its price: what is merged is counted once, whoever has partial results of
// it; teams wait for the one that has most keys; an item's own time hides behind its keys.

#include <fasttree/plan/predict.hpp>

#include <vector>

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

/// Pairs of a key and a row in the one item of requests that have so many keys each, after `shared`
/// keys that all see, where a query has the rows of one of eight teams.
double wide_rows_of(std::vector<int> lengths, int shared) {
  test::Forest forest{{PrefixTree::no_parent}, {shared}, {}};
  for (int const length : lengths) {
    forest.requests.push_back({static_cast<int>(forest.parents.size())});
    forest.parents.push_back(0);
    forest.lengths.push_back(length);
  }
  TilePolicy const tile{.query_rows = 128, .key_rows = 128, .row_step = 16, .row_teams = 8};
  PlanTarget const target{.tiles = {tile, tile}, .group = 16};
  Grouping grouping;
  PlanTables tables;
  build_plan(forest.tree(), target, MinimalTraffic<>{{.item = 1e3}}, grouping, tables);
  REQUIRE(tables.items.size() == 1);
  return work_of(tables, tables.items[0]).wide_rows;
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

TEST_CASE(
    "teams with rows wait for the one that has most keys, and share all rows if they are few") {
  CHECK(wide_rows_of({100}, 50) == 150 * 16);
  CHECK(wide_rows_of({100, 60}, 50) == (50 * 2 + 100 * 2) * 16);
  CHECK(wide_rows_of({100, 60, 30}, 0) == 100 * 4 * 16);
  CHECK(wide_rows_of({70, 10, 20, 90, 30}, 8) == (8 * 5 + 90 * 8) * 16);
}

TEST_CASE("an item's own time hides behind its keys, as far as the two do not take turns") {
  MachineCosts costs{.item = 3, .memory = 4, .wide = 2};
  PlanTarget const target{.tiles = {}, .key_bytes = 8, .row_bytes = 0, .flops = 1};
  CHECK(costs.item_time(target, {}) == 3);
  CHECK(costs.item_time(target, {.new_keys = 100, .wide_rows = 100}) == 200);
  CHECK(costs.item_time(target, {.new_keys = 1, .wide_rows = 100}) == 53);
  costs.in_turn = 0.5;
  CHECK(costs.item_time(target, {}) == 3);
  CHECK(costs.item_time(target, {.new_keys = 100, .wide_rows = 100}) == 200 + 0.5 * 53);
}

TEST_CASE("the price of an item: what it merges, and that it has partial results at all") {
  MachineCosts const costs{.item = 3, .partial = 5, .memory = 4, .results = 2, .merge = 7};
  PlanTarget const target{.tiles = {}, .row_bytes = 10, .partial_bytes = 100};
  CHECK(costs.item_time(target, {.rows = 4}) == 3 + 4 * 10 / 2.);
  CHECK(costs.item_time(target, {.rows = 4, .partial_rows = 4, .merged_rows = 2}) ==
        3 + 2 * 5 + 4 * 10 / 2. + 2 * 4 * 100 / 2. + 2 * 7);
  // Half of what partial results take besides hides behind keys.
  ItemWork const many_keys{.new_keys = 100, .partial_rows = 4};
  CHECK(costs.item_time(target, many_keys) == 5 + 100 * 512 / 4. + 2 * 4 * 100 / 2.);
  Schedule schedule;
  schedule.add(9, 1);
  CHECK(time_of_all(schedule, target, costs, false) == 9);
  CHECK(time_of_all(schedule, target, costs, true) == 9 + 2 * 5 + 2 * 100 / 2.);
}

TEST_CASE("long items of many KV heads read slower, and work is divided where that is faster") {
  MachineCosts const costs{.item = 3, .memory = 2, .drift = 0.5};
  PlanTarget target{.tiles = {}, .kv_heads = 16, .key_bytes = 512, .row_bytes = 0};
  auto const time = [&](double keys) { return costs.item_time(target, {.new_keys = keys}); };
  CHECK(time(4096) == 4096 * 256);
  CHECK(time(8192) == 8192 * 256 * (1 + 0.5 * 0.5 * 0.5));
  CHECK(least_time_of_items(costs, target, {.new_keys = 8192}, 1) == 2 * time(4096));
  CHECK(least_time_of_items(costs, target, {.new_keys = 8192}, 4) == 4 * time(2048));
  target.kv_heads = 8;
  CHECK(time(8192) == 8192 * 256);
  CHECK(least_time_of_items(costs, target, {.new_keys = 8192}, 1) == time(8192));
}
