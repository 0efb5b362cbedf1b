// SPDX-License-Identifier: Apache-2.0
// Time of planning on one core: the tree's construction, plans made again into existing memory, with the
// number of allocations that takes, and updates of a plan at 1024 requests. Trees: the FastTree paper's with its tiles, what real servers
// hold (FASTTREE_TREES names a file of them), one large and two deep ones.
// FASTTREE_BENCHMARK_SHRINK=8 divides all sizes by 8.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/update_tables.hpp>
#include <support/random_forest.hpp>
#include "support/context.hpp"
#include "support/paper_trees.hpp"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Not inlined: GCC 12 warns of the pair of operator new and free otherwise.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace fasttree;
using test::Forest;

struct Target {
  std::string name;
  PlanTarget plan;
};

/// Of the paper's benchmark: its tiles for each ratio of heads, on a GPU of 132 units.
std::vector<Target> targets() {
  constexpr Tiles tiles{.wide = {64, 32}, .narrow = {16, 32}};
  return {{"32x32", {tiles, 1, 32, 132}},
          {"32x8", {tiles, 4, 8, 132}},
          {"16x1", {{.wide = {64, 32}, .narrow = {16, 32}}, 16, 1, 132}}};
}

void describe(benchmark::State& state, PrefixTree const& tree) {
  state.counters["requests"] = tree.requests();
  state.counters["nodes"] = tree.nodes();
}

void time_plan(benchmark::State& state, Forest const& forest, PlanTarget const& target) {
  PrefixTree const tree = forest.tree();
  Grouping grouping;
  PlanTables tables;
  GreedyEdges<PaperCosts> const policy;
  build_plan(tree, target, policy, grouping, tables);
  long const before = allocations;
  long long calls = 0;
  for (auto _ : state) {
    build_plan(tree, target, policy, grouping, tables);
    benchmark::DoNotOptimize(tables.partials);
    if (++calls == 1) state.counters["allocations"] = static_cast<double>(allocations - before);
  }
  describe(state, tree);
  state.counters["items"] = static_cast<double>(tables.items.size());
  state.counters["partials"] = tables.partials;
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
void time_update(benchmark::State& state, Forest const& forest, PlanTarget const& target,
                 Update const& update) {
  constexpr int room = 1 << 20;
  PrefixTree const tree(forest.parents, forest.lengths, forest.requests, SlotLayout{.room = room});
  Grouping grouping;
  PlanTables planned, tables;
  build_plan(tree, target, GreedyEdges<>{}, grouping, planned);
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
    long const before = allocations;
    auto const begin = std::chrono::steady_clock::now();
    update(tables, path, row);
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - begin;
    if (updates++ > 100) allocated += allocations - before;
    benchmark::DoNotOptimize(tables.partials);
    state.SetIterationTime(time.count());
  }
  describe(state, tree);
  state.counters["items"] = static_cast<double>(tables.items.size());
  state.counters["partials"] = tables.partials;
  state.counters["allocations"] = static_cast<double>(allocated);
}

