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
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fasttree/tree_attention.hpp>
#include <support/random_forest.hpp>
#include <support/tolerance.hpp>
#include "support/anchors.hpp"
#include "support/context.hpp"
#include "support/paper_trees.hpp"

namespace {

using namespace fasttree;
using bench::Host;
using test::Forest;

constexpr int head_dim = 128;

enum class Planner { greedy_edges, no_sharing, share_every_node };
enum class Order { token_major, head_major };

constexpr char const* name_of(Planner planner) {
  constexpr char const* names[] = {"GreedyEdges", "NoSharing", "ShareEveryNode"};
  return names[static_cast<int>(planner)];
}

constexpr char const* name_of(Order order) {
  return order == Order::token_major ? "token_major" : "head_major";
}

struct Heads {
  int queries, keys;
};

bench::Anchors const& anchors() {
  static auto measured = std::make_unique<bench::Anchors>(bench::shrink());
  [[maybe_unused]] static bool const hooked = [] {
    Kokkos::push_finalize_hook([] { measured.reset(); });
    return true;
  }();
  return *measured;
}

// Keys and values of all points of an element type: one block of random numbers, as large as the largest
// point so far. No point writes to it.
template <class E>
E const* random_elements(std::size_t count) {
  static std::unique_ptr<E[]> pool;
  static std::size_t size = 0;
  if (size < count) {
    pool.reset();
    pool.reset(new E[size = count]);
    E* const to = pool.get();
    Kokkos::parallel_for(Kokkos::RangePolicy<Host>(0, count), [=](std::int64_t i) {
      std::uint64_t bits = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;  // splitmix64
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
      to[i] = E(static_cast<float>(bits >> 40) * 0x1p-23f - 1.f);
    });
    Host().fence();
  }
  return pool.get();
}

template <class E>
class Point {
 public:
  using Shape = AttentionShape<E, head_dim>;

  Point(Forest forest, Heads heads, Order order, Planner planner)
      : forest_(std::move(forest)),
        tree_(forest_.tree()),
        shape_{.query_heads = heads.queries, .kv_heads = heads.keys},
        order_(order),
        plan_(make_plan(planner)),
        workspace_(make_workspace(Host(), plan_)),
        queries_("bench::queries", tree_.queries(), heads.queries, head_dim),
        outputs_("bench::outputs", tree_.queries(), heads.queries, head_dim) {
    E const* const random = random_elements<E>(queries_.size());
    std::copy(random, random + queries_.size(), queries_.data());
  }

  PlanSummary summary() const { return summarize(plan_); }
  double flops() const { return 4.0 * summary().path_keys * shape_.query_heads * head_dim; }

  void attend() const {
    fasttree::tree_attention(Host(), plan_, queries_, cache(), outputs_, workspace_);
    Host().fence();
  }

  /// The largest error of some requests' outputs, in units of what is tolerated.
  double worst_error() const {
    attend();
    int const checked = std::min(tree_.requests(), 6);
    std::set<int> requests;
    for (int i = 0; i < checked; ++i)
      requests.insert(checked > 1 ? i * (tree_.requests() - 1) / (checked - 1) : 0);
    double worst = 0;
    for (int const request : requests) worst = std::max(worst, error_of(request));
    return worst;
  }

 private:
  auto make_plan(Planner planner) const {
    switch (planner) {
      case Planner::no_sharing:
        return fasttree::make_plan(Host(), tree_, shape_, NoSharing{});
      case Planner::share_every_node:
        return fasttree::make_plan(Host(), tree_, shape_, ShareEveryNode{});
      default:
        return fasttree::make_plan(Host(), tree_, shape_);
    }
  }

  ContiguousCache<E> cache() const {
    std::int64_t const slots = tree_.slots(), heads = shape_.kv_heads, all = slots * heads;
    E const* const keys = random_elements<E>(2 * all * head_dim);
    StridedArray<E const, 3> array{keys, {slots, heads, head_dim}, {heads * head_dim, head_dim, 1}};
    if (order_ == Order::head_major)
      array.strides[0] = head_dim, array.strides[1] = slots * head_dim;
    StridedArray<E const, 3> const key_array = array;
    array.data += all * head_dim;
    return {key_array, array};
  }

