// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of bench_calibrate.

#include <string>

#include "../support/arguments.hpp"

namespace fasttree::bench {

struct CalibrateOptions {
  std::string out, points, trees, only, commit = "unknown";
  int repetitions = 7;
  bool help = false;
};

inline constexpr char const* calibrate_usage =
    "bench_calibrate --out FILE [options]\n"
    "  --out FILE          measured points and fitted constants, as JSON\n"
    "  --points FILE       fit to the points of such a file, measure nothing\n"
    "  --trees FILE        batches of real servers; left out without it\n"
    "  --only TEXT         trees whose name contains TEXT, for instance paper\n"
    "  --repetitions N     of each measurement, 7 by default\n"
    "  --commit TEXT       what the file says it was measured of\n";

/// Errors: `BadArguments`.
inline CalibrateOptions parse_calibrate_options(int argc, char const* const* argv) {
  CalibrateOptions options;
  for (Arguments arguments(argc, argv); arguments.next();) {
    std::string const name = arguments.name();
    if (name == "--out") {
      options.out = arguments.value();
    } else if (name == "--points") {
      options.points = arguments.value();
    } else if (name == "--trees") {
      options.trees = arguments.value();
    } else if (name == "--only") {
      options.only = arguments.value();
    } else if (name == "--commit") {
      options.commit = arguments.value();
    } else if (name == "--repetitions") {
      options.repetitions = arguments.positive();
    } else if (name == "--help") {
      options.help = true;
    } else {
      arguments.refuse();
    }
  }
  if (options.out.empty() && !options.help) throw BadArguments("--out FILE is missing");
  return options;
}

}  // namespace fasttree::bench