/// The updates of plans of this forest. Tokens are appended once as the first update after a plan, and
/// once as one of many.
void add_updates(std::string const& name, Forest const& forest, Target const& target) {
  auto const shared = std::make_shared<Forest const>(forest);
  auto const add_one = [&](char const* what, auto const& update) {
    benchmark::RegisterBenchmark(
        (std::string(what) + "/" + name + "/" + target.name).c_str(),
        [=](benchmark::State& state) { time_update(state, *shared, target.plan, update); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  using Path = std::vector<SlotRange>;
  add_one("append_tokens_first",
          [](PlanTables& tables, Path const&, int) { append_tokens(tables); });
  add_one("remove_request",
          [](PlanTables& tables, Path const&, int row) { remove_request(tables, row); });
  add_one("add_request", [plan = target.plan](PlanTables& tables, Path const& path, int) {
    add_request(tables, plan, path);
  });
  benchmark::RegisterBenchmark(("append_tokens/" + name + "/" + target.name).c_str(),
                               [=](benchmark::State& state) {
                                 PrefixTree const tree(shared->parents, shared->lengths,
                                                       shared->requests,
                                                       SlotLayout{.room = 1 << 30});
                                 Grouping grouping;
                                 PlanTables tables;
                                 build_plan(tree, target.plan, GreedyEdges<>{}, grouping, tables);
                                 bool appended = append_tokens(tables);
                                 for (auto _ : state) appended &= append_tokens(tables);
                                 if (!appended) state.SkipWithError("no room for tokens");
                                 describe(state, tree);
                               })
      ->Unit(benchmark::kMicrosecond);
}

/// The same forest with a leaf of its own, of 20 tokens, for each request.
Forest with_leaves(Forest forest) {
  for (Request& request : forest.requests) {
    forest.parents.push_back(request.node);
    forest.lengths.push_back(20);
    request.node = static_cast<int>(forest.parents.size()) - 1;
  }
  return forest;
}

void add(std::string const& name, Forest const& forest, bool all_heads = false) {
  auto const shared = std::make_shared<Forest const>(forest);
  for (Target const& target : targets()) {
    if (!all_heads && target.name != "32x8") continue;
    benchmark::RegisterBenchmark(
        ("plan/" + name + "/" + target.name).c_str(),
        [=](benchmark::State& state) { time_plan(state, *shared, target.plan); })
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark(("tree/" + name).c_str(), [=](benchmark::State& state) {
    time_tree(state, *shared);
  })->Unit(benchmark::kMicrosecond);
}

/// A forest of `nodes` nodes, each below a random one of those before it, and requests on random nodes.
Forest bushes(int nodes, int requests) {
  test::Random random(1);
  Forest forest;
  for (int i = 0; i < nodes; ++i) {
    forest.parents.push_back(i == 0 ? PrefixTree::no_parent : random.integer(0, i - 1));
    forest.lengths.push_back(random.integer(1, 300));
  }
  for (int i = 0; i < requests; ++i) forest.requests.push_back({random.integer(0, nodes - 1)});
  return forest;
}

Forest chain(int nodes, bool request_on_each) {
  Forest forest;
  for (int i = 0; i < nodes; ++i) {
    forest.parents.push_back(i - 1);
    forest.lengths.push_back(16);
    if (request_on_each || i + 1 == nodes) forest.requests.push_back({i});
  }
  return forest;
}

/// The trees of a file as its author wrote it: {..., "name": "x", ..., "nodes": [[parent, tokens], ...],
/// "requests": [node, ...]}, ...
class TreesFile {
 public:
  explicit TreesFile(char const* path) : stream_(path) {}

  bool opened() const { return stream_.is_open(); }

  template <class Use>
  void each(Use const& use) {
    while (skip_to("\"name\"")) {
      skip_to("\"");
      std::string name;
      std::getline(stream_, name, '"');
      if (!skip_to("\"nodes\"")) return;
      std::vector<int> const nodes = numbers("]]");
      if (!skip_to("\"requests\"")) return;
      Forest forest;
      for (std::size_t i = 0; i + 1 < nodes.size(); i += 2) {
        forest.parents.push_back(nodes[i]);
        forest.lengths.push_back(nodes[i + 1]);
      }
      for (int const node : numbers("]")) forest.requests.push_back({node});
      use(name, forest);
    }
  }

 private:
  bool skip_to(std::string const& text) {
    std::size_t matched = 0;
    for (char c; matched < text.size() && stream_.get(c);)
      matched = c == text[matched] ? matched + 1 : c == text[0];
    return matched == text.size();
  }

  /// All numbers before `end`, whatever lies between.
  std::vector<int> numbers(std::string const& end) {
    std::vector<int> all;
    std::string digits, tail;
    for (char c; stream_.get(c);) {
      bool const digit = (c >= '0' && c <= '9') || c == '-';
      if (digit) digits += c;
      if (!digit && !digits.empty()) all.push_back(std::atoi(digits.c_str())), digits.clear();
      if (!std::isspace(static_cast<unsigned char>(c))) tail += c;
      if (tail.ends_with(end)) break;
      if (tail.size() > end.size()) tail.erase(0, 1);
    }
    return all;
  }

  std::ifstream stream_;
};

void add_real_trees() {
  char const* const path = std::getenv("FASTTREE_TREES");
  if (path == nullptr) {
    std::fprintf(stderr, "FASTTREE_TREES names no file: the trees of real servers are left out\n");
    return;
  }
  TreesFile file(path);
  if (!file.opened()) {
    std::fprintf(stderr, "FASTTREE_TREES: %s cannot be read: its trees are left out\n", path);
    return;
  }
  file.each([](std::string const& name, Forest const& forest) { add(name, forest); });
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmarks(argc, argv, [] {
    int const shrink = bench::shrink();
    for (bench::Levels levels : bench::paper_trees()) {
      std::string name = "paper";
      for (int const nodes : levels.nodes) name += "_" + std::to_string(nodes);
      name += "_of_" + std::to_string(levels.tokens.front());
      for (int& nodes : levels.nodes) nodes = std::max(1, nodes / shrink);
      Forest const forest = test::level_forest(levels.nodes, levels.tokens);
      add(name, forest, true);
      for (Target const& target : targets())
        if (levels.nodes.back() == 1024 / shrink) add_updates(name, forest, target);
    }
    for (Target const& target : targets())
      add_updates("bushes_of_2524_nodes_1024_requests",
                  with_leaves(bushes(1500 / shrink, 1024 / shrink)), target);
    add("bushes_of_1500_nodes_1024_requests", bushes(1500 / shrink, 1024 / shrink));
    add("bushes_of_200000_nodes_100000_requests", bushes(200000 / shrink, 100000 / shrink));
    add("chain_of_10000_nodes_1_request", chain(10000 / shrink, false));
    add("chain_of_10000_nodes_10000_requests", chain(10000 / shrink, true));
    add_real_trees();
  });
}
