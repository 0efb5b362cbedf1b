// SPDX-License-Identifier: Apache-2.0
// Decode attention over trees on the host. Each point is checked against the double-precision oracle
// before it is timed; beside its time stand what it must move and compute and the floor that follows from
// the machine's own rates, measured right before:
//     floor = flops / rate of sgemm + bytes / rate of a plain read
// with bytes = each key and value once, queries and outputs once. Names:
//     case/element/query heads x KV heads/order of the cache/planner
// bench/run runs all and keeps the results. FASTTREE_BENCHMARK_SHRINK=8 divides all sizes by 8.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fasttree/tree_attention.hpp>
#include <support/random_forest.hpp>
#include "support/anchors.hpp"
#include "support/context.hpp"
#include "support/paper_trees.hpp"
#include "support/point.hpp"

namespace {

using namespace fasttree;
using bench::head_dim;
using bench::Heads;
using bench::Host;
using bench::Order;
using bench::Point;
using test::Forest;

enum class Planner { minimal_traffic, greedy_edges, no_sharing, share_every_node, fixed_pieces };

constexpr char const* name_of(Planner planner) {
  constexpr char const* names[] = {"MinimalTraffic", "GreedyEdges", "NoSharing", "ShareEveryNode",
                                   "MinimalTraffic_fixed_piece"};
  return names[static_cast<int>(planner)];
}

constexpr char const* name_of(Order order) {
  return order == Order::token_major ? "token_major" : "head_major";
}

bench::Anchors const& anchors() {
  static auto measured = std::make_unique<bench::Anchors>(bench::shrink());
  [[maybe_unused]] static bool const hooked = [] {
    Kokkos::push_finalize_hook([] { measured.reset(); });
    return true;
  }();
  return *measured;
}

template <class E>
Point<E> make_point(Forest const& forest, Heads heads, Order order, Planner planner) {
  switch (planner) {
    case Planner::greedy_edges:
      return {forest, heads, order, GreedyEdges<>{}};
    case Planner::no_sharing:
      return {forest, heads, order, NoSharing{}};
    case Planner::share_every_node:
      return {forest, heads, order, ShareEveryNode{}};
    case Planner::fixed_pieces:
      return {forest, heads, order, DefaultPlanner{DefaultBackend<Host>::costs, 1024}};
    default:
      return {forest, heads, order, DefaultPlanner{DefaultBackend<Host>::costs}};
  }
}

template <class E>
void time_point(benchmark::State& state, Point<E> const& point) {
  bench::Rate const sgemm = anchors().sgemm(), read = anchors().read();
  point.attend();
  bench::Stopwatch const watch;
  for (auto _ : state) point.attend();
  bench::Seconds const all = watch.elapsed();
  double const calls = static_cast<double>(state.iterations());

  PlanSummary const sum = point.summary();
  double const bytes = static_cast<double>(sum.unique_key_bytes + sum.query_bytes);
  auto& counters = state.counters;
  counters["bytes"] = bytes;
  counters["dense_bytes"] = static_cast<double>(sum.path_key_bytes + sum.query_bytes);
  counters["flops"] = point.flops();
  counters["partial_bytes"] = static_cast<double>(sum.partial_bytes);
  counters["items"] = static_cast<double>(sum.wide_items + sum.narrow_items);
  counters["sgemm_rate"] = sgemm.wall;
  counters["sgemm_rate_cpu"] = sgemm.cpu;
  counters["read_rate"] = read.wall;
  counters["read_rate_cpu"] = read.cpu;
  if (sgemm.wall == 0) return;  // no BLAS, no floor
  double const floor = point.flops() / sgemm.wall + bytes / read.wall;
  counters["floor_ms"] = 1e3 * floor;
  counters["over_floor"] = all.wall / calls / floor;
  counters["over_floor_cpu"] = all.cpu / calls / (point.flops() / sgemm.cpu + bytes / read.cpu);
}

template <class E>
void add(std::string const& name, Forest const& forest, Heads heads,
         Order order = Order::token_major, Planner planner = Planner::minimal_traffic) {
  std::string const full = name + "/" + element_name<E>() + "/" + std::to_string(heads.queries) +
                           "x" + std::to_string(heads.keys) + "/" + name_of(order) + "/" +
                           name_of(planner);
  auto const error = std::make_shared<double>(-1);  // not known yet
  benchmark::RegisterBenchmark(
      full.c_str(),
      [=](benchmark::State& state) {
        Point<E> const point = make_point<E>(forest, heads, order, planner);
        if (*error < 0) *error = point.worst_error();
        if (*error > 1) return state.SkipWithError("wrong: more than the tolerated error");
        time_point(state, point);
        state.counters["error"] = *error;
      })
      ->Unit(benchmark::kMillisecond)
      ->MeasureProcessCPUTime()
      ->UseRealTime();
}

/// `requests` requests that share `shared` tokens and have `own` tokens each.
Forest shared_prefix(int requests, int shared, int own) {
  return test::level_forest({1, std::max(1, requests / bench::shrink())},
                            {std::max(1, shared / bench::shrink()), own});
}

template <class E>
void add_all() {
  Heads const grouped{32, 8}, full{32, 32};

  // The case.
  Forest const shared = shared_prefix(64, 2048, 64);
  for (Planner const planner :
       {Planner::minimal_traffic, Planner::greedy_edges, Planner::no_sharing,
        Planner::share_every_node, Planner::fixed_pieces})
    add<E>("shared", shared, grouped, Order::token_major, planner);
  add<E>("shared", shared, grouped, Order::head_major);

  // One long request.
  Forest const single{{PrefixTree::no_parent}, {8192 / bench::shrink()}, {{0}}};
  for (Heads const heads : {grouped, full})
    for (Order const order : {Order::token_major, Order::head_major})
      add<E>("single", single, heads, order);

  auto const both = [&](std::string const& name, Forest const& forest, Heads heads) {
    add<E>(name, forest, heads);
    add<E>(name, forest, heads, Order::token_major, Planner::no_sharing);
  };

  // Nothing shared.
  auto const batch = [](int requests, int tokens) {
    Forest forest;
    for (int i = 0; i < requests / bench::shrink(); ++i) {
      forest.parents.push_back(PrefixTree::no_parent);
      forest.lengths.push_back(tokens);
      forest.requests.push_back({i});
    }
    return forest;
  };
  both("unshared_64_of_512", batch(64, 512), grouped);
  both("unshared_8_of_4096", batch(8, 4096), grouped);
  both("short_prefix_128", shared_prefix(128, 128, 256), grouped);

  // From few rows for a key, where memory bounds, to where flops begin to.
  if constexpr (std::is_same_v<E, half>) return;
  for (int const requests : {2, 4, 8, 16})
    both("sharing_" + std::to_string(requests), shared_prefix(requests, 4096, 32), full);
  for (int const requests : {2, 4})
    both("sharing_" + std::to_string(requests), shared_prefix(requests, 8192, 32), grouped);
}

/// Some of the paper's trees: shallow and deep, few and many requests.
void add_paper_trees() {
  for (bench::Levels levels : bench::paper_trees()) {
    bool const deep = levels.nodes.size() > 5, many = levels.nodes.back() == 1024;
    if (levels.tokens.back() > 64 || (many && !deep)) continue;           // gigabytes, or seconds
    if (deep && levels.nodes[1] != 2 && levels.nodes[1] != 16) continue;  // alike
    std::string name = "paper";
    for (int const nodes : levels.nodes) name += "_" + std::to_string(nodes);
    name += "_of_" + std::to_string(levels.tokens.front());
    for (int& nodes : levels.nodes) nodes = std::max(1, nodes / bench::shrink());
    for (Planner const planner : {Planner::minimal_traffic, Planner::greedy_edges,
                                  Planner::no_sharing, Planner::fixed_pieces})
      add<bfloat16>(name, test::level_forest(levels.nodes, levels.tokens), {32, 8},
                    Order::token_major, planner);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmarks(argc, argv, [] {
    add_all<float>();
    add_all<bfloat16>();
    add_all<half>();
    add_paper_trees();
  });
}
