// SPDX-License-Identifier: Apache-2.0
#pragma once
// The main job: one decode step of every request of a workload, by a plan and, beside it, one request at
// a time; both checked, both timed.

#include <fasttree/tree_attention.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../support/text.hpp"
#include "../support/tree_picture.hpp"
#include "arrays.hpp"
#include "check.hpp"
#include "options.hpp"
#include "plan_picture.hpp"
#include "progress.hpp"
#include "workload.hpp"

namespace fasttree::examples {

/// A heading, and the lines below it.
inline void print_heading(char const* what) { std::printf("\n%s\n", what); }

inline double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

inline double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Throws fasttree::Error if `bytes` are more than --memory allows.
inline void require_memory(double bytes, Options const& options) {
  if (bytes <= options.memory * 1e9) return;
  char text[100];
  std::snprintf(text, sizeof(text), "needs %.1f GB, more than the %d GB that --memory allows",
                bytes * 1e-9, options.memory);
  throw Error(options.file.string() + ": " + text);
}

/// A planner as the library would use it: the default one with the costs of the machine.
template <class Policy>
Policy make_policy() {
  if constexpr (std::is_same_v<Policy, DefaultPlanner>) {
    return {DefaultBackend<Space>::costs};
  } else {
    return {};
  }
}

/// A plan, its memory, its output, and how long it takes.
template <class Shape, class Policy>
struct Side {
  using Plan = decltype(make_plan(Space(), std::declval<PrefixTree const&>(), Shape(), Policy()));

  Plan plan;
  double planning_ms;
  std::vector<double> run_ms;

  Side(PrefixTree const& tree, Shape const& shape)
      : plan(make_plan(Space(), tree, shape, make_policy<Policy>())) {
    auto const begin = std::chrono::steady_clock::now();
    // In memory that is there, as while decoding.
    make_plan_into(Space(), tree, plan, make_policy<Policy>());
    Space().fence();
    planning_ms = milliseconds_since(begin);
  }

  double median_ms() const { return median(run_ms); }
};

/// Everything after the input is read, for heads of `Shape` and a planner.
template <class Shape, class Policy>
class DecodeStep {
 public:
  DecodeStep(Workload const& workload, Shape const& shape, Options const& options)
      : workload_(workload),
        shape_(shape),
        options_(options),
        statistics_(count_tree(workload.tree())) {
    // Plans list the nodes of each request's path, once while they are made and once when they are.
    require_memory(Arrays<Shape>::bytes(tree(), shape) +
                       3.0 * sizeof(KeyRange) * double(statistics_.path_nodes),
                   options);
  }

  /// Whether all outputs that were checked are right.
  bool run() {
    print_tree();
    Side<Shape, Policy> shared(tree(), shape_);
    Side<Shape, NoSharing> alone(tree(), shape_);
    print_plan(shared);
    draw(shared);
    require_memory(Arrays<Shape>::bytes(tree(), shape_) +
                       double(workspace_bytes(Space(), shared.plan)) +
                       double(workspace_bytes(Space(), alone.plan)),
                   options_);
    Arrays<Shape> const arrays(workload_, shape_, options_.seed);
    auto const outputs = run_both(arrays, shared, alone);
    int const tile_keys = shared.plan.tables().tiles.wide.key_rows;
    bool const right = check(arrays, outputs, tile_keys);
    print_time(shared, alone);
    std::printf("\npicture\n  %s\n", options_.picture.string().c_str());
    return right;
  }

 private:
  PrefixTree const& tree() const { return workload_.tree(); }

  void print_tree() const {
    TreeStatistics const& sum = statistics_;
    std::printf("%s\n", options_.file.string().c_str());
    print_heading("tree");
    std::printf("  requests     %s\n", group_thousands(sum.requests).c_str());
    std::printf("  nodes        %s, at most %s on a path\n", group_thousands(sum.nodes).c_str(),
                group_thousands(sum.depth).c_str());
    std::printf("  tokens       %s; paths together %s, the longest %s\n",
                group_thousands(sum.unique_tokens).c_str(),
                group_thousands(sum.path_tokens).c_str(),
                group_thousands(sum.longest_path).c_str());
    std::printf("  sharing      %.2f requests attend to a token on average\n", sum.sharing());
  }

  void print_plan(Side<Shape, Policy> const& side) const {
    std::string const text = explain(side.plan);
    auto const first = static_cast<int>(std::min(text.find('\n'), text.size()));
    std::printf("\n%.*s; planner %s, %.0f us to plan anew%s", first, text.c_str(),
                options_.planner.c_str(), 1e3 * side.planning_ms, text.c_str() + first);
    std::fflush(stdout);
  }

