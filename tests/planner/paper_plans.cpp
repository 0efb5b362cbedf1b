// SPDX-License-Identifier: Apache-2.0
// GreedyEdges makes the plans of the FastTree paper's artifact, on all 45 points of its benchmark.
// What the artifact plans is kept in a file beside the repository; without it the test says so and
// is skipped.

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/random_forest.hpp"

#ifndef FASTTREE_PAPER_PLANS
#define FASTTREE_PAPER_PLANS "../shared/data/fasttree_paper_plans.json"
#endif

namespace {

using namespace fasttree;

/// The rows of the file, whose every field has a line of its own.
using Row = std::map<std::string, std::string>;

std::vector<Row> read_rows(std::istream& file) {
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('{')) rows.emplace_back();
    auto const colon = line.find("\": ");
    if (rows.empty() || colon == std::string::npos) continue;
    std::string value = line.substr(colon + 3);
    if (value.ends_with(',')) value.pop_back();
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    rows.back()[line.substr(1, colon - 1)] = value;
  }
  std::erase_if(rows, [](Row const& row) { return !row.contains("nodes"); });
  return rows;
}

std::vector<int> numbers(std::string const& text) {
  std::vector<int> all;
  std::istringstream stream(text);
  for (std::string number; std::getline(stream, number, ',');) all.push_back(std::stoi(number));
  return all;
}

void plans_as_the_artifact(Row const& row) {
  auto const number = [&](char const* field) { return std::stod(row.at(field)); };
  int const query_heads = std::stoi(row.at("query_heads"));
  int const kv_heads = std::stoi(row.at("kv_heads"));
  PlanTarget const target{{{64, 32}, {16, 32}}, query_heads / kv_heads, kv_heads, 132};
  PrefixTree const tree =
      test::level_forest(numbers(row.at("nodes")), numbers(row.at("tokens"))).tree();
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, GreedyEdges<>{}, grouping, tables);

  int merged = 0, wide = 0, narrow = 0;
  std::int64_t keys = 0, partials = 0;
  for (EdgeDecision const& edge : tables.decisions) merged += edge.together;
  for (WorkItem const& item : tables.items) {
    int const queries = item.query_end - item.query_begin;
    ++(queries > target.queries(tables.tiles.narrow) ? wide : narrow);
    partials += queries;  // the artifact writes a partial result for every query of every item
    for (KeyRange const& range : tables.ranges_of(item)) keys += range.length;
  }
  CHECK(merged == number("merged_edges"));
  CHECK(wide == number("wide_items"));
  CHECK(narrow == number("narrow_items"));
  // The file has two decimals; how its last one was rounded is left open where a half is rounded.
  auto const agrees = [](double exact, double written) {
    return std::abs(exact - written) <= 0.005 + 1e-9;
  };
  CHECK(agrees(double(partials) / tree.requests(), number("partials_per_request")));
  CHECK(agrees(double(keys) / double(tables.unique_keys), number("kv_tokens_read_over_unique")));
}

}  // namespace

TEST_CASE("GreedyEdges plans as the paper's artifact does, on its 45 benchmark points") {
  std::ifstream file(FASTTREE_PAPER_PLANS);
  if (!file) {
    MESSAGE("skipped: there is no " FASTTREE_PAPER_PLANS);
    return;
  }
  std::vector<Row> const rows = read_rows(file);
  CHECK(rows.size() == 45);
  for (Row const& row : rows) {
    std::string const point = row.at("nodes") + " nodes of " + row.at("tokens") + " tokens, " +
                              row.at("query_heads") + "/" + row.at("kv_heads") + " heads";
    CAPTURE(point);
    plans_as_the_artifact(row);
  }
}
