// SPDX-License-Identifier: Apache-2.0
// The sm80 backend at its edges: items of more key ranges than its table holds, softmax scales of
// any size and sign.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using fasttree::cuda::sm80::Backend;

using Shape = AttentionShape<fasttree::half, 64>;
using Default = DefaultBackend<Space, Shape>;  ///< of eight warps on Hopper, else of four

/// With the blocks of the device under test, and with those of four warps.
template <class Policy>
void is_right(Problem<Shape> const& problem, Policy const& policy) {
  auto const cache = contiguous_cache(problem);
  Answer const answer = problem.answer();
  CHECK(worst_error(attend_by<Default>(problem, cache, policy), answer, 64) <= 1);
  CHECK(worst_error(attend_by<Backend<4>>(problem, cache, policy), answer, 64) <= 1);
}

/// The error of a plan whose items each have 300 more ranges, without keys, than a policy says.
template <class Backend>
double error_with_empty_ranges(Problem<Shape> const& problem) {
  AttentionPlan<Space, Shape, Backend> plan(problem.shape);
  make_plan_into(Space{}, problem.tree, plan, SubtreePolicy{});
  plan.rewrite(Space{}, [](Grouping&, PlanTables& tables) {
    std::vector<KeyRange> ranges;
    for (WorkItem& item : tables.items) {
      int const begin = static_cast<int>(ranges.size());
      for (int i = item.range_begin; i < item.range_end; ++i) ranges.push_back(tables.ranges[i]);
      KeyRange empty = ranges.back();
      empty.length = 0;
      ranges.insert(ranges.end(), 300, empty);
      item.range_begin = begin;
      item.range_end = static_cast<int>(ranges.size());
    }
    tables.ranges = ranges;
  });
  auto const result =
      attend(plan, problem, make_workspace(Space{}, plan), contiguous_cache(problem));
  return worst_error(problem, result);
}

/// A forest whose logits differ much from key to key, so that a large scale leaves one of them.
Problem<Shape> with_scale(float scale) {
  return {level_forest({1, 5, 40}, {150, 30, 9}),
          {.query_heads = 6, .kv_heads = 2, .softmax_scale = scale}};
}

}  // namespace

TEST_CASE("items of hundreds of key ranges") {
  std::vector<int> const levels{1, 128, 128, 128, 128, 128}, lengths{40, 3, 20, 1, 5, 9};
  for (int const group : {1, 3}) {
    Problem<Shape> const bush(level_forest(levels, lengths), {.query_heads = group, .kv_heads = 1});
    is_right(bush, SubtreePolicy{});  // 641 ranges for 128 rows of one query head
    is_right(bush, SubtreePolicy{.keys_per_item = 2500});
  }
  // 600 ranges for one row, for 16, and for 40.
  Problem<Shape> const chain(level_forest(std::vector(600, 1), std::vector(600, 3)),
                             {.query_heads = 1, .kv_heads = 1});
  is_right(chain, NoSharing{});
  is_right(chain, SubtreePolicy{});
  std::vector<int> ends(600, 1);
  ends.back() = 40;
  Problem<Shape> const tuft(level_forest(ends, std::vector(600, 2)),
                            {.query_heads = 16, .kv_heads = 1});
  is_right(tuft, NoSharing{});
  is_right(tuft, SubtreePolicy{});
}

TEST_CASE("items whose last key ranges have no keys") {
  // More of them than blocks, so that blocks go on to others.
  Problem<Shape> const problem(level_forest({400, 1200}, {20, 7}),
                               {.query_heads = 4, .kv_heads = 2});
  CHECK(error_with_empty_ranges<Default>(problem) <= 1);
  CHECK(error_with_empty_ranges<Backend<4>>(problem) <= 1);
}

