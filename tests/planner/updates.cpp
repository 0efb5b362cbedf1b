// SPDX-License-Identifier: Apache-2.0
// Updates of a plan: after any sequence of them, on any forest and by any policy, the law of plans
// holds against the forest as it then is. Edges, errors that change nothing, memory that is used
// again, a plan updated in a constant expression.

#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include <fasttree/planner/update_tables.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/count_allocations.hpp"
#include "support/edited_forest.hpp"
#include "support/plan_law.hpp"
#include "support/subtree_policy.hpp"

namespace {

using namespace fasttree;
using test::EditedForest;
using test::Forest;
using test::PlanIs;
using test::PlanLaw;

constexpr Tiles small_tiles{{8, 4}, {4, 4}}, paper_tiles{{64, 32}, {16, 32}};
constexpr PlanTarget paper_target{paper_tiles, 4, 8, 132};

/// The tables of a plan, and what makes it anew.
template <class Policy>
struct HostPlan {
  PlanTarget target;
  Policy policy;
  Grouping grouping = {};
  PlanTables tables = {};

  void plan(PrefixTree const& tree) { build_plan(tree, target, policy, grouping, tables); }
};

template <class Policy>
HostPlan<Policy> plan_of(PrefixTree const& tree, Policy const& policy,
                         PlanTarget const& target = paper_target) {
  HostPlan<Policy> plan{target, policy};
  plan.plan(tree);
  return plan;
}

/// All that kernels read, and all by which the plan is described.
bool same(PlanTables const& a, PlanTables const& b) {
  return a.tiles == b.tiles && a.query_order == b.query_order && a.visible_keys == b.visible_keys &&
         a.items == b.items && a.ranges == b.ranges && a.merge_queries == b.merge_queries &&
         a.merge_begin == b.merge_begin && a.merge_partials == b.merge_partials &&
         a.partials == b.partials && a.slots == b.slots && a.unique_keys == b.unique_keys &&
         a.path_keys == b.path_keys;
}

/// What EditedForest::edit asks of a plan.
template <class Policy>
struct Updates {
  HostPlan<Policy>& plan;
  EditedForest const& forest;
  int room;

  bool append_tokens() const {
    PlanTables const before = plan.tables;
    bool const appended = fasttree::append_tokens(plan.tables);
    if (!appended) CHECK(same(before, plan.tables));
    return appended;
  }
  void remove_request(int row) const { fasttree::remove_request(plan.tables, row); }
  void add_request(std::vector<SlotRange> const& path, int with_room) const {
    fasttree::add_request(plan.tables, plan.target, path, with_room);
  }
  void make_anew() const { plan.plan(forest.tree(room)); }
};

template <class Policy>
void keeps_the_law(std::uint64_t seed, PlanTarget const& target, Policy const& policy) {
  CAPTURE(seed);
  CAPTURE(target.group);
  test::Random random(seed);
  int const room = random.integer(0, 3) * 5;
  EditedForest forest(test::random_forest(seed, {20, 60, 30, seed % 4 == 0 ? 3 : 1}), room);
  auto plan = plan_of(forest.tree(), policy, target);
  std::string done = "a plan";
  for (int step = 0; step < 60; ++step) {
    CAPTURE(step);
    CAPTURE(done);
    REQUIRE(PlanLaw(forest.tree(), target, plan.tables, PlanIs::updated).broken() == "");
    CHECK(plan.tables.slots <= forest.slots());
    done = forest.edit(random, Updates<Policy>{plan, forest, room});
  }
}

template <class Policy>
void keeps_the_law_on_random_forests(Policy const& policy) {
  PlanTarget const targets[] = {
      {small_tiles, 1, 1, 1}, {small_tiles, 3, 2, 16}, {small_tiles, 16, 1, 8}, paper_target};
  for (std::uint64_t seed = 0; seed < 80; ++seed)
    for (PlanTarget const& target : targets) keeps_the_law(seed, target, policy);
}

/// Two requests with leaves of 5 and 7 tokens below a root of 10, with room for 3 more each.
PrefixTree small_tree() {
  return PrefixTree(std::vector{-1, 0, 0}, std::vector{10, 5, 7}, std::vector<Request>{{1}, {2}},
                    SlotLayout{.room = 3});
}

std::string law_of(PrefixTree const& tree, PlanTables const& tables) {
  return PlanLaw(tree, paper_target, tables, PlanIs::updated).broken();
}

/// Checks that `update` is refused with this message and changes nothing.
template <class Update>
void refuses(PlanTables& tables, char const* message, Update const& update) {
  PlanTables const before = tables;
  CHECK_THROWS_WITH_AS(update(tables), message, Error);
  CHECK(same(tables, before));
}

}  // namespace

