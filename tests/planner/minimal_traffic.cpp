// SPDX-License-Identifier: Apache-2.0
// What MinimalTraffic claims: its cuts are the cheapest of all cuts (against brute force on all
// small trees), its plan is predicted to take no longer than one without sharing, requests whose
// lengths differ a thousandfold fill a machine, and few requests are cut within 5 % of reading each
// node once.

#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/plan/predict.hpp>
#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include <fasttree/planner/path_parts.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/plan_law.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using test::Forest;

template <class Policy>
PlanTables plan_of(PrefixTree const& tree, PlanTarget const& target, Policy const& policy) {
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  return tables;
}

/// The least price of blocks of `shared`, by trying all.
double cheapest(std::vector<int> const& shared, int height, CutPrice price) {
  int const queries = static_cast<int>(shared.size());
  double least = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1U << queries; ++cuts) {
    double sum = 0;
    int tall = 0;
    bool allowed = (cuts & 1) == 1;
    for (int i = 0; i < queries; ++i) {
      bool const cut = (cuts >> i & 1) == 1;
      tall = cut ? 1 : tall + 1;
      if (cut) sum += price.item + price.key * std::max(shared[i], 0);
      allowed = allowed && tall <= height && (cut || shared[i] != forced_cut);
    }
    if (allowed) least = std::min(least, sum);
  }
  return least;
}

/// Blocks with given beginnings, one group each, made without the code that is tested: every node
/// on the path of one of a block's queries, once.
struct GivenBlocks {
  unsigned cuts;  ///< bit i: a block begins with query i

  void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    order_requests(tree, grouping);
    int const queries = tree.queries();
    for (int begin = 0, end = 0; begin < queries; begin = end) {
      for (end = begin + 1; end < queries && (cuts >> end & 1) == 0;) ++end;
      open_group(begin, end, target.queries(target.tiles.wide), 1 << 30, grouping);
      for (int const node : tree.parents_first()) {
        int const first = grouping.query_begin[grouping.node_begin[node]];
        if (first < end && first + tree.queries_under(node) > begin)
          append_keys(tree, tree.parent(node), node, grouping);
      }
    }
  }
};

/// The least predicted time of all plans of blocks that are no taller than a tile.
double least_time(PrefixTree const& tree, PlanTarget const& target, MachineCosts const& costs) {
  int const queries = tree.queries(), height = target.queries(target.tiles.wide);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 1; cuts < 1U << queries; cuts += 2) {
    int tall = 0;
    bool allowed = true;
    for (int i = 0; i < queries; ++i) {
      tall = (cuts >> i & 1) == 1 ? 1 : tall + 1;
      allowed = allowed && tall <= height;
    }
    if (allowed) least = std::min(least, predict(plan_of(tree, target, GivenBlocks{cuts}), costs));
  }
  return least;
}

/// Calls use(tree) for all forests of up to `nodes` nodes, with lengths and requests per node out
/// of those given, in which every request has keys.
template <class Use>
void each_small_tree(int nodes, std::vector<int> const& lengths, int most_requests,
                     Use const& use) {
  for (int count = 1; count <= nodes; ++count) {
    int const kinds = static_cast<int>(lengths.size()) * (most_requests + 1);
    std::int64_t all = 1;
    for (int i = 0; i < count; ++i) all *= std::int64_t{kinds} * (i + 1);
    for (std::int64_t number = 0; number < all; ++number) {
      Forest forest;
      std::int64_t rest = number;
      auto const digit = [&](int base) {
        int const value = static_cast<int>(rest % base);
        rest /= base;
        return value;
      };
      for (int node = 0; node < count; ++node) {
        forest.parents.push_back(digit(node + 1) - 1);
        forest.lengths.push_back(lengths[digit(static_cast<int>(lengths.size()))]);
        for (int i = digit(most_requests + 1); i > 0; --i) forest.requests.push_back({node});
      }
      PrefixTree const tree = forest.tree();
      bool const have_keys = std::ranges::all_of(forest.requests, [&](Request const& request) {
        return tree.path_length(request.node) > 0;
      });
      if (have_keys && tree.requests() > 0) use(tree);
    }
  }
}

constexpr Tiles one_tile{{4, 4}, {4, 4}};

}  // namespace

