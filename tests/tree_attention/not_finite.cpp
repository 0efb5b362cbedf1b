// SPDX-License-Identifier: Apache-2.0
// nan and inf in the inputs of a row touch that row alone: all other rows keep every bit.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8>;
constexpr Shape shape{.query_heads = 4, .kv_heads = 2};
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// A root shared by ten leaves: 2 decoding requests on each, a third of 4 queries on the first
/// leaf.
Forest shared_root() {
  Forest forest{{-1}, {90}, {}};
  for (int leaf = 1; leaf <= 10; ++leaf) {
    forest.parents.push_back(0);
    forest.lengths.push_back(9);
    forest.requests.push_back({leaf});
    forest.requests.push_back({leaf});
  }
  forest.requests.push_back({1, 4});  // rows 20 to 23
  return forest;
}

/// Rows (query x head) whose results are not the same bits.
std::vector<int> changed_rows(Result<float> const& a, Result<float> const& b) {
  auto const bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  std::vector<int> rows;
  for (std::size_t row = 0; row < a.log_sum_exps.size(); ++row) {
    bool same = bits(a.log_sum_exps[row]) == bits(b.log_sum_exps[row]);
    for (std::size_t i = row * 8; i < row * 8 + 8; ++i)
      same = same && bits(a.outputs[i]) == bits(b.outputs[i]);
    if (!same) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

/// Lets `spoil(problem)` put something into a problem: the rows that changed, for every planner the
/// same, and nan where the oracle has nan.
template <class Spoil>
void changes_only(std::vector<int> const& rows, Spoil const& spoil) {
  Problem<Shape> const fine(shared_root(), shape);
  Problem<Shape> spoiled = fine;
  spoil(spoiled);
  auto const fine_cache = contiguous_cache(fine), cache = contiguous_cache(spoiled);
  Answer const answer = spoiled.answer();
  auto const check = [&](auto const& policy) {
    Result<float> const result = attend(spoiled, cache, policy);
    CHECK(changed_rows(attend(fine, fine_cache, policy), result) == rows);
    for (int const row : rows)
      for (int i = row * 8; i < row * 8 + 8; ++i)
        CHECK(std::isnan(result.outputs[i]) == std::isnan(answer.outputs[i]));
  };
  check(GreedyEdges<>{});
  check(MinimalTraffic<>{});
  check(GreedyEdges<>{.long_piece = 30, .short_piece = 30});
  check(ShareEveryNode{});
  check(NoSharing{});
  check(SubtreePolicy{});
  check(SubtreePolicy{.keys_per_item = 50});
}

/// Rows of the given queries for the heads of KV head 1.
std::vector<int> rows_of(std::vector<int> const& queries) {
  std::vector<int> rows;
  for (int const query : queries)
    for (int const head : {2, 3}) rows.push_back(query * shape.query_heads + head);
  return rows;
}

constexpr int last_leaf_slot = 90 + 9 * 9;

}  // namespace

TEST_CASE("nan or inf in a query touches the row of that query and head alone") {
  for (float const bad : {quiet_nan, infinity}) {
    changes_only({7 * 4 + 2}, [&](auto& problem) { problem.query(7, 2)[5] = bad; });
  }
}

TEST_CASE("nan in a key of a leaf touches the rows of its requests alone") {
  changes_only(rows_of({18, 19}),
               [](auto& problem) { problem.key(last_leaf_slot + 4, 1)[0] = quiet_nan; });
}

TEST_CASE("nan or inf in a value of a leaf touches the rows of its requests alone") {
  for (float const bad : {quiet_nan, infinity, -infinity})
    changes_only(rows_of({18, 19}),
                 [&](auto& problem) { problem.value(last_leaf_slot + 8, 1)[7] = bad; });
}

TEST_CASE("nan in a later key or value does not reach an earlier query under a causal mask") {
  // The last key of the first leaf: seen by its two decoding requests and the last of the four
  // queries.
  changes_only(rows_of({0, 1, 23}), [](auto& problem) { problem.value(98, 1)[2] = quiet_nan; });
  changes_only(rows_of({0, 1, 23}), [](auto& problem) { problem.key(98, 1)[2] = quiet_nan; });
  changes_only(rows_of({0, 1, 22, 23}), [](auto& problem) { problem.value(97, 1)[2] = infinity; });
}

TEST_CASE(
    "nan in a later key or value does not reach an earlier query where an item has few rows") {
  for (int const queries : {2, 3, 4}) {
    CAPTURE(queries);
    Problem<Shape> const fine(Forest{{-1}, {20}, {{0, queries}}}, {});
    Result<float> const before = attend(fine, contiguous_cache(fine), NoSharing{});
    for (bool const in_key : {false, true}) {
      Problem<Shape> spoiled = fine;
      (in_key ? spoiled.key(19, 0) : spoiled.value(19, 0))[2] = quiet_nan;
      Result<float> const after = attend(spoiled, contiguous_cache(spoiled), NoSharing{});
      CHECK(changed_rows(before, after) == std::vector{queries - 1});
    }
  }
}

TEST_CASE(
    "nan in a value does not reach a row between two that see it, where an item has few rows") {
  // The last key is seen by the decoding request and by the second of two queries: rows 0 and 2.
  Problem<Shape> const fine(Forest{{-1}, {17}, {{0}, {0, 2}}}, {});
  Problem<Shape> spoiled = fine;
  spoiled.value(16, 0)[2] = quiet_nan;
  CHECK(changed_rows(attend(fine, contiguous_cache(fine), ShareEveryNode{}),
                     attend(spoiled, contiguous_cache(spoiled), ShareEveryNode{})) ==
        std::vector{0, 2});
}

TEST_CASE("nan in a key of the root touches every row of its KV head, and no other head") {
  std::vector<int> all;
  for (int query = 0; query < 24; ++query) all.push_back(query);
  changes_only(rows_of(all), [](auto& problem) { problem.key(70, 1)[1] = quiet_nan; });
}

TEST_CASE("a nan result is written as nan in 16 bits") {
  using Half = AttentionShape<fasttree::half, 8>;
  Problem<Half> problem(Forest{{-1}, {5}, {{0}}}, {});
  problem.value(2, 0)[3] = fasttree::half(quiet_nan);
  Result<fasttree::half> const result = attend(problem, contiguous_cache(problem));
  CHECK(std::isnan(float(result.outputs[3])));
  CHECK(std::isfinite(float(result.outputs[2])));
}
