// SPDX-License-Identifier: Apache-2.0
// The picture of plans: well-formed for any names, lengths in proportion to what they stand for,
// one scale for all plans.

#include <fasttree/plan/draw_plans.hpp>
#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/random_forest.hpp"
#include "support/svg.hpp"

namespace {

using namespace fasttree;
using test::attribute;
using test::count;
using test::well_formed;

constexpr PlanTarget target{
    .tiles = {{64, 64, 16}, {16, 64, 16}}, .group = 4, .kv_heads = 8, .slots = 264};

template <class Policy>
PlanTables plan_of(PrefixTree const& tree, Policy const& policy) {
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  return tables;
}

std::string draw(std::vector<NamedPlan> const& plans) { return draw_plans(plans, "plans", "note"); }

struct Bar {
  double x, width;
};

/// The rectangles of a class, from left to right and from top to bottom.
std::vector<Bar> bars(std::string const& text, std::string const& style) {
  std::vector<Bar> found;
  std::string const begin = "<rect class=\"" + style + "\"";
  for (auto at = text.find(begin); at != text.npos; at = text.find(begin, at + 1))
    found.push_back({attribute(text, at, "x"), attribute(text, at, "width")});
  return found;
}

std::string tenths(double time) { return svg_number(std::round(10 * time) / 10); }

constexpr double rounding = 0.0101;  // two decimals are written

}  // namespace

TEST_CASE("bars are as long as their bytes and times, on one scale for all plans") {
  PrefixTree const tree = test::level_forest({1, 16, 64, 256}, {500, 200, 64, 16}).tree();
  std::vector<PlanTables> const tables{plan_of(tree, NoSharing{}), plan_of(tree, GreedyEdges<>{}),
                                       plan_of(tree, MinimalTraffic<>{})};
  MachineCosts const costs;
  std::string const text = draw({{"NoSharing", &tables[0], costs},
                                 {"GreedyEdges", &tables[1], costs},
                                 {"MinimalTraffic", &tables[2], costs}});
  CHECK(well_formed(text));
  auto const bytes = bars(text, "bytes"), times = bars(text, "time");
  REQUIRE(bytes.size() == 12);
  REQUIRE(times.size() == 3);
  CHECK(count(text, "<line class=\"floor\"") == 3 + 1);  // and one in the legend

  PlanSummary const first = summarize(tables[0]);  // the most bytes of all
  double const per_byte =
      (bytes[3].x + bytes[3].width - bytes[0].x) /
      static_cast<double>(first.key_bytes + first.query_bytes + first.partial_bytes);
  double const per_time = times[0].width / predict(tables[0], costs);
  auto floor = text.find("<line class=\"floor\"");
  for (std::size_t i = 0; i < tables.size(); ++i) {
    CAPTURE(i);
    PlanSummary const sum = summarize(tables[i]);
    std::int64_t const parts[] = {sum.key_bytes - sum.reread_bytes, sum.reread_bytes,
                                  sum.query_bytes, sum.partial_bytes};
    for (std::size_t kind = 0; kind < 4; ++kind) {
      Bar const bar = bytes[4 * i + kind];
      CHECK(bar.width == doctest::Approx(per_byte * parts[kind]).epsilon(1e-3).scale(10));
      double const begin =
          kind == 0 ? bytes[0].x : bytes[4 * i + kind - 1].x + bytes[4 * i + kind - 1].width;
      CHECK(std::abs(bar.x - begin) < 2 * rounding);
    }
    CHECK(std::abs(times[i].width - per_time * predict(tables[i], costs)) < 2 * rounding);
    CHECK(std::abs(attribute(text, floor, "x1") - times[i].x -
                   per_time * predict_floor(tables[i], costs)) < 2 * rounding);
    floor = text.find("<line class=\"floor\"", floor + 1);
  }
}

TEST_CASE("a picture holds the numbers, and says that they are predicted") {
  PrefixTree const tree = test::level_forest({1, 4}, {1000, 100}).tree();
  PlanTables const tables = plan_of(tree, ShareEveryNode{});
  std::string const text = draw({{"mine", &tables, {}}});
  PlanSummary const sum = summarize(tables);
  CHECK(count(text, ">" + svg_number(1e-6 * (sum.key_bytes + sum.query_bytes + sum.partial_bytes)) +
                        " MB</text>") == 1);
  CHECK(count(text, ">" + tenths(predict(tables, MachineCosts{})) + " \u00b5s</text>") == 1);
  CHECK(count(text,
              ">floor " + tenths(predict_floor(tables, MachineCosts{})) + " \u00b5s</text>") == 1);
  CHECK(count(text, std::to_string(sum.wide_items) + " wide, " + std::to_string(sum.narrow_items) +
                        " narrow items</text>") == 1);
  CHECK(count(text, ">" + svg_number(sum.partials / 4.0) + " partial results per query</text>") ==
        1);
  CHECK(count(text, "a call, predicted</text>") == 2);
  CHECK(count(text, "<title id=\"title\">plans</title>") == 1);
  CHECK(count(text, "<desc id=\"desc\">note") == 1);
}

TEST_CASE("names, title and note are escaped, whatever bytes they hold") {
  PlanTables const tables = plan_of(test::level_forest({1, 4}, {1000, 100}).tree(), NoSharing{});
  std::string const bad = "<b a='1'>&\"\x01\xff</b>";
  NamedPlan const plan{bad, &tables, {}};
  std::string const text = draw_plans({&plan, 1}, bad, bad);
  CHECK(well_formed(text));
  CHECK(count(text, "<b ") == 0);
  CHECK(count(text, "&lt;b a=&#39;1&#39;&gt;&amp;&quot;\ufffd\ufffd&lt;/b&gt;") >= 4);
}

TEST_CASE("costs that make no sense are drawn as numbers nevertheless") {
  PlanTables const tables = plan_of(test::level_forest({1, 4}, {1000, 100}).tree(), NoSharing{});
  for (MachineCosts const& costs : {MachineCosts{.memory = 0},
                                    {.memory = -1e-9},
                                    {.launch = 1e300},
                                    {.item = std::nan("")},
                                    {.launch = std::nan("")}}) {
    std::string const text = draw({{"plan", &tables, costs}, {"other", &tables, {}}});
    CHECK(well_formed(text));
    CHECK(text.find("nan") == text.npos);
    CHECK(text.find("inf") == text.npos);
    for (char const* const wrong : {"\"-", " -", "./", ".("}) CHECK(text.find(wrong) == text.npos);
    for (Bar const& bar : bars(text, "time")) CHECK(bar.width <= 960);
  }
}

TEST_CASE("no plans, and plans of nothing") {
  std::string text = draw({});
  CHECK(well_formed(text));
  CHECK(count(text, "no plans") == 1);

  PlanTables const never_made, empty = plan_of(test::Forest{}.tree(), MinimalTraffic<>{});
  text = draw({{"never made", &never_made, {}}, {"empty", &empty, {.launch = 0}}});
  CHECK(well_formed(text));
  for (Bar const& bar : bars(text, "bytes")) CHECK(bar.width == 0);
  CHECK(bars(text, "time")[0].width > 0);  // a launch
  CHECK(bars(text, "time")[1].width == 0);
  CHECK(well_formed(draw({{"empty", &empty, {.launch = 0}}})));
}