  /// One request alone, by the oracle: its path as a tree of one node.
  double error_of(int request) const {
    int const row = tree_.first_query(request), node = tree_.request(request).node;
    std::vector<std::int64_t> const slots = test::path_slots(tree_, node);
    auto const from = cache();
    std::vector<E> keys, values;
    for (std::int64_t const slot : slots)
      for (int head = 0; head < shape_.kv_heads; ++head) {
        keys.insert(keys.end(), from.key(slot, head), from.key(slot, head) + head_dim);
        values.insert(values.end(), from.value(slot, head), from.value(slot, head) + head_dim);
      }
    Forest const path{{PrefixTree::no_parent}, {static_cast<int>(slots.size())}, {{0}}};
    std::size_t const row_size = static_cast<std::size_t>(shape_.query_heads) * head_dim;
    std::span<E const> const query(queries_.data() + row * row_size, row_size);
    test::Answer const answer =
        test::attention_oracle<Shape, E>(path.tree(), shape_, query, keys, values);
    double worst = 0;
    for (std::size_t i = 0; i < row_size; ++i) {
      double const exact = answer.outputs[i];
      double const tolerance =
          test::output_tolerance<E>(answer.rows[i / head_dim], head_dim, exact);
      float const found = outputs_.data()[row * row_size + i];
      worst = std::max(worst, test::error_in(tolerance, found, exact));
    }
    return worst;
  }

  Forest forest_;
  PrefixTree tree_;
  Shape shape_;
  Order order_;
  AttentionPlan<Host, Shape, DefaultBackend<Host>> plan_;
  Workspace<Host> workspace_;
  Kokkos::View<E***, Kokkos::LayoutRight, Host> queries_, outputs_;
};

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
         Order order = Order::token_major, Planner planner = Planner::greedy_edges) {
  std::string const full = name + "/" + element_name<E>() + "/" + std::to_string(heads.queries) +
                           "x" + std::to_string(heads.keys) + "/" + name_of(order) + "/" +
                           name_of(planner);
  auto const error = std::make_shared<double>(-1);  // not known yet
  benchmark::RegisterBenchmark(
      full.c_str(),
      [=](benchmark::State& state) {
        Point<E> const point(forest, heads, order, planner);
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
       {Planner::greedy_edges, Planner::no_sharing, Planner::share_every_node})
    add<E>("shared", shared, grouped, Order::token_major, planner);
  add<E>("shared", shared, grouped, Order::head_major);

  // One long request.
  Forest const single{{PrefixTree::no_parent}, {8192 / bench::shrink()}, {{0}}};
  for (Heads const heads : {grouped, full})
    for (Order const order : {Order::token_major, Order::head_major})
      add<E>("single", single, heads, order);

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
  add<E>("unshared_64_of_512", batch(64, 512), grouped);
  add<E>("unshared_8_of_4096", batch(8, 4096), grouped);

  // From few rows for a key, where memory bounds, to where flops begin to.
  if constexpr (std::is_same_v<E, half>) return;
  auto const both = [&](std::string const& name, Forest const& forest, Heads heads) {
    add<E>(name, forest, heads);
    add<E>(name, forest, heads, Order::token_major, Planner::no_sharing);
  };
  for (int const requests : {2, 4, 8, 16})
    both("sharing_" + std::to_string(requests), shared_prefix(requests, 4096, 32), full);
  for (int const requests : {2, 4})
    both("sharing_" + std::to_string(requests), shared_prefix(requests, 8192, 32), grouped);
}

/// The paper's trees.
void add_paper_trees() {
  for (bench::Levels levels : bench::paper_trees()) {
    std::string name = "paper";
    for (int const nodes : levels.nodes) name += "_" + std::to_string(nodes);
    name += "_of_" + std::to_string(levels.tokens.front());
    for (int& nodes : levels.nodes) nodes = std::max(1, nodes / bench::shrink());
    for (Planner const planner : {Planner::greedy_edges, Planner::no_sharing})
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
