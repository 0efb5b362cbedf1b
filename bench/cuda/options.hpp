// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of bench_cuda_attention.

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::bench {

struct BadArguments : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string out, trees, only, commit = "unknown";
  std::vector<std::string> planners;  ///< beside the default one
  int repetitions = 20;
  bool verify_only = false, help = false;
};

inline constexpr char const* usage =
    "bench_cuda_attention --out FILE [options]\n"
    "  --out FILE          the results, as JSON\n"
    "  --trees FILE        batches of real servers; left out without it\n"
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

/// Errors: `BadArguments`. Arguments of Kokkos are left to Kokkos.
inline Options parse_options(int argc, char const* const* argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const name = argv[i];
    auto const value = [&]() -> std::string {
      if (++i == argc) throw BadArguments(name + " needs a value");
      return argv[i];
    };
    if (name == "--out") {
      options.out = value();
    } else if (name == "--trees") {
      options.trees = value();
    } else if (name == "--only") {
      options.only = value();
    } else if (name == "--commit") {
      options.commit = value();
    } else if (name == "--planners") {
      options.planners = split_list(value());
    } else if (name == "--repetitions") {
      std::string const text = value();
      char const* const end = text.data() + text.size();
      auto const [stop, error] = std::from_chars(text.data(), end, options.repetitions);
      if (error != std::errc() || stop != end || options.repetitions < 1)
        throw BadArguments("--repetitions needs a positive number, not \"" + text + "\"");
    } else if (name == "--verify-only") {
      options.verify_only = true;
    } else if (name == "--help") {
      options.help = true;
    } else if (!name.starts_with("--kokkos-")) {
      throw BadArguments("unknown argument \"" + name + "\"");
    }
  }
  if (options.out.empty() && !options.help) throw BadArguments("--out FILE is missing");
  return options;
}

}  // namespace fasttree::bench
