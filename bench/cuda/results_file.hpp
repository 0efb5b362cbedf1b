// SPDX-License-Identifier: Apache-2.0
#pragma once
// The results file of bench_cuda_attention: what it was measured with, the points, and how they
// stand to their aims. Such files are written whole, beside their place, and then put there.

#include <cmath>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../support/json_fields.hpp"
#include "../support/shrink.hpp"
#include "../support/versions.hpp"
#include "arrays.hpp"
#include "options.hpp"
#include "reference.hpp"
#include "yardsticks.hpp"

namespace fasttree::bench {

inline std::string today() {
  std::time_t const now = std::time(nullptr);
  char text[16] = "";
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// A version of CUDA from its number.
inline std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

inline std::string context_json(Space const& space, Options const& options) {
  auto const attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    cuda::check(cudaDeviceGetAttribute(&value, which, space.cuda_device()), "bench::context_json",
                "cudaDeviceGetAttribute");
    return value;
  };
  int driver = 0, runtime = 0;
  cuda::check(cudaDriverGetVersion(&driver), "bench::context_json", "cudaDriverGetVersion");
  cuda::check(cudaRuntimeGetVersion(&runtime), "bench::context_json", "cudaRuntimeGetVersion");
  auto const& device = space.cuda_device_prop();
  return Fields()
      .add("date", today())
      .add("commit", options.commit)
      .add("fasttree", fasttree_version())
      .add("device", std::string(device.name))
      .add("compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor))
      .add("multiprocessors", device.multiProcessorCount)
      .add("clock_mhz", attribute(cudaDevAttrClockRate) / 1000)
      .add("memory_clock_mhz", attribute(cudaDevAttrMemoryClockRate) / 1000)
      .add("l2_bytes", attribute(cudaDevAttrL2CacheSize))
      .add("memory_bytes", static_cast<double>(device.totalGlobalMem))
      .add("driver", cuda_version(driver))
      .add("runtime", cuda_version(runtime))
      .add("compiler",
           "nvcc " + dotted(__CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__))
      .add("host_compiler", host_compiler())
      .add("kokkos", kokkos_version())
      .add("repetitions", options.repetitions)
      .add("shrink", shrink())
      .add("element", std::string(element_name<half>()))
      .add("head_dim", head_dim)
      .add("tolerance", tolerance)
      .text();
}

/// Where a file is written until it is whole.
inline std::string unfinished(std::string const& path) { return path + ".unfinished"; }

/// Errors: std::runtime_error where the file cannot be written; then it is what it was.
inline void replace_file(std::string const& path, std::string const& text) {
  std::FILE* const file = std::fopen(unfinished(path).c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (!written || std::rename(unfinished(path).c_str(), path.c_str()) != 0)
    throw std::runtime_error("\"" + path + "\" cannot be written");
}

/// Geometric mean of time over aim, of the points that have a kind, heads and a planner in common.
struct Standing {
  std::string kind, heads, planner;
  int points = 0;
  double sum_of_logs = 0;

  double mean() const { return std::exp(sum_of_logs / points); }
};

class ResultsFile {
 public:
  /// Errors: `BadArguments` where the file cannot be written.
  explicit ResultsFile(std::string path) : path_(std::move(path)) {
    std::FILE* const file = std::fopen(unfinished(path_).c_str(), "w");
    if (file == nullptr) throw BadArguments("--out: \"" + path_ + "\" cannot be written");
    std::fclose(file);
    std::remove(unfinished(path_).c_str());
  }

  void set_context(std::string context) { context_ = std::move(context); }

  void add(Fields const& point) { points_.push_back(point.text()); }

  void add_ratio(std::string const& kind, std::string const& heads, std::string const& planner,
                 double time_over_aim) {
    auto found = standings_.begin();
    while (found != standings_.end() &&
           !(found->kind == kind && found->heads == heads && found->planner == planner))
      ++found;
    if (found == standings_.end()) found = standings_.insert(found, {kind, heads, planner});
    ++found->points;
    found->sum_of_logs += std::log(time_over_aim);
  }

  std::vector<Standing> const& standings() const { return standings_; }

  /// Replaces the file by all that is known; `complete` says whether that is everything.
  void write(bool complete) const {
    std::string text = "{\n \"context\": {" + context_ + "},\n \"yardsticks\": {" + h200.json() +
                       "},\n \"complete\": " + (complete ? "true" : "false") + ",\n \"points\": [";
    for (std::size_t i = 0; i < points_.size(); ++i)
      text += (i > 0 ? ",\n  {" : "\n  {") + points_[i] + "}";
    text += "\n ],\n \"time_over_aim\": [";
    for (std::size_t i = 0; i < standings_.size(); ++i) {
      Standing const& standing = standings_[i];
      text += (i > 0 ? ",\n  {" : "\n  {") +
              Fields()
                  .add("kind", standing.kind)
                  .add("heads", standing.heads)
                  .add("planner", standing.planner)
                  .add("points", standing.points)
                  .add("geometric_mean", standing.mean())
                  .text() +
              "}";
    }
    text += "\n ]\n}\n";
    replace_file(path_, text);
  }

 private:
  std::string path_, context_;
  std::vector<std::string> points_;
  std::vector<Standing> standings_;
};

}  // namespace fasttree::bench