TEST_CASE("NoSharing: updates keep the law") { keeps_the_law_on_random_forests(NoSharing{}); }

TEST_CASE("ShareEveryNode: updates keep the law") {
  keeps_the_law_on_random_forests(ShareEveryNode{});
}

TEST_CASE("GreedyEdges: updates keep the law") {
  keeps_the_law_on_random_forests(GreedyEdges<>{});
  keeps_the_law_on_random_forests(GreedyEdges<>{.long_piece = 7, .short_piece = 3});
  keeps_the_law_on_random_forests(GreedyEdges<>{.costs = {.gamma = 1e9}});
}

TEST_CASE("MinimalTraffic: updates keep the law") {
  keeps_the_law_on_random_forests(MinimalTraffic<>{});
  keeps_the_law_on_random_forests(MinimalTraffic<>{.fixed_piece = 20});
}

TEST_CASE("groups that carry subtrees: updates keep the law") {
  keeps_the_law_on_random_forests(test::SubtreePolicy{});
  keeps_the_law_on_random_forests(test::SubtreePolicy{.keys_per_item = 9});
}

TEST_CASE("tokens are appended while there is room, by every policy of the library") {
  auto const append = [](auto const& policy) {
    auto plan = plan_of(small_tree(), policy);
    for (int step = 1; step <= 3; ++step) {
      CHECK(append_tokens(plan.tables));
      std::vector<std::int64_t> const slots{0, 10, 18};  // as small_tree() has laid them
      PrefixTree const tree(std::vector{-1, 0, 0}, std::vector{10, 5 + step, 7 + step},
                            std::vector<Request>{{1}, {2}}, slots);
      CHECK(law_of(tree, plan.tables) == "");
      auto const fresh = plan_of(tree, policy);
      CHECK(plan.tables.visible_keys == fresh.tables.visible_keys);
      CHECK(plan.tables.unique_keys == fresh.tables.unique_keys);
      CHECK(plan.tables.path_keys == fresh.tables.path_keys);
    }
    PlanTables const before = plan.tables;
    CHECK_FALSE(append_tokens(plan.tables));
    CHECK(same(before, plan.tables));
  };
  append(NoSharing{});
  append(ShareEveryNode{});
  append(GreedyEdges<>{});
  append(MinimalTraffic<>{});
  append(test::SubtreePolicy{});
}

TEST_CASE("no token is appended where a query has no node with keys of its own") {
  auto const refuses_tokens = [](std::vector<int> parents, std::vector<int> lengths,
                                 std::vector<Request> requests) {
    PrefixTree const tree(parents, lengths, requests, SlotLayout{.room = 9});
    auto plan = plan_of(tree, NoSharing{});
    PlanTables const before = plan.tables;
    CHECK_FALSE(append_tokens(plan.tables));
    CHECK(same(before, plan.tables));
  };
  refuses_tokens({-1}, {5}, {{0}, {0}});        // two on a node
  refuses_tokens({-1, 0}, {5, 5}, {{0}, {1}});  // one on the way to another
  refuses_tokens({-1, 0}, {5, 0}, {{1}});       // on an empty node
  refuses_tokens({-1, 0}, {5, 5}, {{1, 2}});    // two queries
}

TEST_CASE("ranges may be meant for queries beyond those of the item") {
  struct Wide {
    void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
      NoSharing{}.group(tree, target, grouping);
      for (KeyRange& range : grouping.ranges) range.query_begin = 0, range.query_end = 2;
    }
  };
  std::vector<std::int64_t> const slots{0, 10, 18};
  auto plan = plan_of(small_tree(), Wide{});
  CHECK(append_tokens(plan.tables));
  CHECK(law_of(PrefixTree(std::vector{-1, 0, 0}, std::vector{10, 6, 8},
                          std::vector<Request>{{1}, {2}}, slots),
               plan.tables) == "");
  remove_request(plan.tables, 0);
  CHECK(append_tokens(plan.tables));
  CHECK(law_of(PrefixTree(std::vector{-1, 0, 0}, std::vector{10, 6, 9}, std::vector<Request>{{2}},
                          slots),
               plan.tables) == "");
}

