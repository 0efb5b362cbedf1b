// SPDX-License-Identifier: Apache-2.0
// The fit of bench_calibrate: constants from which times were predicted are found again from these
// times, also where some are wrong; and points survive their way through a file.

#include <calibrate/fit.hpp>
#include <calibrate/points_file.hpp>
#include <calibrate/policies.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fasttree/planner/build_plan.hpp>
#include <support/random_forest.hpp>

namespace {

using namespace fasttree;
using namespace fasttree::bench;

constexpr MachineCosts truth{.launch = 7,
                             .item = 2,
                             .partial = 1,
                             .memory = 30e3,
                             .cache = 40e3,
                             .drift = 0.3,
                             .results = 15e3,
                             .wide = 3e6,
                             .narrow = 5e5,
                             .in_turn = 0.3,
                             .merge = 0.3,
                             .alone = 1.3};

PlanTarget target(int group, int kv_heads, bool narrow) {
  TilePolicy const wide{.query_rows = 128, .key_rows = 128, .row_step = 16, .row_teams = 8};
  return {.tiles = {wide, narrow ? TilePolicy{16, 128, 16} : wide},
          .group = group,
          .kv_heads = kv_heads,
          .slots = 132};
}

std::vector<TimedPlan> points_of(bool narrow) {
  struct Tree {
    std::vector<int> levels, tokens;
  };
  std::vector<TimedPlan> points;
  int number = 0;
  for (Tree const& tree :
       {Tree{{1, 10}, {4000, 400}}, Tree{{1, 256}, {256, 32}},
        Tree{{1, 4, 16, 256}, {1024, 256, 128, 32}}, Tree{{1, 1024}, {2048, 32}},
        Tree{{64}, {1024}}, Tree{{1, 16, 64}, {1024, 256, 32}}, Tree{{300}, {700}},
        Tree{{1, 2, 4, 8, 16, 32, 64}, {40, 20, 10, 9, 8, 7, 6}}, Tree{{1, 4}, {30000, 2000}}}) {
    ++number;
    for (int const group : {1, 8}) {
      int const kv_heads = group == 1 ? 32 : 8;
      PrefixTree const forest = test::level_forest(tree.levels, tree.tokens).tree();
      each_policy(truth, [&](char const* planner, auto const& policy) {
        Grouping grouping;
        PlanTables tables;
        build_plan(forest, target(group, kv_heads, narrow), policy, grouping, tables);
        PlanWork work = PlanWork::of(tables);
        double const time = predict(tables, truth);
        CHECK(work.predict(truth) == doctest::Approx(time).epsilon(1e-9));
        points.push_back({"tree_" + std::to_string(number),
                          std::to_string(kv_heads * group) + "x" + std::to_string(kv_heads), "half",
                          planner, std::move(work), time});
      });
    }
  }
  return points;
}

/// Every constant is wrong, by up to a factor of 3.
MachineCosts far_from_truth() {
  MachineCosts costs = truth;
  int number = 0;
  for (Constant const& constant : constants)
    costs.*constant.value *= std::vector{3., 0.5, 2., 0.4}[number++ % 4];
  costs.alone = 1;
  return costs;
}

struct TemporaryFile {
  std::string path =
      (std::filesystem::temp_directory_path() / "fasttree_test_calibrate.json").string();
  explicit TemporaryFile(std::string const& text) { std::ofstream(path) << text; }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("a fit finds constants that predict as those from which the times are") {
  std::vector<TimedPlan> const points = points_of(true);
  Fit const found = fit(points, far_from_truth());
  CHECK(found.undetermined.empty());
  CHECK(prediction_error(points, predictions(points, far_from_truth())).median > 0.2);
  PredictionError const error = prediction_error(points, predictions(points, found.costs));
  CHECK(error.points == static_cast<int>(points.size()));
  CHECK(error.median < 0.01);
  CHECK(error.worst < 0.05);
  for (Constant const& constant : constants) {
    CAPTURE(std::string(constant.name));
    CHECK(found.costs.*constant.value == doctest::Approx(truth.*constant.value).epsilon(0.2));
  }
}

TEST_CASE("points that the model does not describe hardly move a fit") {
  std::vector<TimedPlan> points = points_of(true);
  for (std::size_t i = 0; i < points.size(); i += 8) points[i].microseconds *= 3;
  MachineCosts const costs = fit(points, far_from_truth()).costs;
  CHECK(prediction_error(points, predictions(points, costs)).median < 0.02);
}

TEST_CASE("a tree is predicted by constants that were fitted without it") {
  std::vector<TimedPlan> points = points_of(true);
  CHECK(prediction_error(points, predictions_of_left_out(points, far_from_truth())).median < 0.02);
  // Of a tree that is four times as slow as others nothing can be known from these, few as they are.
  std::erase_if(points, [](TimedPlan const& point) {
    return point.tree > "tree_3" || (point.tree != "tree_2" && point.heads != "32x32");
  });
  for (TimedPlan& point : points)
    if (point.tree == "tree_2") point.microseconds *= 4;
  std::vector<double> const left_out = predictions_of_left_out(points, truth);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].tree == "tree_2") CHECK(left_out[i] < 0.5 * points[i].microseconds);
}

