// SPDX-License-Identifier: Apache-2.0
// What a result must not depend on: planner, key pieces, page size and order, strides, the order of
// requests, what lies in unused places; and how outputs may be asked for.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 24, 16>;
constexpr Shape shape{.query_heads = 6, .kv_heads = 2};

/// The parts of an array of rows that belong to query row `row`.
std::vector<float> part(std::vector<float> const& all, int row, int rows) {
  auto const size = static_cast<std::ptrdiff_t>(all.size()) / rows;
  return {all.begin() + row * size, all.begin() + (row + 1) * size};
}

/// The largest difference, in units of what two results may differ by.
double worst_difference(Result<float> const& a, Result<float> const& b, Answer const& answer) {
  double worst = 0;
  constexpr int dim = Shape::value_dim;
  for (std::size_t row = 0; row < answer.rows.size(); ++row) {
    RowFacts const& facts = answer.rows[row];
    double const tolerance = 2 * output_tolerance<float>(facts, Shape::head_dim, 0);
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i)
      worst = std::max(worst, error_in(tolerance, a.outputs[i], b.outputs[i]));
    worst = std::max(worst, error_in(2 * log_sum_exp_tolerance(facts, Shape::head_dim),
                                     a.log_sum_exps[row], b.log_sum_exps[row]));
  }
  return worst;
}

/// A result with given arrays, by the default planner.
template <class Written, LogBase Base>
Result<Written> attend_into(Problem<Shape> const& problem, Layout<3> layout, Layout<2> log_layout) {
  Space const space{};
  auto const cache = paged_cache(problem, 1, 5);
  auto const plan = make_plan(space, problem.tree, problem.shape);
  auto const workspace = make_workspace(space, plan);
  Arrays<Written, Base, Problem<Shape>> const arrays(problem, layout, log_layout);
  tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                 workspace);
  space.fence();
  return arrays.read();
}

}  // namespace

TEST_CASE("the result does not depend on the planner or on the size of key pieces") {
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(random_forest(seed, {14, 150, 30, 3}), shape, seed);
    auto const cache = paged_cache(problem, 1, seed);
    Answer const answer = problem.answer();
    Result<float> const one = attend(problem, cache);
    auto const difference = [&](auto const& policy) {
      return worst_difference(attend(problem, cache, policy), one, answer);
    };
    CHECK(difference(NoSharing{}) <= 1);
    CHECK(difference(ShareEveryNode{}) <= 1);
    CHECK(difference(GreedyEdges<>{.long_piece = 64, .short_piece = 64}) <= 1);
    CHECK(difference(GreedyEdges<>{.long_piece = 1, .short_piece = 1}) <= 1);
    CHECK(difference(GreedyEdges<>{.costs = {.gamma = 1e9}}) <= 1);
    CHECK(difference(MinimalTraffic<>{}) <= 1);
    CHECK(difference(MinimalTraffic<>{{.item = 0.01, .wide = 1e3, .narrow = 4e3}}) <= 1);
    CHECK(difference(MinimalTraffic<>{.fixed_piece = 64}) <= 1);
    CHECK(difference(SubtreePolicy{}) <= 1);
    CHECK(difference(SubtreePolicy{.keys_per_item = 70}) <= 1);
  }
}

TEST_CASE("the result does not depend, to the bit, on page size, page order and unused pages") {
  for (std::uint64_t seed = 200; seed < 210; ++seed) {
    CAPTURE(seed);
    Forest const forest = random_forest(seed);
    Problem<Shape> const dense(forest, shape, seed, 1);
    // Without gaps, slots of a path may follow each other and their ranges be joined: same sums,
    // but other tiles. ShareEveryNode has a range for each node, whatever the page size.
    Result<float> const one = attend(dense, paged_cache(dense, 1, seed), ShareEveryNode{});
    for (int const page_size : {2, 16, 48, 1000}) {
      CAPTURE(page_size);
      Problem<Shape> const problem(forest, shape, seed, page_size);
      for (std::uint64_t order : {1, 2})
        CHECK(same_bits(attend(problem, paged_cache(problem, page_size, order), ShareEveryNode{}),
                        one));
    }
  }
}

TEST_CASE("garbage in key slots that no node owns has no influence") {
  for (std::uint64_t seed = 300; seed < 310; ++seed) {
    CAPTURE(seed);
    Problem<Shape> problem(random_forest(seed), shape, seed, 16);  // gaps are nan
    Result<float> const beside_nan = attend(problem, paged_cache(problem, 16, seed));
    CHECK(worst_error(problem, beside_nan) <= 1);
    for (auto* array : {&problem.keys, &problem.values})
      for (float& x : *array)
        if (std::isnan(x)) x = 1e38f;
    CHECK(same_bits(attend(problem, paged_cache(problem, 16, seed)), beside_nan));
  }
}

