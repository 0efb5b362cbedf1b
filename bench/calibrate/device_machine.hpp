// SPDX-License-Identifier: Apache-2.0
#pragma once
// An NVIDIA GPU as bench_calibrate measures it: trees with a hot root, the paper's, requests that
// share nothing, and batches of real servers; times are of CUDA graphs, by events, with L2 cleared by
// reading before each.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/tree_attention.hpp>
#include "../cuda/arrays.hpp"
#include "../cuda/cases.hpp"
#include "../cuda/context.hpp"
#include "../cuda/planners.hpp"
#include "../cuda/poisoned_workspace.hpp"
#include "../cuda/reference.hpp"
#include "../cuda/timing.hpp"
#include "cases.hpp"
#include "options.hpp"
#include "policies.hpp"

namespace fasttree::bench {

class Machine {
 public:
  static constexpr MachineCosts costs = Backend::costs;

  /// Errors: those of CUDA.
  explicit Machine(CalibrateOptions const& options)
      : options_(options), space_(capturable_space()), stopwatch_(space_) {}

  std::string context() const {
    return context_json(space_, options_.commit, options_.repetitions);
  }

  std::vector<CalibrationCase> cases() const {
    std::vector<CalibrationCase> all;
    for (NamedForest const& tree : hot_trees())
      for (Heads const heads : paper_heads()) all.push_back({tree, heads});
    for (Case const& each : cases_named("", forests_of_file(options_.trees)))
      all.push_back({each.tree, each.heads});
    return all;
  }

  /// Appends a point for each plan of a case that differs from the others. Returns whether all
  /// results are right.
  bool measure(CalibrationCase const& one, std::vector<TimedPlan>& points) const {
    PrefixTree const tree = one.tree.forest.tree();
    Heads const heads = one.heads;
    std::size_t const bytes =
        Arrays::bytes(tree.slots(), tree.queries(), heads.queries, heads.keys);
    if (bytes + other_bytes > free_bytes()) {
      std::fprintf(stderr, "%s: left out, does not fit the device\n", one.tree.name.c_str());
      return true;
    }
    Arrays const arrays(space_, tree.slots(), tree.queries(), heads.queries, heads.keys);
    Reference const reference(space_, tree, arrays);
    Plan plan({.query_heads = heads.queries, .kv_heads = heads.keys});
    std::size_t const begin = points.size();
    bool right = true;
    each_policy(costs, [&](char const* planner, auto const& policy) {
      make_plan_into(space_, tree, plan, policy);
      PlanWork work = PlanWork::of(plan.tables());
      if (has_same_work(points, begin, work)) return;
      TimedPlan point = one.point(element_name<half>(), planner, std::move(work));
      if (time(arrays, reference, plan, point)) {
        points.push_back(std::move(point));
      } else {
        right = false;
      }
    });
    return right;
  }

 private:
  /// Trees where arithmetic bounds, of which the paper has few.
  static std::vector<NamedForest> hot_trees() {
    std::vector<NamedForest> all;
    for (auto const& [requests, tokens] : {std::pair{256, 8192}, {512, 4096}, {2048, 1024}}) {
      std::string const name =
          "hot_1_" + std::to_string(requests) + "_of_" + std::to_string(tokens);
      all.push_back(
          {name, test::level_forest({1, std::max(1, requests / shrink())}, {tokens, 32})});
    }
    return all;
  }

  static constexpr std::size_t other_bytes = std::size_t{6} << 30;  ///< plans, partial results

  static std::size_t free_bytes() {
    std::size_t free = 0, all = 0;
    cuda::check(cudaMemGetInfo(&free, &all), "bench::Machine", "cudaMemGetInfo");
    return free;
  }

  /// The default stream cannot be captured.
  static Space capturable_space() {
    cudaStream_t stream;
    cuda::check(cudaStreamCreate(&stream), "bench::Machine", "cudaStreamCreate");
    return Space(stream);
  }

  /// Checks the results of a plan; then, if they are right, times it.
  bool time(Arrays const& arrays, Reference const& reference, Plan const& plan,
            TimedPlan& point) const {
    Workspace<Space> const workspace = poisoned_workspace(space_, plan);
    auto const cache = make_contiguous_cache(space_, arrays.keys(), arrays.values());
    auto const attend = [&] {
      tree_attention(space_, plan, arrays.queries(), cache, arrays.outputs(), workspace);
    };
    arrays.poison_outputs(space_);
    attend();
    if (Check const found = reference.check(space_); !found.passed()) {
      std::fprintf(stderr, "%s: WRONG: %s\n", point.name().c_str(),
                   reference.describe(found).c_str());
      return false;
    }
    CapturedGraph const graph(space_, attend);
    point.microseconds = stopwatch_.device_times(graph, options_.repetitions, L2::cold).median;
    return true;
  }

  CalibrateOptions const& options_;
  Space space_;
  Stopwatch stopwatch_;
};

}  // namespace fasttree::bench
