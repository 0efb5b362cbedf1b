// SPDX-License-Identifier: Apache-2.0
// The counts, the times and the words of a plan, by hand on a tree small enough to count.

#include <fasttree/make_plan.hpp>
#include <fasttree/plan/explain.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "support/random_forest.hpp"
#include "support/space.hpp"
#include "support/subtree_policy.hpp"

using namespace fasttree;
using fasttree::test::Forest;
using fasttree::test::Space;

TEST_CASE("summary: what ShareEveryNode and NoSharing move on a root of 100 keys with two leaves") {
  AttentionShape<fasttree::half, 64, 32> const shape{.query_heads = 8, .kv_heads = 2};
  PrefixTree const tree = Forest{{-1, 0, 0}, {100, 20, 30}, {{1}, {2}}}.tree();
  PlanSummary const shared = summarize(make_plan(Space{}, tree, shape, ShareEveryNode{}));
  CHECK(shared.queries == 2);
  CHECK(shared.unique_keys == 150);
  CHECK(shared.keys_read == 150);
  CHECK(shared.keys_reread == 0);
  CHECK(shared.path_keys == 120 + 130);
  CHECK(shared.key_bytes == 150 * 2 * (64 + 32) * 2);
  CHECK(shared.unique_key_bytes == shared.key_bytes);
  CHECK(shared.path_key_bytes == 250 * 2 * (64 + 32) * 2);
  CHECK(shared.query_bytes == 2 * 8 * (64 + 32) * 2);
  CHECK(shared.partials == 4);
  CHECK(shared.partial_bytes == 2 * 4 * 8 * (32 + 1) * 4);
  CHECK(shared.wide_items + shared.narrow_items == 3);

  PlanSummary const alone = summarize(make_plan(Space{}, tree, shape, NoSharing{}));
  CHECK(alone.keys_read == alone.path_keys);
  CHECK(alone.keys_reread == 100);
  CHECK(alone.partials == 0);
  CHECK(alone.partial_bytes == 0);
}

TEST_CASE("summary: padding is the share of a tile that holds nothing") {
  // Two items of 13 rows, more than the narrow tile has, and 40 keys.
  AttentionShape<float, 8> const shape{.query_heads = 26, .kv_heads = 2};
  auto const plan = make_plan(Space{}, Forest{{-1}, {40}, {{0}}}.tree(), shape, NoSharing{});
  TilePolicy const tile = plan.tables().tiles.wide;
  REQUIRE(tile.key_rows >= 40);
  PlanSummary const sum = summarize(plan);
  CHECK(sum.narrow_items == 0);
  CHECK(sum.row_padding == doctest::Approx(1 - 13.0 / round_up(13, tile.row_step)));
  CHECK(sum.key_padding == doctest::Approx(1 - 40.0 / tile.key_rows));
}

TEST_CASE("summary: a key range pays for the steps of rows that it touches, key by key") {
  // Items of 60 rows: 100 keys for all of them, 30 for rows 0 to 9, 20 for rows 10 to 59.
  AttentionShape<float, 8> const shape{.query_heads = 10, .kv_heads = 1};
  Forest const forest{{-1, 0, 0}, {100, 30, 20}, {{1}, {2}, {2}, {2}, {2}, {2}}};
  auto const plan = make_plan(Space{}, forest.tree(), shape, test::SubtreePolicy{});
  int const step = plan.tables().tiles.wide.row_step;
  REQUIRE(plan.tables().items.size() == 1);
  double const computed = 100 * round_up(60, step) + 30 * round_up(10, step) +
                          20 * (round_up(60, step) - 10 / step * step);
  double const needed = 100 * 60 + 30 * 10 + 20 * 50;
  CHECK(summarize(plan).row_padding == doctest::Approx(1 - needed / computed));
}

TEST_CASE("summary: items that fit the narrow tile pay for their own rows alone") {
  AttentionShape<float, 8> const shape{.query_heads = 4, .kv_heads = 2};
  auto const plan = make_plan(Space{}, Forest{{-1}, {40}, {{0}}}.tree(), shape, NoSharing{});
  TilePolicy const tile = plan.tables().tiles.narrow;
  PlanSummary const sum = summarize(plan);
  CHECK(sum.row_padding == doctest::Approx(1 - 2.0 / round_up(2, tile.row_step)));
  CHECK(sum.key_padding == doctest::Approx(1 - 40.0 / round_up(40, tile.key_rows)));
}

TEST_CASE("an empty plan has a summary of zeros and can be explained") {
  AttentionShape<float, 8> const shape{};
  auto const plan = make_plan(Space{}, Forest{}.tree(), shape);
  PlanSummary const sum = summarize(plan);
  CHECK(sum.queries == 0);
  CHECK(sum.key_bytes == 0);
  CHECK(sum.row_padding == 0);
  CHECK(explain(plan).starts_with("plan of 0 queries"));
}

TEST_CASE("the explanation names items, bytes, partial results, padding, and time") {
  AttentionShape<bfloat16, 128> const shape{.query_heads = 32, .kv_heads = 8};
  PrefixTree const tree = test::level_forest({1, 4, 64}, {2000, 300, 20}).tree();
  std::string const text = explain(make_plan(Space{}, tree, shape));
  CAPTURE(text);
  CHECK(text.starts_with(
      "plan of 64 queries x 32 query heads, 8 KV heads, head_dim 128, bfloat16\n"));
  for (char const* part : {"work items", "keys", "key bytes", "partials", "padding",
                           "us predicted for the backend's costs"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find("4480 distinct") != std::string::npos);
  CHECK(text.find("  node ") == std::string::npos);
}

TEST_CASE("the explanation of a plan by GreedyEdges names the weightiest decisions") {
  AttentionShape<bfloat16, 128> const shape{.query_heads = 32, .kv_heads = 8};
  PrefixTree const tree = test::level_forest({1, 4, 64}, {2000, 300, 20}).tree();
  std::string const text = explain(make_plan(Space{}, tree, shape, GreedyEdges<>{}));
  CHECK(text.find("  node ") != std::string::npos);
}

TEST_CASE("time is predicted for any machine, and so is the floor") {
  // 1000 keys of 64 bytes for each of 2 KV heads, one item: 128 us from a memory of 1 byte per us.
  AttentionShape<float, 8> const shape{.query_heads = 2, .kv_heads = 2};
  auto const plan =
      make_plan(Space{}, Forest{{-1}, {1000}, {{0}}}.tree(), shape, test::SubtreePolicy{});
  double const slots = plan.tables().target.slots;
  MachineCosts const costs{.launch = 5,
                           .item = 0,
                           .memory = 1e3,
                           .cache = 1e30,
                           .results = 1e30,
                           .wide = 1e30,
                           .narrow = 1e30};
  double const items = slots > 1 ? 64 * Schedule::slow : 128;
  CHECK(predict(plan.tables(), costs) == doctest::Approx(5 + items));
  CHECK(predict_floor(plan.tables(), costs) == doctest::Approx(5 + 128 / slots));
  char expected[100];
  std::snprintf(
      expected, sizeof(expected),
      "  time         %.1f us predicted for a slow machine; no plan takes less than %.1f\n",
      predict(plan.tables(), costs), predict_floor(plan.tables(), costs));
  CHECK(explain(plan, costs, "a slow machine").find(expected) != std::string::npos);
}