TEST_CASE("all requests go, in any order, and come again") {
  std::vector<int> const parents{-1, 0, 0}, lengths{10, 5, 7};
  std::vector<std::int64_t> const slots{0, 10, 18};
  for (int const first : {0, 1}) {
    CAPTURE(first);
    auto plan = plan_of(small_tree(), ShareEveryNode{});
    remove_request(plan.tables, first);
    CHECK(law_of(PrefixTree(parents, lengths, std::vector<Request>{{2 - first}}, slots),
                 plan.tables) == "");
    remove_request(plan.tables, 0);
    PrefixTree const idle(parents, lengths, {}, slots);
    CHECK(law_of(idle, plan.tables) == "");
    CHECK(plan.tables.items.empty());
    CHECK(append_tokens(plan.tables));  // to none

    SlotRange const path[] = {{0, 10}, {18, 7}};
    add_request(plan.tables, paper_target, path, 2);
    CHECK(law_of(PrefixTree(parents, lengths, std::vector<Request>{{2}}, slots), plan.tables) ==
          "");
    for (bool const room : {true, true, false}) CHECK(append_tokens(plan.tables) == room);
    CHECK(law_of(PrefixTree(parents, std::vector{10, 5, 9}, std::vector<Request>{{2}}, slots),
                 plan.tables) == "");
  }
}

TEST_CASE("a request is added to a plan of nothing, with keys or without") {
  auto plan = plan_of(PrefixTree({}, {}, {}), GreedyEdges<>{});
  add_request(plan.tables, paper_target, {});
  CHECK(plan.tables.items.empty());
  CHECK(plan.tables.merge_queries == std::vector{0});
  SlotRange const path[] = {{40, 300}, {0, 0}, {10, 30}};
  add_request(plan.tables, paper_target, path);
  CHECK(law_of(PrefixTree(std::vector{-1, 0, -1}, std::vector{300, 30, 0},
                          std::vector<Request>{{2}, {1}}, std::vector<std::int64_t>{40, 10, 0}),
               plan.tables) == "");
  CHECK(plan.tables.items.size() == 3);  // of 110 keys: four tiles are the least length of a piece
  CHECK(plan.tables.slots == 340);
}

TEST_CASE("a request added without room, or with an empty end, has no room for tokens") {
  SlotRange const paths[][2] = {{{0, 10}, {40, 0}}, {{0, 10}, {10, 5}}};
  for (auto const& path : paths) {
    auto plan = plan_of(small_tree(), ShareEveryNode{});
    bool const empty_end = path[1].length == 0;
    CHECK(append_tokens(plan.tables));
    add_request(plan.tables, paper_target, path, empty_end ? 3 : 0);
    CHECK_FALSE(append_tokens(plan.tables));
  }
}

TEST_CASE("an item that loses its only keys goes; its other queries yield 0") {
  // Queries 1 and 2 see no key, but a policy may put them beside one that does.
  PrefixTree const tree(std::vector{-1, -1}, std::vector{6, 0},
                        std::vector<Request>{{0}, {1}, {1}});
  struct OneGroup {
    void group(PrefixTree const& of, PlanTarget const&, Grouping& grouping) const {
      order_requests(
          of, [](int) { return false; }, grouping);
      grouping.ranges.assign(1, {0, 6, 0, 0, 1});
      grouping.groups.assign(1, {0, 3, 0, 1, 3, keys_per_item});
    }
    int keys_per_item;
  };
  PrefixTree const rest(std::vector{-1}, std::vector{0}, std::vector<Request>{{0}, {0}});
  for (int const keys_per_item : {6, 2}) {
    auto plan = plan_of(tree, OneGroup{keys_per_item});
    CHECK(law_of(tree, plan.tables) == "");
    remove_request(plan.tables, 0);
    CHECK(law_of(rest, plan.tables) == "");
    CHECK(plan.tables.items.empty());
    CHECK(plan.tables.merge_queries.size() == 2);
    CHECK(plan.tables.merge_partials.empty());
  }
}

TEST_CASE("partial results that a request leaves are given to the next") {
  auto plan = plan_of(test::level_forest({1, 40}, {500, 20}).tree(), ShareEveryNode{});
  int const partials = plan.tables.partials;
  SlotRange const path[] = {{0, 500}, {500, 20}};
  for (int i = 0; i < 30; ++i) {
    remove_request(plan.tables, 0);
    remove_request(plan.tables, 5);
    add_request(plan.tables, paper_target, path);
  }
  CHECK(plan.tables.partials == partials);
}

