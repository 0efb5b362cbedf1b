// SPDX-License-Identifier: Apache-2.0
// Inputs at the edge of what a tree can be, each with its right value: nothing to do, rows without
// keys, causal tails longer than the leaf and than the path, several roots, deep chains, extreme
// logits.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8>;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Calls body(policy) for every planner.
template <class Body>
void each_policy(Body const& body) {
  body(GreedyEdges<>{});
  body(GreedyEdges<>{.long_piece = 5, .short_piece = 3});
  body(GreedyEdges<>{.costs = {.gamma = 1e9}});
  body(MinimalTraffic<>{});
  body(MinimalTraffic<>{.fixed_piece = 4});
  body(ShareEveryNode{});
  body(NoSharing{});
  body(SubtreePolicy{});
}

void is_right(Forest const& forest, Shape const& shape = {.query_heads = 4, .kv_heads = 2}) {
  Problem<Shape> const problem(forest, shape);
  auto const cache = contiguous_cache(problem);
  Answer const answer = problem.answer();
  each_policy([&](auto const& policy) {
    CHECK(worst_error(attend(problem, cache, policy), answer, Shape::head_dim) <= 1);
  });
}

/// A single chain of nodes, one request at its end; logit `key` is `logit(key)` for every head.
template <class Logit>
Problem<Shape> with_logits(Forest const& forest, Logit const& logit) {
  Problem<Shape> problem(forest, {.query_heads = 1, .kv_heads = 1, .softmax_scale = 1.f});
  for (float& x : problem.queries) x = 0;
  for (int row = 0; row < problem.tree.queries(); ++row) problem.query(row, 0)[3] = 1e15f;
  auto const slots = path_slots(problem.tree, problem.tree.request(0).node);
  for (std::size_t key = 0; key < slots.size(); ++key)
    problem.key(slots[key], 0)[3] = logit(static_cast<int>(key)) * 1e-15f;
  return problem;
}

}  // namespace

TEST_CASE("no requests, requests without queries, no nodes: nothing is launched") {
  for (Forest const& forest :
       {Forest{}, Forest{{-1, 0}, {5, 5}, {}}, Forest{{-1}, {5}, {{0, 0}, {0, 0}}}}) {
    Problem<Shape> const problem(forest, {.query_heads = 4, .kv_heads = 2});
    auto const cache = contiguous_cache(problem);
    Space const space{};
    auto const plan = make_plan(space, problem.tree, problem.shape);
    auto const workspace = make_workspace(space, plan);
    Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
    ToolEvents const events;
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, workspace);
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                   workspace);
    CHECK(events.kernels() == "");
  }
}

TEST_CASE("a query that sees no key: output 0, log-sum-exp -inf, beside queries that see some") {
  // An empty path, an empty node below an empty root, and a tail of 5 queries on a path of 2
  // tokens.
  Forest const forest{{-1, 0, -1, -1}, {0, 0, 2, 9}, {{0}, {1, 3}, {2, 5}, {3}}};
  Problem<Shape> const problem(forest, {.query_heads = 2, .kv_heads = 1});
  auto const cache = contiguous_cache(problem);
  each_policy([&](auto const& policy) {
    Result<float> const result = attend(problem, cache, policy);
    for (int row = 0; row < 2 * (1 + 3 + 3); ++row) {
      CAPTURE(row);
      CHECK(result.log_sum_exps[row] == -infinity);
      for (int d = 0; d < 8; ++d) CHECK(result.outputs[row * 8 + d] == 0.f);
    }
    CHECK(std::isfinite(result.log_sum_exps[2 * 7]));
    CHECK(worst_error(problem, result) <= 1);
  });
}

TEST_CASE("only rows without keys, in a cache without a row") {
  is_right({{-1, 0}, {0, 0}, {{0}, {1, 4}, {1}}});
}

TEST_CASE(
    "causal tails: shorter and longer than the leaf, across empty nodes, longer than the path") {
  for (int const tail : {1, 2, 6, 7, 8, 20, 43, 44, 60}) {
    CAPTURE(tail);
    is_right({{-1, 0, 1, 2}, {30, 0, 7, 6}, {{3, tail}, {3}, {2, tail}, {0, 2}}});
  }
}

TEST_CASE("a prompt's whole causal triangle: as many queries as keys, over several tiles") {
  is_right({{-1}, {200}, {{0, 200}}}, {.query_heads = 3, .kv_heads = 1});
}

TEST_CASE("several roots, single nodes, and requests on inner nodes") {
  is_right({{-1, -1, 1, -1, 3}, {10, 20, 5, 70, 1}, {{0}, {2}, {1}, {3}, {4}, {4}}});
}

TEST_CASE("siblings of different lengths: no request attends to a key of another's leaf") {
  is_right({{-1, 0, 0, 0, 1, 1}, {9, 30, 5, 0, 4, 80}, {{1}, {2}, {3}, {4}, {5}, {2, 3}, {5}}});
}

TEST_CASE("a chain of 2000 nodes with requests along it") {
  Forest forest;
  for (int i = 0; i < 2000; ++i) {
    forest.parents.push_back(i - 1);
    forest.lengths.push_back(i % 3 == 0 ? 0 : 1);
    if (i % 499 == 0) forest.requests.push_back({i});
  }
  Problem<Shape> const problem(forest, {.query_heads = 2, .kv_heads = 1});
  auto const cache = contiguous_cache(problem);
  Answer const answer = problem.answer();
  CHECK(worst_error(attend(problem, cache), answer, Shape::head_dim) <= 1);
  CHECK(worst_error(attend(problem, cache, ShareEveryNode{}), answer, Shape::head_dim) <= 1);
}

TEST_CASE("lengths around the tiles of 64 keys, queries around the tiles of 24 and 96 rows") {
  for (int const keys : {1, 7, 8, 9, 63, 64, 65, 128}) {
    CAPTURE(keys);
    for (int const requests : {1, 23, 24, 25, 47, 49, 96, 97}) {
      CAPTURE(requests);
      Forest forest{{-1}, {keys}, {}};
      forest.requests.assign(requests, {0});
      is_right(forest, {.query_heads = 1, .kv_heads = 1});
    }
  }
}

TEST_CASE("every logit far below any finite sentinel, or far above: the largest wins exactly") {
  Forest const forest{{-1, 0}, {40, 70}, {{1}}};
  for (float const unit : {-1e30f, 1e30f}) {
    CAPTURE(unit);
    Problem<Shape> const problem = with_logits(forest, [&](int key) { return unit * (1 + key); });
    int const winner = unit < 0 ? 0 : 109;
    auto const cache = contiguous_cache(problem);
    each_policy([&](auto const& policy) {
      Result<float> const result = attend(problem, cache, policy);
      for (int d = 0; d < 8; ++d) CHECK(result.outputs[d] == problem.values[winner * 8 + d]);
      CHECK(result.log_sum_exps[0] == doctest::Approx(unit * (1 + winner)).epsilon(1e-6));
    });
  }
}

TEST_CASE("equal logits of -1e30, one work item: the mean of the values, to rounding") {
  Problem<Shape> const problem = with_logits({{-1}, {40}, {{0}}}, [](int) { return -1e30f; });
  Result<float> const result = attend(problem, contiguous_cache(problem), NoSharing{});
  for (int d = 0; d < 8; ++d) {
    double mean = 0;
    for (int key = 0; key < 40; ++key) mean += problem.values[key * 8 + d] / 40.0;
    CHECK(std::abs(result.outputs[d] - mean) <=
          40 * 0x1p-24 * 2);  // a sum of 40 values of at most 2
  }
}
