// SPDX-License-Identifier: Apache-2.0
// Attention on an NVIDIA GPU, head_dim 128, half, one query for each request: the FastTree paper's
// trees, requests that share nothing or a short prefix, and batches from request traces. Every point is
// checked, row by row, against a reference in double precision before it is timed, and once more
// afterwards; a point that is wrong is not timed. Beside each time stand what the call must move
// and compute, the aim that follows, and the time of a kernel that only reads as many bytes on the
// same device.
//     bench_cuda_attention --out FILE [--trees FILE] [--only TEXT] [--planners LIST] ...
// Exit status: 0; 1 where a point failed; 2 for arguments that cannot be.
// FASTTREE_BENCHMARK_SHRINK=8 divides the paper's nodes, and the requests that share little, by 8.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/plan/predict.hpp>
#include <fasttree/tree_attention.hpp>
#include "cuda/arrays.hpp"
#include "cuda/cases.hpp"
#include "cuda/context.hpp"
#include "cuda/limit_kernel.hpp"
#include "cuda/options.hpp"
#include "cuda/planners.hpp"
#include "cuda/poisoned_workspace.hpp"
#include "cuda/reference.hpp"
#include "cuda/results_file.hpp"
#include "cuda/timing.hpp"
#include "cuda/yardsticks.hpp"

namespace fasttree::bench {
namespace {

/// A result that is not what it should be; the text says how.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Benchmark {
 public:
  Benchmark(Space const& space, Options const& options, std::vector<DevicePlanner> planners,
            ResultsFile& file)
      : space_(space),
        options_(options),
        planners_(std::move(planners)),
        file_(file),
        stopwatch_(space),
        has_limit_kernel_(has_limit_kernel()) {
    file_.set_context(context_json(space, options.commit, options.repetitions));
  }

  /// Whether all points that were run are right.
  bool run(std::vector<Case> const& cases) {
    std::fprintf(stderr, "%-64s %9s %9s %7s %9s %9s\n", "point", "us", "aim", "ratio", "limit",
                 "error");
    for (Case const& point : cases) run_case(point);
    file_.write(true);
    for (Standing const& standing : file_.standings())
      std::fprintf(stderr, "%s, %s, %s: time over aim %.3f (geometric mean of %d)\n",
                   standing.kind.c_str(), standing.heads.c_str(), standing.planner.c_str(),
                   standing.mean(), standing.points);
    return right_;
  }

 private:
  /// What is the same for all planners of a case.
  struct Inputs {
    Case const& point;
    PrefixTree const& tree;
    Shape shape;
    Demand demand;
    Arrays const& arrays;
    Reference const& reference;
    std::optional<Times> limit;
  };

  void run_case(Case const& point) {
    PrefixTree const tree = point.tree.forest.tree();
    Heads const heads = point.heads;
    std::size_t free_bytes = 0, all_bytes = 0;
    cuda::check(cudaMemGetInfo(&free_bytes, &all_bytes), "bench::run_case", "cudaMemGetInfo");
    std::size_t const other_bytes = std::size_t{1} << 30;  // plan, workspace, reference
    std::size_t const bytes =
        Arrays::bytes(tree.slots(), tree.queries(), heads.queries, heads.keys);
    if (bytes + other_bytes > free_bytes) {
      std::string const message = std::to_string(bytes >> 30) + " GiB do not fit into the " +
                                  std::to_string(free_bytes >> 30) + " GiB that are free";
      std::fprintf(stderr, "%-64s skipped: %s\n", point.name().c_str(), message.c_str());
      file_.add(
          fields_of(point, tree).add("status", std::string("skipped")).add("message", message));
      return;
    }
    Arrays const arrays(space_, tree.slots(), tree.queries(), heads.queries, heads.keys);
    Reference const reference(space_, tree, arrays);
    Inputs inputs{.point = point,
                  .tree = tree,
                  .shape = {.query_heads = heads.queries, .kv_heads = heads.keys},
                  .demand = demand_of(tree, heads, head_dim, sizeof(half)),
                  .arrays = arrays,
                  .reference = reference,
                  .limit = {}};
    if (!options_.verify_only && has_limit_kernel_)
      inputs.limit =
          limit_times(space_, stopwatch_, arrays.data(),
                      static_cast<std::int64_t>(inputs.demand.bytes), options_.repetitions);
    for (DevicePlanner const& planner : planners_) {
      run_point(inputs, planner);
      file_.write(false);
    }
  }

  Fields fields_of(Case const& point, PrefixTree const& tree) const {
    return Fields()
        .add("name", point.name())
        .add("kind", point.kind)
        .add("tree", point.tree.name)
        .add("heads", point.heads.name())
        .add("nodes", tree.nodes())
        .add("requests", tree.requests());
  }

  void run_point(Inputs const& inputs, DevicePlanner const& planner) {
    std::string const name = inputs.point.name() + "/" + planner.name;
    std::fprintf(stderr, "%-64s ", name.c_str());
    Fields fields = fields_of(inputs.point, inputs.tree).add("planner", planner.name);
    Plan plan(inputs.shape);
    try {
      planner.plan_into(space_, inputs.tree, plan);
      Workspace<Space> const workspace = poisoned_workspace(space_, plan);
      // The innermost, so that memory of a device that is lost is not given back before the report.
      try {
        measure(inputs, planner, plan, workspace, fields);
        fields.add("status", std::string("right"));
      } catch (std::exception const& error) {
        fail_point(fields, error);
      }
    } catch (std::exception const& error) {
      fail_point(fields, error);
    }
    file_.add(fields);
  }