TEST_CASE("cuts are the cheapest of all cuts, whatever is shared and for every height") {
  int const values[] = {forced_cut, 0, 1, 3};
  std::vector<double> least, with_block, stretch;
  std::vector<int> blocks;
  for (int queries = 1; queries <= 7; ++queries)
    for (int number = 0; number < 1 << (2 * queries); ++number) {
      std::vector<int> shared;
      for (int i = 0; i < queries; ++i) shared.push_back(values[number >> (2 * i) & 3]);
      for (int height = 1; height <= queries; ++height)
        for (CutPrice const price : {CutPrice{1, 1}, CutPrice{4, 1}, CutPrice{0.25, 1}}) {
          cut_into_blocks(shared, height, price, blocks, {least, with_block, stretch});
          double sum = 0;
          for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
            sum += price.item + price.key * std::max(shared[blocks[i]], 0);
            CHECK(blocks[i + 1] - blocks[i] <= height);
          }
          CHECK(sum == cheapest(shared, height, price));
        }
    }
  cut_into_blocks({forced_cut, 2, 0}, std::numeric_limits<int>::max(), {1, 1}, blocks,
                  {least, with_block, stretch});
  CHECK(blocks == std::vector{0, 3});
}

TEST_CASE("no blocks of a height read fewer keys than is said beforehand, nor is less said") {
  PlanTarget const target{.tiles = one_tile};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = test::random_forest(seed, {60, 50, 80, 3}).tree();
    Grouping grouping;
    order_requests(tree, grouping);
    PathParts const paths(tree, target, {}, grouping);
    for (int height = 1; height <= 128; height += height < 9 ? 1 : 7) {
      double most = 0, least = 0;
      for (int node = 0; node < tree.nodes(); ++node) {
        int const queries = tree.queries_under(node);
        most += tree.length(node) * ceil_div(queries, height);
        if (queries > 0) least += tree.length(node) * std::max(1.0, 1.0 * queries / height);
      }
      CHECK(paths.least_reads(height) <= most);
      bool const is_exact = (height & (height - 1)) == 0;  // for what is divided without rest
      if (is_exact) CHECK(paths.least_reads(height) == doctest::Approx(least));
    }
  }
}

TEST_CASE("where products are free, no plan of blocks of any small tree is cheaper") {
  // One slot, keys not meanwhile: the time is the sum over items of the item and of what it reads.
  MachineCosts const costs{.item = 3, .memory = 1, .cache = 0.5, .wide = 1e30, .in_turn = 1};
  PlanTarget const target{.tiles = one_tile, .key_bytes = 1, .row_bytes = 0};
  int trees = 0;
  auto const check = [&](PrefixTree const& tree) {
    double const time = predict(plan_of(tree, target, MinimalTraffic<>{costs}), costs);
    CHECK(time == doctest::Approx(least_time(tree, target, costs)).epsilon(1e-12));
    ++trees;
  };
  each_small_tree(3, {0, 1, 6}, 2, check);
  each_small_tree(4, {1, 5}, 1, check);
  CHECK(trees > 8'000);
}

TEST_CASE("one slot takes two requests in one item, however little an item costs") {
  MachineCosts const costs{.item = 1, .memory = 1, .cache = 0.5, .wide = 1e30, .in_turn = 1};
  PlanTarget const target{.tiles = one_tile, .key_bytes = 1, .row_bytes = 0};
  PrefixTree const tree = Forest{{-1, -1}, {1000, 1000}, {{0}, {1}}}.tree();
  CHECK(plan_of(tree, target, MinimalTraffic<>{costs}).items.size() == 1);
}

TEST_CASE(
    "where products bound, the cheapest plan of blocks is exceeded by no more than cuts cost") {
  // The price of a cut is then an upper bound: what is hidden behind what else an item does.
  MachineCosts const costs{.item = 1, .memory = 4, .cache = 8, .wide = 2};
  PlanTarget const target{.tiles = one_tile, .key_bytes = 1, .row_bytes = 0, .flops = 1};
  each_small_tree(3, {0, 1, 6}, 2, [&](PrefixTree const& tree) {
    PlanTables const tables = plan_of(tree, target, MinimalTraffic<>{costs});
    double more = 0;
    for (WorkItem const& item : tables.items) {
      double const keys = work_of(tables, item).more_keys;
      more += costs.item + std::max(keys / costs.cache, 2 * keys / costs.wide);
    }
    CHECK(predict(tables, costs) <= least_time(tree, target, costs) + more + 1e-9);
  });
}

TEST_CASE("a plan is predicted to take no longer than one without sharing") {
  MachineCosts const gpu{
      .item = 4, .memory = 17e3, .cache = 23e3, .wide = 2.3e6, .narrow = 1.5e6, .alone = 2};
  MachineCosts const host{.item = 1, .memory = 10e3, .cache = 20e3, .wide = 50e3, .narrow = 40e3};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree =
        test::random_forest(seed, {40, seed % 2 == 0 ? 3000 : 60, 100, 2}).tree();
    auto const check = [&](PlanTarget const& target, MachineCosts const& costs) {
      CAPTURE(target.slots);
      double const alone = predict(plan_of(tree, target, NoSharing{}), costs);
      CHECK(predict(plan_of(tree, target, MinimalTraffic<>{costs}), costs) <= 1.000001 * alone);
    };
    check({{{64, 64, 16}, {16, 64, 16}}, 4, 8, 264}, gpu);
    check({{{64, 64, 16}, {16, 64, 16}}, 1, 32, 264}, gpu);
    check({{{96, 64, 8}, {4, 16}}, 4, 8, 2}, host);
    check({{{96, 64, 8}, {4, 16}}, 1, 32, 16}, host);
    check({{{96, 64, 8}, {4, 16}}, 4, 8, 64}, host);
  }
}