TEST_CASE("constants that no point depends on stay what they were, and are named") {
  std::vector<TimedPlan> points = points_of(false);
  points.resize(40);  // none of them of a long item
  Fit const found = fit(points, far_from_truth());
  CHECK(found.undetermined == std::vector<std::string>{"drift", "narrow"});
  CHECK(found.costs.drift == far_from_truth().drift);
  CHECK(found.costs.narrow == far_from_truth().narrow);
}

TEST_CASE("the range of a constant is where the misfit stays near its least") {
  std::vector<TimedPlan> points = points_of(true);
  points.resize(30);
  for (std::size_t i = 0; i < points.size(); ++i) points[i].microseconds *= i % 2 ? 1.1 : 1 / 1.1;
  for (Constant const& constant : constants) {
    CAPTURE(std::string(constant.name));
    auto const [least, most] = range_of(constant, points, truth);
    CHECK(least <= rounded(truth.*constant.value));
    CHECK(most >= rounded(truth.*constant.value));
    MachineCosts changed = truth;
    changed.*constant.value = most;
    if (most < rounded(constant.bound(constant.most, truth)))
      CHECK(misfit(points, changed) > 1.04 * misfit(points, truth));
  }
}

TEST_CASE("points survive their way through a file") {
  std::vector<TimedPlan> points = points_of(true);
  points.resize(20);
  Measurements const measured{"\"device\": \"some\", \"shrink\": 1", far_from_truth(), points};
  TemporaryFile const file(measurements_json(measured, predictions(points, truth)) + "\n}\n");
  Measurements const read = read_measurements(file.path);
  CHECK(read.context == measured.context);
  CHECK(read.costs.merge == doctest::Approx(measured.costs.merge));
  REQUIRE(read.points.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(read.points[i].name() == points[i].name());
    CHECK(read.points[i].microseconds == doctest::Approx(points[i].microseconds).epsilon(1e-5));
    CHECK(read.points[i].work.same_items(points[i].work));
    CHECK(read.points[i].work.predict(truth) == points[i].work.predict(truth));
  }
}

TEST_CASE("a file of points with something missing is refused, with the line") {
  std::vector<TimedPlan> points = points_of(true);
  points.resize(2);
  std::string const whole =
      measurements_json({"", truth, points}, predictions(points, truth)) + "\n}\n";
  auto const refused = [&](std::string const& part, std::string const& instead) {
    std::string text = whole;
    text.replace(text.rfind(part), part.size(), instead);
    TemporaryFile const file(text);
    try {
      read_measurements(file.path);
    } catch (std::runtime_error const& error) {
      std::string const message = error.what();
      return message.substr(message.find(", line"));
    }
    return std::string("not refused");
  };
  CHECK(refused("\"planner\": ", "\"plan\": ") == ", line 6: no \"planner\" that can be read");
  CHECK(refused("\"measured_us\": ", "\"measured_us\": -") ==
        ", line 6: no \"measured_us\" that can be read");
  CHECK(refused("\"slots\": 132", "\"slots\": 0") == ", line 6: no \"slots\" that can be read");
  CHECK(refused("]]}", "") == ", line 6: no \"work\" that can be read");
  CHECK(refused("]]}", ", 1]]}") == ", line 6: no \"work\" that can be read");
  CHECK(refused("\"in_turn\": ", "\"turn\": ") == ", line 3: no \"in_turn\" that can be read");
  TemporaryFile const empty("{\n \"points\": [\n ]\n}\n");
  CHECK_THROWS_WITH(read_measurements(empty.path),
                    (empty.path + ": no points can be read").c_str());
}