TEST_CASE(
    "a partial result that is not finite, and that another outweighs entirely, before it or "
    "behind") {
  using half = fasttree::half;
  constexpr int nodes = 20;  // more partial results than are looked at together
  Problem<Shape> problem(level_forest(std::vector(nodes, 1), std::vector(nodes, 5)),
                         {.query_heads = 2, .kv_heads = 1, .softmax_scale = 1.f});
  for (half& x : problem.queries) x = half(1.f);
  for (int const largest : {0, 9, nodes - 1}) {
    CAPTURE(largest);
    Problem<Shape> spoiled = problem;
    for (int slot = 0; slot < 5 * nodes; ++slot) {
      bool const weighs = slot / 5 == largest;
      std::ranges::fill(spoiled.key(slot, 0), half(weighs ? 10.f : 0.f));
      if (!weighs && slot % 5 == 2)
        spoiled.value(slot, 0)[7] = half(std::numeric_limits<float>::infinity());
    }
    auto const cache = contiguous_cache(spoiled);
    auto const check = [&](auto const& result) {
      for (int d = 0; d < 64; ++d) {
        float mean = 0;
        for (int i = 0; i < 5; ++i) mean += float(spoiled.value(5 * largest + i, 0)[d]) / 5;
        CHECK(std::abs(float(result.outputs[d]) - mean) <= 2e-3f);
      }
    };
    check(attend_by<Default>(spoiled, cache, ShareEveryNode{}));
    check(attend_by<Backend<4>>(spoiled, cache, ShareEveryNode{}));
  }
}

TEST_CASE("a softmax scale of 0, and of any sign") {
  is_right(with_scale(0.f), ShareEveryNode{});
  is_right(with_scale(1e-38f), ShareEveryNode{});
  Problem<Shape> negative = with_scale(-0.3f), positive = with_scale(0.3f);
  for (auto& x : positive.queries) x.bits ^= 0x8000;
  Answer const answer = positive.answer();
  auto const cache = contiguous_cache(negative);
  CHECK(worst_error(attend_by<Default>(negative, cache), answer, 64) <= 1);
  CHECK(worst_error(attend_by<Backend<4>>(negative, cache), answer, 64) <= 1);
}

TEST_CASE("a softmax scale that leaves the largest or the least product alone") {
  for (float const scale : {1e6f, -1e6f, 1e8f, -1e9f, 1e10f, 1e20f, -1e20f, 1e35f}) {
    CAPTURE(scale);
    Problem<Shape> const problem = with_scale(scale);
    auto const cache = contiguous_cache(problem);
    Answer const answer = problem.answer();
    auto const check = [&](auto const& result) {
      double worst = 0;
      for (std::size_t i = 0; i < answer.outputs.size(); ++i)
        worst =
            std::max(worst, std::abs(static_cast<float>(result.outputs[i]) - answer.outputs[i]));
      CHECK(worst <= 2e-3);
      for (std::size_t i = 0; i < answer.log_sum_exps.size(); ++i)
        worst = std::max(worst, std::abs(result.log_sum_exps[i] / answer.log_sum_exps[i] - 1));
      CHECK(worst <= 2e-3);
    };
    check(attend_by<Default>(problem, cache, ShareEveryNode{}));
    check(attend_by<Backend<4>>(problem, cache, ShareEveryNode{}));
    check(attend_by<Default>(problem, cache, NoSharing{}));
  }
}

TEST_CASE("a softmax scale that is not a number gives results that are none, but without keys") {
  Forest forest = level_forest({1, 4}, {70, 9});
  forest.requests.push_back({0, 72});  // the first two of its queries see no key
  Problem<Shape> const problem(
      forest,
      {.query_heads = 4, .kv_heads = 2, .softmax_scale = std::numeric_limits<float>::quiet_NaN()});
  auto const cache = contiguous_cache(problem);
  auto const check = [&](auto const& result) {
    int wrong = 0;
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      float const output = static_cast<float>(result.outputs[i]);
      bool const sees_keys = i / (4 * 64) != 4 && i / (4 * 64) != 5;
      wrong += sees_keys ? !std::isnan(output) : output != 0.f;
    }
    CHECK(wrong == 0);
  };
  check(attend_by<Default>(problem, cache, ShareEveryNode{}));
  check(attend_by<Backend<4>>(problem, cache, SubtreePolicy{}));
}