  void draw(Side<Shape, Policy> const& side) const {
    PlanPicture drawn(workload_, side.plan.tables());
    TreePicture& picture = drawn.picture();
    picture.title = options_.file.filename().string();
    picture.subtitle = group_thousands(statistics_.requests) + " requests, " +
                       group_thousands(statistics_.unique_tokens) + " tokens; " +
                       group_thousands(static_cast<long long>(side.plan.tables().items.size())) +
                       " work items by the planner " + options_.planner;
    write_tree_picture(options_.picture, picture);
  }

  /// Runs both sides in turn, so that both see the same machine.
  template <class Shared, class Alone>
  std::vector<typename Arrays<Shape>::OnHost> run_both(Arrays<Shape> const& arrays, Shared& shared,
                                                       Alone& alone) const {
    Space const space;
    auto const cache = make_contiguous_cache(space, arrays.keys, arrays.values);
    auto const shared_workspace = make_workspace(space, shared.plan);
    auto const alone_workspace = make_workspace(space, alone.plan);
    auto const shared_output = Arrays<Shape>::make_output(tree(), shape_);
    auto const alone_output = Arrays<Shape>::make_output(tree(), shape_);
    auto const timed = [&](auto& side, auto const& output, auto const& workspace, bool counts) {
      auto const begin = std::chrono::steady_clock::now();
      tree_attention(space, side.plan, arrays.queries, cache, output, workspace);
      space.fence();
      if (counts) side.run_ms.push_back(milliseconds_since(begin));
    };
    Progress progress("timing", options_.repeat);
    for (int i = -1; i < options_.repeat; ++i) {  // the first run warms up
      timed(alone, alone_output, alone_workspace, i >= 0);
      progress.at(std::max(i, 0));
      timed(shared, shared_output, shared_workspace, i >= 0);
      progress.at(i + 1);
    }
    return {Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), shared_output),
            Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), alone_output)};
  }

  bool check(Arrays<Shape> const& arrays,
             std::vector<typename Arrays<Shape>::OnHost> const& outputs, int tile_keys) const {
    std::vector<int> const requests = requests_to_check(tree(), shape_.query_heads);
    auto const worst =
        OutputCheck<Shape>(workload_, shape_, arrays, outputs, tile_keys).run(requests);
    bool right = true;
    print_heading("check against attention in double precision");
    if (static_cast<int>(requests.size()) == tree().requests()) {
      std::printf("  outputs      of all requests\n");
    } else {
      std::printf("  outputs      of %s evenly spaced requests: all would take long\n",
                  group_thousands(static_cast<long long>(requests.size())).c_str());
    }
    char const* const names[] = {"by this plan", "one by one"};
    for (std::size_t i = 0; i < worst.size(); ++i) {
      bool const within = worst[i].share <= 1;
      std::printf("  %-12s %s: worst error %.2g where %.2g is tolerated\n", names[i],
                  within ? "right" : "WRONG", worst[i].error, worst[i].tolerance);
      right = right && within;
    }
    std::fflush(stdout);
    return right;
  }

  template <class Shared, class Alone>
  void print_time(Shared const& shared, Alone const& alone) const {
    PlanSummary const by_plan = summarize(shared.plan), one_by_one = summarize(alone.plan);
    auto const bytes = [](PlanSummary const& sum) {
      return double(sum.key_bytes + sum.query_bytes + sum.partial_bytes);
    };
    auto const line = [&](char const* name, double milliseconds, double moved) {
      std::printf("  %-12s %10.3f ms %12.2f MB %10.2f GB/s\n", name, milliseconds, moved * 1e-6,
                  milliseconds > 0 ? moved * 1e-6 / milliseconds : 0.0);
    };
    std::printf("\ntime of a step, median of %d, %s on %d threads, beside predicted bytes\n",
                options_.repeat, Space::name(), static_cast<int>(Space().concurrency()));
    double const shared_ms = shared.median_ms(), alone_ms = alone.median_ms();
    line("by this plan", shared_ms, bytes(by_plan));
    line("one by one", alone_ms, bytes(one_by_one));
    if (bytes(by_plan) > 0)
      std::printf("  ratio        %10.2f    %12.2f\n", alone_ms / shared_ms,
                  bytes(one_by_one) / bytes(by_plan));
  }

  Workload const& workload_;
  Shape shape_;
  Options const& options_;
  TreeStatistics statistics_;
};

}  // namespace fasttree::examples
