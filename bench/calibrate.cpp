// SPDX-License-Identifier: Apache-2.0
// Fits the constants of MachineCosts to the machine that it was built for, a host or an NVIDIA GPU:
// times attention over trees of many kinds by plans of many planners, each result checked first;
// finds the constants whose predictions are nearest to the times (calibrate/fit.hpp); and says by how
// much such constants miss the times of trees that had no part in the fit. Times, with the work of
// each plan, and constants go to one file, to which constants can be fitted again on any machine. The
// aggregate is printed as costs.hpp of a backend has it.
//     bench_calibrate --out FILE [--points FILE] [--trees FILE] ...
// Exit status: 0; 1 where something failed or a result is wrong; 2 for arguments that cannot be.
// FASTTREE_BENCHMARK_SHRINK=8 divides the nodes of trees that do not come from a file by 8.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/core/kokkos.hpp>
#include "calibrate/fit.hpp"
#include "calibrate/options.hpp"
#include "calibrate/points_file.hpp"
#if defined(KOKKOS_ENABLE_CUDA)
#include "calibrate/device_machine.hpp"
#else
#include "calibrate/host_machine.hpp"
#endif

namespace fasttree::bench {
namespace {

/// Measures all cases; what is known by then is in the file after each.
Measurements measure(CalibrateOptions const& options, bool& right) {
  Machine const machine(options);
  Measurements measured{machine.context(), Machine::costs, {}};
  for (CalibrationCase const& one : machine.cases()) {
    if (one.tree.name.find(options.only) == std::string::npos) continue;
    std::size_t const begin = measured.points.size();
    right = machine.measure(one, measured.points) && right;
    for (std::size_t i = begin; i < measured.points.size(); ++i)
      std::fprintf(stderr, "%-80s %10.1f us, predicted %10.1f\n", measured.points[i].name().c_str(),
                   measured.points[i].microseconds,
                   measured.points[i].work.predict(Machine::costs));
    replace_file(
        options.out,
        measurements_json(measured, predictions(measured.points, Machine::costs)) + "\n}\n");
  }
  return measured;
}

std::string error_json(PredictionError const& error) {
  return "{" +
         Fields()
             .add("points", error.points)
             .add("median", error.median)
             .add("worst", error.worst)
             .text() +
         "}";
}

/// The errors of all points, and of those of each planner.
std::string errors_json(std::vector<TimedPlan> const& points,
                        std::vector<double> const& predictions) {
  std::set<std::string> planners;
  for (TimedPlan const& point : points) planners.insert(point.planner);
  std::string text = error_json(prediction_error(points, predictions));
  text.pop_back();
  text += ", \"planners\": {";
  for (std::string const& planner : planners)
    text += (planner == *planners.begin() ? "" : ", ") + json_string(planner) + ": " +
            error_json(prediction_error(points, predictions, planner));
  return text + "}}";
}

/// Constants that were fitted to measurements, and what they are worth.
struct Result {
  Fit fit;
  std::map<std::string, std::pair<double, double>> ranges;  ///< by the name of a constant
  std::vector<double> by_before, by_fit, of_left_out;       ///< predictions
};

Result result_of(Measurements const& measured) {
  auto const& points = measured.points;
  auto fitting = std::async(std::launch::async, [&] { return fit(points, measured.costs); });
  std::vector<double> of_left_out = predictions_of_left_out(points, measured.costs);
  Fit const fitted = fitting.get();
  std::map<std::string, std::pair<double, double>> ranges;
  for (Constant const& constant : constants)
    ranges[constant.name] = range_of(constant, points, fitted.costs);
  return {fitted, std::move(ranges), predictions(points, measured.costs),
          predictions(points, fitted.costs), std::move(of_left_out)};
}

std::string result_json(std::vector<TimedPlan> const& points, Result const& result) {
  Fit const& fit = result.fit;
  std::string text = "\"costs\": " + costs_json(fit.costs) + ",\n \"undetermined\": [";
  for (std::string const& name : fit.undetermined)
    text += (&name == &fit.undetermined.front() ? "" : ", ") + json_string(name);
  text += "],\n \"ranges\": {";
  for (Constant const& constant : constants) {
    auto const [least, most] = result.ranges.at(constant.name);
    Fields const range = Fields().add("least", least).add("most", most);
    text += (&constant == constants ? "" : ", ") + json_string(constant.name) + ": {" +
            range.text() + "}";
  }
  return text + "},\n \"error_before\": " + errors_json(points, result.by_before) +
         ",\n \"error_of_fitted\": " + errors_json(points, result.by_fit) +
         ",\n \"error_of_left_out\": " + errors_json(points, result.of_left_out);
}

/// The aggregate, in C++; rates are those of all slots over their number.
std::string aggregate(MachineCosts const& costs, int slots) {
  std::string text = "{";
  for (Constant const& constant : constants) {
    char number[64];
    double const value = costs.*constant.value;
    if (constant.is_rate && slots > 1) {
      std::snprintf(number, sizeof(number), "%.4g / %d", value * slots, slots);
    } else {
      std::snprintf(number, sizeof(number), "%.3g", value);
    }
    text += (&constant == constants ? "." : ",\n .") + std::string(constant.name) + " = " + number;
  }
  return text + "}";
}

void print(std::vector<TimedPlan> const& points, Result const& result) {
  std::printf("%s\n", aggregate(result.fit.costs, points.front().work.target.slots).c_str());
  for (std::string const& name : result.fit.undetermined)
    std::printf("no point says anything about %s\n", name.c_str());
  std::printf("Alone, and with a mean error larger by less than a twentieth, could be:\n");
  for (Constant const& constant : constants) {
    auto const [least, most] = result.ranges.at(constant.name);
    std::printf(" %-8s %10.3g to %10.3g\n", constant.name, least, most);
  }
  auto const show = [&](char const* what, std::vector<double> const& predictions) {
    PredictionError const error = prediction_error(points, predictions);
    std::printf("%d points, %s: predictions miss by %.1f %% in the median, %.1f %% at worst\n",
                error.points, what, 100 * error.median, 100 * error.worst);
  };
  show("by the constants of before", result.by_before);
  show("by these, fitted to them", result.by_fit);
  show("by constants fitted to other trees", result.of_left_out);
}

int run(int argc, char** argv) {
  CalibrateOptions const options = parse_calibrate_options(argc, argv);
  if (options.help) return std::fputs(calibrate_usage, stdout), 0;
  require_writable(options.out);
  bool right = true;
  auto const measured_here = [&] {
    Kokkos::ScopeGuard const kokkos(argc, argv);
    return measure(options, right);
  };
  Measurements const measured =
      options.points.empty() ? measured_here() : read_measurements(options.points);
  if (measured.points.empty())
    throw BadArguments("--only: no tree's name contains \"" + options.only + "\"");
  Result const result = result_of(measured);
  print(measured.points, result);
  replace_file(options.out, measurements_json(measured, result.of_left_out) + ",\n " +
                                result_json(measured.points, result) + "\n}\n");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace fasttree::bench

int main(int argc, char** argv) {
  try {
    return fasttree::bench::run(argc, argv);
  } catch (fasttree::bench::BadArguments const& error) {
    std::fprintf(stderr, "bench_calibrate: %s; --help says more\n", error.what());
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_calibrate: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