  void fail_point(Fields& fields, std::exception const& error) {
    right_ = false;
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    fields.add("status", std::string("failed")).add("message", std::string(error.what()));
    cudaGetLastError();  // forgets what is over
    if (cudaDeviceSynchronize() == cudaSuccess) return;
    // No later call would succeed, nor would the destructors.
    file_.add(fields);
    file_.write(false);
    std::fprintf(stderr, "the device is lost to this process; what is known is written\n");
    std::_Exit(EXIT_FAILURE);
  }

  void measure(Inputs const& inputs, DevicePlanner const& planner, Plan& plan,
               Workspace<Space> const& workspace, Fields& fields) {
    auto const cache = make_contiguous_cache(space_, inputs.arrays.keys(), inputs.arrays.values());
    auto const attend = [&] {
      tree_attention(space_, plan, inputs.arrays.queries(), cache, inputs.arrays.outputs(),
                     workspace);
    };
    add_plan(inputs, plan, fields);
    inputs.arrays.poison_outputs(space_);
    attend();
    double error = check(inputs);
    double const aim = h200.aim_us(inputs.demand, inputs.point.sharing());
    if (options_.verify_only) {
      fields.add("error", error);
      std::fprintf(stderr, "%9s %9.1f %7s %9s %9.2e\n", "-", aim, "-", "-", error);
      return;
    }
    auto const planning = stopwatch_.host_times(
        options_.repetitions, [&] { planner.plan_into(space_, inputs.tree, plan); });
    auto const calling = stopwatch_.host_times(options_.repetitions, attend);
    CapturedGraph const graph(space_, attend);
    Times const cold = stopwatch_.device_times(graph, options_.repetitions, L2::cold);
    Times const warm = stopwatch_.device_times(graph, options_.repetitions, L2::warm);
    inputs.arrays.poison_outputs(space_);
    graph.launch(space_);
    error = std::max(error, check(inputs));

    double const seconds = 1e-6 * cold.median;
    fields.add("error", error)
        .add("time_us", cold.median)
        .add("minimum_us", cold.minimum)
        .add("warm_us", warm.median)
        .add("time_over_aim", cold.median / aim)
        .add("bandwidth_share", inputs.demand.bytes / seconds / h200.bandwidth)
        .add("matrix_share", inputs.demand.flops / seconds / h200.matrix_rate)
        .add("plan_returned_us", planning.returned.median)
        .add("plan_uploaded_us", planning.finished.median)
        .add("call_us", calling.returned.median)
        .add("kernels", graph.kernels());
    file_.add_ratio(inputs.point.kind, inputs.point.heads.name(), planner.name, cold.median / aim);
    std::fprintf(stderr, "%9.1f %9.1f %7.3f %9.1f %9.2e\n", cold.median, aim, cold.median / aim,
                 inputs.limit ? inputs.limit->median : 0, error);
  }

  /// What is known of a plan before it is carried out, and what it is judged by.
  void add_plan(Inputs const& inputs, Plan const& plan, Fields& fields) const {
    Demand const& demand = inputs.demand;
    PlanSummary const sum = summarize(plan);
    fields.add("bytes", demand.bytes)
        .add("dense_bytes", demand.dense_bytes)
        .add("flops", demand.flops)
        .add("partial_bytes", static_cast<double>(sum.partial_bytes))
        .add("reread_bytes", static_cast<double>(sum.reread_bytes))
        .add("wide_items", static_cast<double>(sum.wide_items))
        .add("narrow_items", static_cast<double>(sum.narrow_items))
        .add("merged_queries", static_cast<double>(plan.tables().merge_queries.size()))
        .add("predicted_us", predict(plan.tables(), Backend::costs))
        .add("roofline_us", h200.roofline_us(demand))
        .add("limit_us", h200.limit_us(demand))
        .add("aim_us", h200.aim_us(demand, inputs.point.sharing()));
    if (inputs.limit)
      fields.add("limit_kernel_us", inputs.limit->median)
          .add("limit_kernel_minimum_us", inputs.limit->minimum);
  }

  double check(Inputs const& inputs) const {
    Check const found = inputs.reference.check(space_);
    if (!found.passed()) throw WrongResult(inputs.reference.describe(found));
    return found.worst;
  }

  Space space_;
  Options const& options_;
  std::vector<DevicePlanner> planners_;
  ResultsFile& file_;
  Stopwatch stopwatch_;
  bool has_limit_kernel_, right_ = true;
};

int run(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  if (options.help) return std::fputs(usage, stdout), 0;
  std::vector<DevicePlanner> const planners = device_planners(options.planners);
  std::vector<Case> const cases = cases_named(options.only, forests_of_file(options.trees));
  if (cases.empty())
    throw BadArguments("--only: no point's name contains \"" + options.only + "\"");
  ResultsFile file(options.out);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    throw std::runtime_error("no CUDA device");
  Kokkos::ScopeGuard const kokkos(argc, argv);
  cudaStream_t stream;  // the default stream cannot be captured
  cuda::check(cudaStreamCreate(&stream), "bench::main", "cudaStreamCreate");
  Space const space(stream);
  return Benchmark(space, options, planners, file).run(cases) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace fasttree::bench

int main(int argc, char** argv) {
  try {
    return fasttree::bench::run(argc, argv);
  } catch (fasttree::bench::BadArguments const& error) {
    std::fprintf(stderr, "bench_cuda_attention: %s; --help says more\n", error.what());
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_cuda_attention: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