TEST_CASE("the same for few requests on tiles and heads of any kind") {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    PlanTarget target{{{random.integer(1, 100), random.integer(1, 64), random.integer(1, 16)},
                       {random.integer(1, 30), 16, random.integer(1, 4)}},
                      random.integer(1, 9),
                      random.integer(1, 8),
                      random.integer(1, 200)};
    if (random.one_in(3)) target.tiles.most_keys = random.integer(1, 400);
    MachineCosts const costs{.item = 1.0 * random.integer(0, 9),
                             .memory = 1e3 * random.integer(1, 50),
                             .cache = 1e3 * random.integer(1, 50),
                             .wide = 1e3 * random.integer(1, 99),
                             .narrow = 1e3 * random.integer(1, 99),
                             .alone = 1.0 + random.integer(0, 2)};
    int const length = random.one_in(2) ? 3000 : 50, queries = random.one_in(2) ? 1 : 40;
    PrefixTree const tree =
        test::random_forest(seed, {30, length, 60, queries}).tree(random.integer(1, 3));
    double const alone = predict(plan_of(tree, target, NoSharing{}), costs);
    CHECK(predict(plan_of(tree, target, MinimalTraffic<>{costs}), costs) <= 1.000001 * alone);
  }
}

TEST_CASE("requests whose lengths differ a thousandfold fill the machine") {
  MachineCosts const costs{.launch = 4,
                           .item = 4,
                           .memory = 17e3,
                           .cache = 23e3,
                           .wide = 2.3e6,
                           .narrow = 1.5e6,
                           .alone = 2};
  PlanTarget const target{{{64, 64, 16}, {16, 64, 16}}, 4, 8, 264};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    Forest forest;
    int const requests = random.integer(16, 600);
    for (int i = 0; i < requests; ++i) {
      forest.parents.push_back(PrefixTree::no_parent);
      forest.lengths.push_back(
          static_cast<int>(100 * std::pow(1000, random.integer(0, 1000) / 1000.0)));
      forest.requests.push_back({i});
    }
    PrefixTree const tree = forest.tree();
    PlanTables const tables = plan_of(tree, target, MinimalTraffic<>{costs});
    double const floor = static_cast<double>(tables.unique_keys) * target.key_bytes *
                         target.kv_heads / (costs.memory * target.slots);
    CHECK(predict(tables, costs) <= 1.06 * (costs.launch + floor));
    CHECK(tables.partials <= 2 * target.slots);
  }
}

TEST_CASE("few requests on a large machine are cut within 5 % of where every node is read once") {
  MachineCosts const costs = cuda::sm80::h200_costs<8>;
  PrefixTree const tree = test::level_forest({1, 10}, {4000, 400}).tree();
  for (int const kv_heads : {8, 32}) {
    CAPTURE(kv_heads);
    PlanTarget const target{{cuda::sm80::wide_tile<8>, cuda::sm80::narrow_tile<8>},
                            32 / kv_heads,
                            kv_heads,
                            cuda::sm80::h200_slots<8>};
    double const shared = predict(plan_of(tree, target, ShareEveryNode{}), costs);
    CHECK(predict(plan_of(tree, target, MinimalTraffic<>{costs}), costs) <= 1.05 * shared);
  }
}

TEST_CASE("where partial results or merging are dear, there are none, however idle the machine") {
  PrefixTree const tree = test::level_forest({1, 3}, {30000, 900}).tree();
  PlanTarget const target{{{64, 64, 16}, {16, 64, 16}}, 4, 2, 132};
  auto const partials = [&](MachineCosts const& costs) {
    return plan_of(tree, target, MinimalTraffic<>{costs}).partials;
  };
  CHECK(partials({}) > 0);
  CHECK(partials({.partial = 1e5}) == 0);
  CHECK(partials({.merge = 1e5}) == 0);
}