TEST_CASE("refused: rows that are none, paths that cannot be, more than a plan can hold") {
  constexpr int most = std::numeric_limits<int>::max();
  auto plan = plan_of(small_tree(), ShareEveryNode{});
  auto const remove = [](int row) {
    return [row](PlanTables& tables) { remove_request(tables, row); };
  };
  refuses(plan.tables, "fasttree::remove_request: row: expected one below 2, found 2", remove(2));
  refuses(plan.tables, "fasttree::remove_request: row: expected one below 2, found -1", remove(-1));
  auto const add = [](std::vector<SlotRange> path, int room = 0, int kv_heads = 1) {
    return [=](PlanTables& tables) {
      add_request(tables, {paper_tiles, 1, kv_heads, 1}, path, room);
    };
  };
  refuses(plan.tables, "fasttree::add_request: path[1].length: expected 0 or more, found -1",
          add({{0, 10}, {9, -1}}));
  refuses(plan.tables,
          "fasttree::add_request: path[0].slot_begin: expected from 0 to less than 2^63, found -3",
          add({{-3, 10}}));
  refuses(plan.tables,
          "fasttree::add_request: path[0].slot_begin: expected from 0 to less than 2^63, found "
          "9223372036854775807",
          add({{std::numeric_limits<std::int64_t>::max(), 1}}));
  refuses(plan.tables, "fasttree::add_request: room: expected 0 or more, found -1", add({}, -1));
  refuses(plan.tables,
          "fasttree::add_request: path: expected less than 2^31 keys, with room, found 2147483650",
          add({{0, most - 5}, {0, 5}}, 3));
  refuses(plan.tables,
          "fasttree::add_request: items x KV heads: expected less than 2^31, found 2147483649",
          add({{0, 5}}, 0, most / 4 + 1));
  CHECK(law_of(small_tree(), plan.tables) == "");
}

TEST_CASE("once the memory suffices, no update allocates") {
  auto const cycle = [](PlanTables& tables, PrefixTree const& tree, int times) {
    for (int i = 0; i < times; ++i) {
      CHECK(append_tokens(tables));
      remove_request(tables, i * 37 % tree.requests());
      int const leaf = tree.nodes() - 1 - i % 20;
      SlotRange const path[] = {{0, 2000}, {tree.slot_begin(leaf), 20}};
      add_request(tables, paper_target, path, tree.room());
    }
  };
  auto const check = [&](auto const& policy) {
    Forest const forest = test::level_forest({1, 8, 64, 256}, {2000, 500, 100, 20});
    PrefixTree const tree(forest.parents, forest.lengths, forest.requests,
                          SlotLayout{.room = 100'000});
    auto plan = plan_of(tree, policy);
    cycle(plan.tables, tree, 2000);
    long const before = test::allocations;
    cycle(plan.tables, tree, 2000);
    CHECK(test::allocations - before == 0);
    plan.plan(tree);
    cycle(plan.tables, tree, 2000);
    CHECK(test::allocations - before == 0);
  };
  check(NoSharing{});
  check(ShareEveryNode{});
  check(GreedyEdges<>{});
  check(MinimalTraffic<>{});
}

// Clang 14 does not accept std::vector::resize of libstdc++ 12 in a constant expression.
#if !defined(__clang__) || __clang_major__ > 14
TEST_CASE("a plan can be updated in a constant expression") {
  constexpr auto updated = [] {
    int const parents[] = {-1, 0, 0}, lengths[] = {10, 5, 7};
    Request const requests[] = {{1}, {2}};
    PrefixTree const tree(parents, lengths, requests, SlotLayout{.room = 3});
    Grouping grouping;
    PlanTables tables;
    build_plan(tree, paper_target, ShareEveryNode{}, grouping, tables);
    bool const appended = append_tokens(tables);
    remove_request(tables, 0);
    SlotRange const path[] = {{0, 10}, {10, 4}};
    add_request(tables, paper_target, path, 1);
    bool const again = append_tokens(tables) && !append_tokens(tables);
    return appended && again && tables.visible_keys == std::vector{19, 15} &&
           tables.path_keys == 34 && tables.items.size() == 3;
  };
  static_assert(updated());
}
#endif
