// SPDX-License-Identifier: Apache-2.0
// Fits the constants of MachineCosts to this machine: times attention over small trees of many kinds by
// plans of every planner, each checked first, finds the constants whose predictions differ least from
// the times (the sum of squares of the logarithms of their ratios), and says by how much they miss the
// times of other trees, the paper's, which had no part in the fit.
//     bench_calibrate [OUT.json]
// FASTTREE_BENCHMARK_SHRINK=8 divides all sizes by 8.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/plan/predict.hpp>
#include <fasttree/tree_attention.hpp>
#include <support/random_forest.hpp>
#include "support/context.hpp"
#include "support/paper_trees.hpp"
#include "support/point.hpp"

namespace {

using namespace fasttree;
using bench::Heads;
using bench::Host;
using bench::Order;
using test::Forest;

constexpr int rounds = 5;

/// A plan of a tree, and how long attention by it takes.
struct Timed {
  std::string name;
  bool left_out;
  PlanTables tables;
  double microseconds;
};

/// Adds the time of attention over a tree by a planner, the median of some rounds.
template <class E, class Policy>
void time_plan(std::string const& name, Forest const& forest, Heads heads, bool left_out,
               Policy const& policy, std::vector<Timed>& all) {
  bench::Point<E> const point(forest, heads, Order::token_major, policy);
  if (point.worst_error() > 1) {
    std::fprintf(stderr, "bench_calibrate: wrong result: %s\n", name.c_str());
    std::exit(1);
  }
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    auto const begin = std::chrono::steady_clock::now();
    point.attend();
    auto const end = std::chrono::steady_clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  all.push_back({name, left_out, point.tables(), times[rounds / 2]});
}

template <class E>
void time_tree(std::string const& tree, Forest const& forest, Heads heads, bool left_out,
               std::vector<Timed>& all) {
  std::string const name = tree + "/" + element_name<E>() + "/" + std::to_string(heads.queries) +
                           "x" + std::to_string(heads.keys) + "/";
  auto const time = [&](char const* planner, auto const& policy) {
    time_plan<E>(name + planner, forest, heads, left_out, policy, all);
  };
  time("MinimalTraffic", DefaultPlanner{DefaultBackend<Host>::costs});
  time("GreedyEdges", GreedyEdges<>{});
  time("ShareEveryNode", ShareEveryNode{});
  time("NoSharing", NoSharing{});
}

/// Trees to fit: nothing shared, a prefix, two levels; long and short; few and many requests.
std::vector<std::pair<std::string, Forest>> fitted_trees() {
  std::vector<std::pair<std::string, Forest>> trees;
  auto const add = [&](std::vector<int> levels, std::vector<int> const& tokens) {
    std::string name;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      levels[i] = std::max(1, levels[i] / bench::shrink());
      name += (i > 0 ? "_" : "") + std::to_string(levels[i]) + "x" + std::to_string(tokens[i]);
    }
    trees.emplace_back(name, test::level_forest(levels, tokens));
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

using Constant = double MachineCosts::*;
constexpr std::pair<char const*, Constant> constants[] = {
    {"launch", &MachineCosts::launch},   {"item", &MachineCosts::item},
    {"memory", &MachineCosts::memory},   {"cache", &MachineCosts::cache},
    {"results", &MachineCosts::results}, {"wide", &MachineCosts::wide},
    {"narrow", &MachineCosts::narrow},   {"in_turn", &MachineCosts::in_turn}};

double misfit(std::vector<Timed> const& all, MachineCosts const& costs) {
  double sum = 0;
  for (Timed const& timed : all)
    if (!timed.left_out)
      sum += std::pow(std::log(predict(timed.tables, costs) / timed.microseconds), 2);
  return sum;
}

/// Changes one constant after the other, by smaller and smaller factors, while that helps; each stays
/// within a tenth and ten times of what it was, and `in_turn` at most 1.
MachineCosts fit(std::vector<Timed> const& all, MachineCosts const& from) {
  MachineCosts costs = from;
  double best = misfit(all, costs);
  for (double factor = 2; factor > 1.002; factor = std::sqrt(factor)) {
    for (bool helped = true; helped;) {
      helped = false;
      for (auto const& [name, constant] : constants)
        for (double const change : {factor, 1 / factor}) {
          MachineCosts changed = costs;
          changed.*constant *= change;
          double const whole = changed.*constant / from.*constant;
          if (whole < 0.1 || whole > 10 || changed.in_turn > 1) continue;
          double const sum = misfit(all, changed);
          if (sum >= best) continue;
          best = sum;
          costs = changed;
          helped = true;
        }
    }
  }
  return costs;
}

/// Median and worst of the relative errors of predictions.
std::pair<double, double> errors(std::vector<Timed> const& all, bool left_out,
                                 MachineCosts const& costs) {
  std::vector<double> each;
  for (Timed const& timed : all)
    if (timed.left_out == left_out)
      each.push_back(std::abs(predict(timed.tables, costs) / timed.microseconds - 1));
  std::sort(each.begin(), each.end());
  return {each[each.size() / 2], each.back()};
}

void write(std::FILE* file, std::vector<Timed> const& all, MachineCosts const& costs) {
  std::fprintf(file, "{\n \"costs\": {");
  for (auto const& [name, constant] : constants)
    std::fprintf(file, "\"%s\": %.4g, ", name, costs.*constant);
  std::fprintf(file, "\"alone\": %.4g},\n", costs.alone);
  for (bool const left_out : {false, true}) {
    auto const [median, worst] = errors(all, left_out, costs);
    std::fprintf(file, " \"error_of_%s\": {\"median\": %.4f, \"worst\": %.4f},\n",
                 left_out ? "left_out" : "fitted", median, worst);
  }
  std::fprintf(file, " \"points\": [");
  for (std::size_t i = 0; i < all.size(); ++i)
    std::fprintf(file,
                 "%s\n  {\"name\": \"%s\", \"left_out\": %s, \"measured_us\": %.5g, "
                 "\"predicted_us\": %.5g}",
                 i > 0 ? "," : "", all[i].name.c_str(), all[i].left_out ? "true" : "false",
                 all[i].microseconds, predict(all[i].tables, costs));
  std::fprintf(file, "\n ]\n}\n");
}

}  // namespace

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  std::vector<Timed> all;
  for (Heads const heads : {Heads{32, 8}, Heads{16, 16}, Heads{32, 2}})
    for (auto const& [name, forest] : fitted_trees()) {
      time_tree<float>(name, forest, heads, false, all);
      time_tree<bfloat16>(name, forest, heads, false, all);
    }
  for (bench::Levels levels : bench::paper_trees()) {
    std::string name = "paper";
    for (int& nodes : levels.nodes) {
      name += "_" + std::to_string(nodes);
      nodes = std::max(1, nodes / bench::shrink());
    }
    name += "_of_" + std::to_string(levels.tokens.front());
    if (levels.tokens.back() > 64) continue;  // gigabytes, or seconds
    time_tree<bfloat16>(name, test::level_forest(levels.nodes, levels.tokens), {32, 8}, true, all);
  }
  MachineCosts const costs = fit(all, DefaultBackend<Host>::costs);
  std::FILE* const file = argc > 1 ? std::fopen(argv[1], "w") : stdout;
  if (file == nullptr) return std::perror(argv[1]), 1;
  write(file, all, costs);
  return std::fclose(file);
}
