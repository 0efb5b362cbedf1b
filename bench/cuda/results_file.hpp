// SPDX-License-Identifier: Apache-2.0
#pragma once
// The results file of bench_cuda_attention: what it was measured with, the points, and how they
// stand to their aims.

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "../support/json_fields.hpp"
#include "../support/replace_file.hpp"
#include "yardsticks.hpp"

namespace fasttree::bench {

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
  explicit ResultsFile(std::string path) : path_(std::move(path)) { require_writable(path_); }

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