TEST_CASE("costs need not make sense: plans keep the law, or there is an error that says so") {
  double const infinite = std::numeric_limits<double>::infinity();
  PrefixTree const tree = test::level_forest({1, 3, 20}, {500, 90, 30}).tree();
  PlanTarget target{{{64, 32, 16}, {16, 32, 16}}, 4, 8, 132};
  auto const plan = [&](MachineCosts const& costs) {
    PlanTables const tables = plan_of(tree, target, MinimalTraffic<>{costs});
    CHECK(test::PlanLaw(tree, target, tables).broken() == "");
  };
  for (int const most_keys : {1, 100, 1 << 30}) {
    target.tiles.most_keys = most_keys;
    MachineCosts free{.item = 1, .memory = infinite, .cache = infinite, .results = infinite};
    free.wide = free.narrow = infinite;  // items alone cost something
    plan(free);
    free.item = 0;
    plan(free);
    for (double const alone : {0.0, 0.5, infinite}) plan({.alone = alone});
    plan({.item = 1e15, .in_turn = 3});
    CHECK_THROWS_WITH_AS(
        plan({.memory = 0}),
        "fasttree::MinimalTraffic: costs: expected finite times, 0 or more, found inf", Error);
    CHECK_THROWS_AS(plan({.item = std::nan("")}), Error);
    CHECK_THROWS_AS(plan({.memory = -1, .cache = -1, .in_turn = 1}), Error);
  }
}

TEST_CASE(
    "long items are cut where keys come slower that are far apart, if that is what keys take") {
  PrefixTree const tree =
      test::level_forest({4, 8}, {16384, 1}).tree();               // to be shared in any case
  PlanTarget target{{{64, 64, 16}, {16, 64, 16}}, 1, 32, 4 * 32};  // full
  auto const items = [&](double drift) {
    MachineCosts const costs{.partial = 5, .drift = drift, .wide = 1e9, .narrow = 1e9};
    return plan_of(tree, target, MinimalTraffic<>{costs}).items.size();
  };
  CHECK(items(0) == 4);
  CHECK(items(0.2) >= 4 * 4);
  target.kv_heads = 4;  // a token's keys have half a page
  target.slots = 4 * 4;
  CHECK(items(0.2) == 4);
}

TEST_CASE("items of the longest blocks come first") {
  Forest forest;
  for (int const length : {300, 20000, 70, 900, 5000}) {
    forest.requests.push_back({static_cast<int>(forest.parents.size())});
    forest.parents.push_back(PrefixTree::no_parent);
    forest.lengths.push_back(length);
  }
  PlanTarget const target{{{64, 64, 16}, {16, 64, 16}}, 64, 1, 1};  // a request to an item
  PlanTables const tables = plan_of(forest.tree(), target, MinimalTraffic<>{});
  std::vector<double> times;
  for (WorkItem const& item : tables.items)
    times.push_back(MachineCosts{}.item_time(target, work_of(tables, item)));
  CHECK(times.size() > 2);
  CHECK(times.front() > 10 * times.back());
  CHECK(std::is_sorted(times.rbegin(), times.rend()));
}

TEST_CASE("branches that nobody asks about change no price of a block") {
  PlanTarget const target{{{128, 64, 16}, {16, 64, 16}}, 4, 8, 132};
  auto const wide_rows = [&](bool with_branch) {
    Forest forest = test::level_forest({1, 256}, {2048, 32});
    if (with_branch) {  // between the root and its other children
      forest.parents.insert(forest.parents.begin() + 1, 0);
      forest.lengths.insert(forest.lengths.begin() + 1, 500);
      for (Request& request : forest.requests) ++request.node;
    }
    PrefixTree const tree = forest.tree();
    Grouping grouping;
    order_requests(tree, grouping);
    PathParts paths(tree, target, {}, grouping);
    paths.part(false);
    return paths.wide_rows({0, 32}, 2048 + 32 * 32);
  };
  CHECK(wide_rows(true) == wide_rows(false));
}

TEST_CASE("tiles of any two heights have plans: the narrow one may be as tall, or taller") {
  MachineCosts const costs{.item = 0.01, .wide = 1e3, .narrow = 4e3};
  for (int const wide : {3, 16, 24, 64})
    for (int const narrow : {1, 15, 16, 64}) {
      CAPTURE(wide);
      CAPTURE(narrow);
      PlanTarget const target{{{wide, 32, 8}, {narrow, 16, 1}}, 3, 2, 16};
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        PrefixTree const tree = test::random_forest(seed, {20, 90, 40, 2}).tree();
        PlanTables const tables = plan_of(tree, target, MinimalTraffic<>{costs});
        CHECK(test::PlanLaw(tree, target, tables).broken() == "");
      }
    }
}
