// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of bench_cuda_attention.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "../support/arguments.hpp"

namespace fasttree::bench {

struct Options {
  std::string out, trees, only, commit = "unknown";
  std::vector<std::string> planners;  ///< beside the default one
  int repetitions = 20;
  bool verify_only = false, help = false;
};

inline constexpr char const* usage =
    "bench_cuda_attention --out FILE [options]\n"
    "  --out FILE          the results, as JSON\n"
    "  --trees FILE        batches from request traces; left out without it\n"
    "  --only TEXT         points whose name contains TEXT, for instance paper or /32x8\n"
    "  --repetitions N     of each measurement, 20 by default\n"
    "  --planners LIST     beside the default planner, of: pieces,greedy,every_node,no_sharing\n"
    "  --verify-only       check results, measure nothing\n"
    "  --commit TEXT       what the results say they were measured of\n";

/// Parts of a list with commas.
inline std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    auto const end = std::min(list.find(','), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

/// Errors: `BadArguments`.
inline Options parse_options(int argc, char const* const* argv) {
  Options options;
  for (Arguments arguments(argc, argv); arguments.next();) {
    std::string const name = arguments.name();
    if (name == "--out") {
      options.out = arguments.value();
    } else if (name == "--trees") {
      options.trees = arguments.value();
    } else if (name == "--only") {
      options.only = arguments.value();
    } else if (name == "--commit") {
      options.commit = arguments.value();
    } else if (name == "--planners") {
      options.planners = split_list(arguments.value());
    } else if (name == "--repetitions") {
      options.repetitions = arguments.positive();
    } else if (name == "--verify-only") {
      options.verify_only = true;
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
