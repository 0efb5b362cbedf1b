// SPDX-License-Identifier: Apache-2.0
#pragma once
// The results file of bench_calibrate: what was measured, a point on each line, with the work of its
// plan, so that constants can be fitted to it again where the machine is not; and what was fitted.

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../support/json_fields.hpp"
#include "fit.hpp"
#include "timed_plan.hpp"

namespace fasttree::bench {

/// What was measured on a machine, in what context, and by which constants it planned then.
struct Measurements {
  std::string context;  ///< fields of JSON
  MachineCosts costs{};
  std::vector<TimedPlan> points;
};

inline std::string costs_json(MachineCosts const& costs) {
  Fields fields;
  for (Constant const& constant : constants) fields.add(constant.name, costs.*constant.value);
  return "{" + fields.text() + "}";
}

/// The numbers of a PlanTarget that a prediction depends on.
inline constexpr std::pair<char const*, int PlanTarget::*> target_numbers[] = {
    {"kv_heads", &PlanTarget::kv_heads},           {"slots", &PlanTarget::slots},
    {"key_bytes", &PlanTarget::key_bytes},         {"row_bytes", &PlanTarget::row_bytes},
    {"partial_bytes", &PlanTarget::partial_bytes}, {"flops", &PlanTarget::flops}};

/// A line of a file.
inline std::string point_json(TimedPlan const& point, double predicted) {
  Fields fields;
  fields.add("tree", point.tree)
      .add("element", point.element)
      .add("heads", point.heads)
      .add("planner", point.planner)
      .add("measured_us", point.microseconds)
      .add("predicted_us", predicted);
  for (auto const& [name, number] : target_numbers) fields.add(name, point.work.target.*number);
  std::string text = "{" + fields.text() + ", \"work\": [";
  for (std::size_t i = 0; i < point.work.items.size(); ++i) {
    EqualItems const& equal = point.work.items[i];
    text += (i > 0 ? ", [" : "[") + std::to_string(equal.count);
    for (auto const number : work_numbers) {
      char each[32];
      std::snprintf(each, sizeof(each), ", %.17g", equal.work.*number);
      text += each;
    }
    text += "]";
  }
  return text + "]}";
}

/// The file of measurements, without its end: what was fitted may follow. `predictions`: microseconds
/// of each point.
inline std::string measurements_json(Measurements const& measured,
                                     std::vector<double> const& predictions) {
  std::string text = "{\n \"context\": {" + measured.context +
                     "},\n \"costs_before\": " + costs_json(measured.costs) + ",\n \"points\": [";
  for (std::size_t i = 0; i < measured.points.size(); ++i)
    text += (i > 0 ? ",\n  " : "\n  ") + point_json(measured.points[i], predictions[i]);
  return text + "\n ]";
}

/// Reads the fields of a line that point_json or Fields wrote.
class LineOfFields {
 public:
  LineOfFields(std::string const& line, std::string where)
      : line_(line), where_(std::move(where)) {}

  std::string text(char const* name) const {
    std::size_t const begin = after(name);
    std::size_t const end = line_.find('"', begin + 1);
    if (line_[begin] != '"' || end == std::string::npos) fail(name);
    return line_.substr(begin + 1, end - begin - 1);
  }

  double number(char const* name) const {
    char const* const begin = line_.c_str() + after(name);
    char* end = nullptr;
    double const value = std::strtod(begin, &end);
    if (end == begin) fail(name);
    return value;
  }

  /// Lists of numbers, in a list.
  std::vector<std::vector<double>> lists(char const* name) const {
    std::vector<std::vector<double>> all;
    char const* at = line_.c_str() + after(name);
    for (int depth = 0; *at != '\0'; ++at) {
      if (*at == '[' && ++depth == 2) all.emplace_back();
      if (*at == ']' && --depth == 0) return all;
      if (depth < 2 || std::string("[], ").find(*at) != std::string::npos) continue;
      char* end = nullptr;
      double const value = std::strtod(at, &end);
      if (end == at) break;
      all.back().push_back(value);
      at = end - 1;
    }
    fail(name);
  }

  [[noreturn]] void fail(char const* name) const {
    throw std::runtime_error(where_ + ": no \"" + name + "\" that can be read");
  }

 private:
  /// Where the value of a field begins.
  std::size_t after(char const* name) const {
    std::string const field = "\"" + std::string(name) + "\": ";
    std::size_t const at = line_.find(field);
    if (at == std::string::npos || at + field.size() >= line_.size()) fail(name);
    return at + field.size();
  }

  std::string const& line_;
  std::string where_;
};

inline TimedPlan read_point(LineOfFields const& line) {
  TimedPlan point{.tree = line.text("tree"),
                  .heads = line.text("heads"),
                  .element = line.text("element"),
                  .planner = line.text("planner"),
                  .work = {},
                  .microseconds = line.number("measured_us")};
  if (!(point.microseconds > 0)) line.fail("measured_us");
  for (auto const& [name, number] : target_numbers) {
    point.work.target.*number = static_cast<int>(line.number(name));
    if (point.work.target.*number < 1) line.fail(name);
  }
  for (std::vector<double> const& numbers : line.lists("work")) {
    if (numbers.size() != 1 + std::size(work_numbers)) line.fail("work");
    EqualItems equal{{}, static_cast<std::int64_t>(numbers[0])};
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i)
      equal.work.*work_numbers[i] = numbers[i + 1];
    point.work.items.push_back(equal);
  }
  return point;
}

/// What a file of bench_calibrate has of measurements. Errors: std::runtime_error where it cannot be
/// read, with the line.
inline Measurements read_measurements(std::string const& path) {
  std::ifstream stream(path);
  Measurements measured;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    LineOfFields const fields(line, path + ", line " + std::to_string(++number));
    std::string const context = " \"context\": {";
    if (line.starts_with(context) && line.ends_with("},")) {
      measured.context = line.substr(context.size(), line.size() - context.size() - 2);
    } else if (line.starts_with(" \"costs_before\": ")) {
      for (Constant const& constant : constants)
        measured.costs.*constant.value = fields.number(constant.name);
    } else if (line.starts_with("  {\"tree\": ")) {
      measured.points.push_back(read_point(fields));
    }
  }
  if (measured.points.empty()) throw std::runtime_error(path + ": no points can be read");
  return measured;
}

}  // namespace fasttree::bench