TEST_CASE("permuting requests permutes rows") {
  for (std::uint64_t seed = 400; seed < 420; ++seed) {
    CAPTURE(seed);
    Forest const forest = random_forest(seed);
    Problem<Shape> const problem(forest, shape, seed);
    std::vector<int> const order =
        Random(seed).permutation(static_cast<int>(forest.requests.size()));
    Forest permuted_forest = forest;
    for (std::size_t i = 0; i < order.size(); ++i)
      permuted_forest.requests[i] = forest.requests[order[i]];
    Problem<Shape> permuted(permuted_forest, shape, seed);
    REQUIRE(permuted.keys == problem.keys);
    std::vector<int> row_before;
    for (int const request : order)
      for (int i = 0; i < forest.requests[request].query_length; ++i)
        row_before.push_back(problem.tree.first_query(request) + i);
    std::vector<float> queries;
    int const rows = problem.tree.queries();
    for (int const row : row_before) {
      auto const query = part(problem.queries, row, rows);
      queries.insert(queries.end(), query.begin(), query.end());
    }
    permuted.queries = queries;
    Result<float> const before = attend(problem, paged_cache(problem, 1, 1));
    Result<float> const after = attend(permuted, paged_cache(permuted, 1, 1));
    Result<float> expected;
    for (int const row : row_before) {
      auto const output = part(before.outputs, row, rows),
                 sums = part(before.log_sum_exps, row, rows);
      expected.outputs.insert(expected.outputs.end(), output.begin(), output.end());
      expected.log_sum_exps.insert(expected.log_sum_exps.end(), sums.begin(), sums.end());
    }
    CHECK(worst_difference(after, expected, permuted.answer()) <= 1);
  }
}

TEST_CASE("128 identical requests get identical outputs and log-sum-exps") {
  Forest forest{{-1, 0}, {300, 77}, {}};
  forest.requests.assign(128, {1});
  for (int const query_heads : {2, 8, 32}) {
    CAPTURE(query_heads);
    Problem<Shape> problem(forest, {.query_heads = query_heads, .kv_heads = 2});
    for (int row = 1; row < 128; ++row)
      for (int head = 0; head < query_heads; ++head)
        std::ranges::copy(problem.query(0, head), problem.query(row, head).begin());
    auto const cache = paged_cache(problem, 1, 3);
    Answer const answer = problem.answer();
    auto const check = [&](auto const& policy) {
      Result<float> const result = attend(problem, cache, policy);
      CHECK(worst_error(result, answer, Shape::head_dim) <= 1);
      int different = 0;
      for (int row = 1; row < 128; ++row) {
        different += !same_bits(part(result.outputs, row, 128), part(result.outputs, 0, 128));
        different +=
            !same_bits(part(result.log_sum_exps, row, 128), part(result.log_sum_exps, 0, 128));
      }
      CHECK(different == 0);
    };
    check(GreedyEdges<>{});
    check(MinimalTraffic<>{.fixed_piece = 64});
    check(NoSharing{});
    check(ShareEveryNode{});
    check(SubtreePolicy{});
  }
}

TEST_CASE("outputs and log-sum-exps of any strides get the same bits") {
  for (std::uint64_t seed = 500; seed < 505; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(random_forest(seed), shape, seed);
    auto const one = attend_into<float, LogBase::e>(problem, {}, {});
    CHECK(worst_error(problem, one) <= 1);
    for (std::array<int, 3> const order :
         {std::array{1, 0, 2}, std::array{2, 1, 0}, std::array{0, 2, 1}})
      CHECK(same_bits(attend_into<float, LogBase::e>(problem, {order, 3}, {{1, 0}, 2}), one));
  }
}

TEST_CASE("outputs of another element type than the inputs") {
  for (std::uint64_t seed = 600; seed < 605; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(random_forest(seed), shape, seed);
    auto const wide = attend_into<float, LogBase::e>(problem, {}, {});
    auto const narrow = attend_into<fasttree::half, LogBase::e>(problem, {}, {});
    int different = 0;
    for (std::size_t i = 0; i < wide.outputs.size(); ++i)
      different += fasttree::half(wide.outputs[i]).bits != narrow.outputs[i].bits;
    CHECK(different == 0);
    CHECK(same_bits(wide.log_sum_exps, narrow.log_sum_exps));
  }
}

TEST_CASE("log-sum-exps in base 2 are those in base e times log2(e), -inf stays -inf") {
  Problem<Shape> const problem(Forest{{-1, 0, -1}, {30, 9, 0}, {{1, 3}, {0}, {2}}}, shape);
  auto const natural = attend_into<float, LogBase::e>(problem, {}, {});
  auto const binary = attend_into<float, LogBase::two>(problem, {}, {});
  CHECK(same_bits(natural.outputs, binary.outputs));
  for (std::size_t i = 0; i < natural.log_sum_exps.size(); ++i)
    CHECK(binary.log_sum_exps[i] ==
          convert<LogBase::two>(NaturalLogSumExp{natural.log_sum_exps[i]}).value);
}

TEST_CASE("a given softmax scale is used, also 0 and a negative one") {
  Forest const forest{{-1, 0}, {40, 70}, {{1}, {1, 2}}};
  for (float const scale : {0.f, 1.f, -0.3f}) {
    CAPTURE(scale);
    Problem<Shape> const problem(forest, {.query_heads = 2, .kv_heads = 1, .softmax_scale = scale});
    CHECK(worst_error(problem, attend(problem, paged_cache(problem, 1, 1))) <= 1);
  }
}
