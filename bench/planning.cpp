// SPDX-License-Identifier: Apache-2.0
// Time of planning on one core: the tree's construction, plans made again into existing memory, with the
// number of allocations that takes, and updates of a plan at 1024 requests. Trees: the FastTree paper's,
// batches from request traces (FASTTREE_TREES names a file of them), shapes from small to large. Names:
//     plan/tree/query heads x KV heads/planner
// What the plans are worth: bench/traffic.cpp. FASTTREE_BENCHMARK_SHRINK=8 divides all sizes by 8.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/planner/update_tables.hpp>
#include <support/count_allocations.hpp>
#include "support/context.hpp"
#include "support/forests.hpp"
#include "support/planners.hpp"

namespace {

using namespace fasttree;
using bench::Forest;
using bench::Heads;
using bench::NamedForest;
using bench::Planner;

constexpr Heads grouped{32, 8};

void describe(benchmark::State& state, PrefixTree const& tree) {
  state.counters["requests"] = tree.requests();
  state.counters["nodes"] = tree.nodes();
}

void describe(benchmark::State& state, PrefixTree const& tree, PlanTables const& tables) {
  describe(state, tree);
  state.counters["items"] = static_cast<double>(tables.items.size());
  state.counters["ranges"] = static_cast<double>(tables.ranges.size());
  state.counters["partials"] = tables.partials;
}

/// Plans of the forests in turn: the more there are, the less a processor can know of what comes.
void time_plan(benchmark::State& state, std::vector<Forest> const& forests, Heads heads,
               Planner const& planner) {
  std::vector<PrefixTree> trees;
  for (Forest const& forest : forests) trees.push_back(forest.tree());
  Grouping grouping;
  PlanTables tables;
  for (PrefixTree const& tree : trees) planner.plan(tree, heads, grouping, tables);
  long const before = test::allocations;
  std::size_t calls = 0;
  for (auto _ : state) {
    planner.plan(trees[calls % trees.size()], heads, grouping, tables);
    benchmark::DoNotOptimize(tables.partials);
    if (++calls == 1)
      state.counters["allocations"] = static_cast<double>(test::allocations - before);
  }
  planner.plan(trees.front(), heads, grouping, tables);
  describe(state, trees.front(), tables);
}

void time_tree(benchmark::State& state, Forest const& forest) {
  for (auto _ : state) {
    PrefixTree const tree = forest.tree();
    benchmark::DoNotOptimize(tree.slots());
  }
  describe(state, forest.tree());
}

/// A tree whose requests can grow, and where a plan of it is updated: each time from the plan as it was
/// made, with other rows. `update(tables, path, row)` is timed alone.
template <class Update>
void time_update(benchmark::State& state, Forest const& forest, Heads heads, Update const& update) {
  constexpr int room = 1 << 20;
  PrefixTree const tree(forest.parents, forest.lengths, forest.requests, SlotLayout{.room = room});
  Grouping grouping;
  PlanTables planned, tables;
  bench::minimal_traffic.plan(tree, heads, grouping, planned);
  std::vector<SlotRange> path;
  test::Random random(1);
  long updates = 0, allocated = 0;
  for (auto _ : state) {
    int const row = random.integer(0, tree.requests() - 1);
    path.clear();
    for (int node = tree.request(row).node; node >= 0; node = tree.parent(node))
      path.push_back({tree.slot_begin(node), tree.length(node)});
    std::reverse(path.begin(), path.end());
    tables = planned;
    long const before = test::allocations;
    auto const begin = std::chrono::steady_clock::now();
    update(tables, path, row);
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - begin;
    if (updates++ > 100) allocated += test::allocations - before;
    benchmark::DoNotOptimize(tables.partials);
    state.SetIterationTime(time.count());
  }
  describe(state, tree, tables);
  state.counters["allocations"] = static_cast<double>(allocated);
}

/// Tokens appended again and again.
void time_append(benchmark::State& state, Forest const& forest, Heads heads) {
  PrefixTree const tree(forest.parents, forest.lengths, forest.requests,
                        SlotLayout{.room = 1 << 30});
  Grouping grouping;
  PlanTables tables;
  bench::minimal_traffic.plan(tree, heads, grouping, tables);
  bool appended = append_tokens(tables);
  for (auto _ : state) appended &= append_tokens(tables);
  if (!appended) state.SkipWithError("no room for tokens");
  describe(state, tree, tables);
}

/// The updates of plans of this forest. Tokens are appended once as the first update after a plan, and
/// once as one of many.
void add_updates(NamedForest const& named, Heads heads) {
  auto const forest = std::make_shared<Forest const>(named.forest);
  auto const name_of = [&](char const* what) {
    return std::string(what) + "/" + named.name + "/" + heads.name() + "/" +
           bench::minimal_traffic.name;
  };
  auto const add_one = [&](char const* what, auto const& update) {
    benchmark::RegisterBenchmark(
        name_of(what).c_str(),
        [=](benchmark::State& state) { time_update(state, *forest, heads, update); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  using Path = std::vector<SlotRange>;
  add_one("append_tokens_first",
          [](PlanTables& tables, Path const&, int) { append_tokens(tables); });
  add_one("remove_request",
          [](PlanTables& tables, Path const&, int row) { remove_request(tables, row); });
  add_one("add_request", [](PlanTables& tables, Path const& path, int) {
    add_request(tables, tables.target, path);
  });
  benchmark::RegisterBenchmark(name_of("append_tokens").c_str(), [=](benchmark::State& state) {
    time_append(state, *forest, heads);
  })->Unit(benchmark::kMicrosecond);
}

void add_plans(std::string const& name, std::vector<Forest> forests,
               std::vector<Heads> const& all_heads, std::vector<Planner> const& planners) {
  auto const shared = std::make_shared<std::vector<Forest> const>(std::move(forests));
  for (Heads const heads : all_heads)
    for (Planner const& planner : planners)
      benchmark::RegisterBenchmark(
          ("plan/" + name + "/" + heads.name() + "/" + planner.name).c_str(),
          [=](benchmark::State& state) { time_plan(state, *shared, heads, planner); })
          ->Unit(benchmark::kMicrosecond);
}

void add(NamedForest const& named, std::vector<Heads> const& all_heads,
         std::vector<Planner> const& planners) {
  add_plans(named.name, {named.forest}, all_heads, planners);
  auto const forest = std::make_shared<Forest const>(named.forest);
  benchmark::RegisterBenchmark(("tree/" + named.name).c_str(), [=](benchmark::State& state) {
    time_tree(state, *forest);
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmarks(argc, argv, [] {
    std::vector<Planner> const planners{bench::minimal_traffic, bench::greedy_edges,
                                        bench::no_sharing};
    int const shrink = bench::shrink();
    for (NamedForest const& paper : bench::paper_forests()) {
      add(paper, bench::paper_heads(), planners);
      if (static_cast<int>(paper.forest.requests.size()) != 1024 / shrink) continue;
      for (Heads const heads : bench::paper_heads()) add_updates(paper, heads);
    }
    NamedForest const leaves = bench::named(
        "bushes_with_leaves", bench::with_leaves(bench::bushes(1500 / shrink, 1024 / shrink)));
    for (Heads const heads : bench::paper_heads()) add_updates(leaves, heads);
    for (NamedForest const& real : bench::real_forests()) add(real, {grouped}, planners);

    // Trees of 1024 requests that are all new to the processor, and shapes of 1024 requests and more:
    // the time should grow as they do.
    std::vector<Forest> in_turn;
    for (std::uint64_t seed = 1; seed <= 32; ++seed)
      in_turn.push_back(bench::bushes(2048 / shrink, 1024 / shrink, 0, seed));
    add_plans("32_bushes_in_turn", in_turn, bench::paper_heads(), planners);
    for (int requests = 1024 / shrink; requests <= (1 << 18) / shrink; requests *= 4) {
      add(bench::named("bushes", bench::bushes(2 * requests, requests)), {grouped}, planners);
      add(bench::named("forest", bench::bushes(2 * requests, requests, 100)), {grouped}, planners);
      add(bench::named("star", bench::star(requests)), {grouped}, planners);
      add(bench::named("chain", bench::chain(requests, false)), {grouped}, planners);
    }
    add(bench::named("bushes", bench::bushes(200000 / shrink, 100000 / shrink)),
        bench::paper_heads(), planners);
    add(bench::named("chain_of_requests", bench::chain(10000 / shrink, true)), {grouped}, planners);
  });
}
