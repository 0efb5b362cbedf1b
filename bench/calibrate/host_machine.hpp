// SPDX-License-Identifier: Apache-2.0
#pragma once
// A host as bench_calibrate measures it: small trees of many kinds, and the paper's; times are of the
// clock, from a call to the fence after it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/core/lanes.hpp>
#include <fasttree/tree_attention.hpp>
#include "../support/json_fields.hpp"
#include "../support/line_of.hpp"
#include "../support/point.hpp"
#include "../support/replace_file.hpp"
#include "../support/versions.hpp"
#include "cases.hpp"
#include "options.hpp"
#include "policies.hpp"

namespace fasttree::bench {

class Machine {
 public:
  static constexpr MachineCosts costs = DefaultBackend<Host>::costs;

  explicit Machine(CalibrateOptions const& options) : options_(options) {}

  std::string context() const {
    return Fields()
        .add("date", today())
        .add("commit", options_.commit)
        .add("fasttree", fasttree_version())
        .add("cpu", line_of("/proc/cpuinfo", "model name"))
        .add("instructions", std::string(native_lanes_name()))
        .add("space", std::string(Host::name()))
        .add("threads", Host().concurrency())
        .add("compiler", host_compiler())
        .add("flags", std::string(FASTTREE_BENCHMARK_FLAGS))
        .add("kokkos", kokkos_version())
        .add("repetitions", options_.repetitions)
        .add("shrink", shrink())
        .text();
  }

  std::vector<CalibrationCase> cases() const {
    std::vector<CalibrationCase> all;
    for (Heads const heads : {Heads{32, 8}, Heads{16, 16}, Heads{32, 2}})
      for (NamedForest const& tree : small_trees()) all.push_back({tree, heads});
    for (std::vector<NamedForest> const& trees : {paper_forests(), forests_of_file(options_.trees)})
      for (NamedForest const& tree : trees) all.push_back({tree, {32, 8}});
    return all;
  }

  /// Appends a point for each plan of a case that differs from the others. Returns whether all
  /// results are right.
  bool measure(CalibrationCase const& one, std::vector<TimedPlan>& points) const {
    bool const right = measure_elements<bfloat16>(one, points);
    return measure_elements<float>(one, points) && right;
  }

 private:
  /// Nothing shared, a prefix, two levels; long and short; few and many requests.
  static std::vector<NamedForest> small_trees() {
    std::vector<NamedForest> trees;
    auto const add = [&](std::vector<int> levels, std::vector<int> const& tokens) {
      std::string name;
      for (std::size_t i = 0; i < levels.size(); ++i) {
        levels[i] = std::max(1, levels[i] / shrink());
        name += (i > 0 ? "_" : "") + std::to_string(levels[i]) + "x" + std::to_string(tokens[i]);
      }
      trees.push_back({name, test::level_forest(levels, tokens)});
    };
    add({1}, {16});
    add({1}, {8192});
    add({8}, {1024});
    add({96}, {96});
    add({1, 4}, {2048, 64});
    add({1, 16}, {512, 128});
    add({1, 64}, {1024, 24});
    add({1, 8, 64}, {256, 128, 40});
    add({1, 16, 128}, {64, 32, 12});
    return trees;
  }

  template <class E>
  bool measure_elements(CalibrationCase const& one, std::vector<TimedPlan>& points) const {
    std::int64_t const row_bytes = std::int64_t{one.heads.keys} * head_dim * sizeof(E);
    if (one.tree.forest.tree().slots() * 2 * row_bytes > most_bytes) {
      std::fprintf(stderr, "%s: left out, of more than a GiB\n", one.tree.name.c_str());
      return true;
    }
    std::size_t const begin = points.size();
    bool right = true;
    each_policy(costs, [&](char const* planner, auto const& policy) {
      Point<E> const attention(one.tree.forest, one.heads, Order::token_major, policy);
      PlanWork work = PlanWork::of(attention.tables());
      if (has_same_work(points, begin, work)) return;
      TimedPlan point = one.point(element_name<E>(), planner, std::move(work));
      if (double const error = attention.worst_error(); !(error <= 1)) {
        std::fprintf(stderr, "%s: WRONG by %g of what is tolerated\n", point.name().c_str(), error);
        right = false;
        return;
      }
      point.microseconds = least_time(attention);
      points.push_back(std::move(point));
    });
    return right;
  }

  /// What disturbs a machine only adds.
  template <class E>
  double least_time(Point<E> const& attention) const {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < options_.repetitions; ++i) {
      auto const begin = std::chrono::steady_clock::now();
      attention.attend();
      auto const end = std::chrono::steady_clock::now();
      least = std::min(least, std::chrono::duration<double, std::micro>(end - begin).count());
    }
    return least;
  }

  static constexpr std::int64_t most_bytes = std::int64_t{1} << 30;  ///< of keys and values

  CalibrateOptions const& options_;
};

}  // namespace fasttree::bench
