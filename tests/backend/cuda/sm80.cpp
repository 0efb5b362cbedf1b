// SPDX-License-Identifier: Apache-2.0
// The sm80 backend against the oracle and against the portable backend on the same GPU: both element
// types and head dimensions, ratios of heads from 1 to more than a tile has rows, all caches, rows
// of any alignment, planners that cut keys, share subtrees, or neither.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/agreement.hpp"
#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/subtree_policy.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using Backend = DefaultBackend<Space, AttentionShape<fasttree::half, 128>>;

template <class Shape, class MakeCache>
void agrees_with_the_oracle(std::initializer_list<int> ratios, ForestSize const& size,
                            MakeCache const& cache_of) {
  static_assert(std::is_same_v<DefaultBackend<Space, Shape>, Backend>);
  agree_with_the_oracle<Shape, Backend, portable::Backend<Space>>(ratios, 6, size, cache_of);
}

}  // namespace

TEST_CASE("half, head_dim 128, contiguous cache with rows of any alignment") {
  agrees_with_the_oracle<AttentionShape<fasttree::half, 128>>(
      {1, 4, 5, 8}, {10, 90, 14, 5}, [](auto const& problem, int, std::uint64_t seed) {
        return contiguous_cache(problem, seed % 2 == 1, static_cast<int>(seed) % 4 * 4);
      });
}

TEST_CASE("half, head_dim 64, paged cache, as many as 200 query heads for a KV head") {
  agrees_with_the_oracle<AttentionShape<fasttree::half, 64>>(
      {1, 3, 16, 17, 64, 200}, {40, 30, 30, 3},
      [](auto const& problem, int page_size, std::uint64_t seed) {
        return paged_cache(problem, page_size, seed);
      });
}

TEST_CASE("bfloat16, head_dim 128, indexed cache") {
  agrees_with_the_oracle<AttentionShape<bfloat16, 128>>(
      {1, 2, 8}, {60, 20, 40, 2},
      [](auto const& problem, int, std::uint64_t seed) { return indexed_cache(problem, seed); });
}

TEST_CASE("bfloat16, head_dim 64, contiguous cache, long nodes") {
  agrees_with_the_oracle<AttentionShape<bfloat16, 64>>(
      {1, 4, 32}, {6, 700, 40, 70},
      [](auto const& problem, int, std::uint64_t) { return contiguous_cache(problem); });
}

namespace {

/// Calls a plan again and again.
template <class Policy>
void gives_the_same_bits(Forest const& forest, Policy const& policy, int calls) {
  using Shape = AttentionShape<fasttree::half, 128>;
  Problem<Shape> const problem(forest, {.query_heads = 8, .kv_heads = 2});
  auto const cache = contiguous_cache(problem);
  Space const space{};
  auto const plan = make_plan(space, problem.tree, problem.shape, policy);
  auto const workspace = make_workspace(space, plan);
  auto const call = [&] {
    Arrays<fasttree::half, LogBase::e, Problem<Shape>> const arrays(problem);
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                   workspace);
    space.fence();
    return arrays.read();
  };
  auto const first = call();
  for (int i = 1; i < calls; ++i) {
    auto const again = call();
    CHECK(again.log_sum_exps == first.log_sum_exps);
    int different = 0;
    for (std::size_t k = 0; k < first.outputs.size(); ++k)
      different += first.outputs[k].bits != again.outputs[k].bits;
    CHECK(different == 0);
  }
}

}  // namespace

TEST_CASE("the same plan gives the same bits, call by call, and leaves the queue empty") {
  gives_the_same_bits(level_forest({1, 4, 64}, {300, 70, 20}), ShareEveryNode{}, 4);
  // Tasks of all kinds, in blocks that had others before: of shared keys, of own ones, and of both.
  Forest forest;
  for (int i = 0; i < 200; ++i) {
    int const root = static_cast<int>(forest.parents.size());
    forest.parents.push_back(-1);
    forest.lengths.push_back(i % 3 == 1 ? 0 : 100 + 37 * (i % 11));
    for (int leaf = 0; leaf < 30; ++leaf) {
      forest.requests.push_back({i % 3 == 0 ? root : static_cast<int>(forest.parents.size())});
      if (i % 3 == 0) continue;
      forest.parents.push_back(root);
      forest.lengths.push_back(9 + 13 * (leaf % 7));
    }
  }
  gives_the_same_bits(forest, SubtreePolicy{}, 20);
}

namespace {

/// Rows (query x head) whose results are not the same bits.
template <class Stored>
std::vector<int> changed_rows(Result<Stored> const& a, Result<Stored> const& b, int dim) {
  std::vector<int> rows;
  for (std::size_t row = 0; row < a.log_sum_exps.size(); ++row) {
    bool same = std::bit_cast<std::uint32_t>(a.log_sum_exps[row]) ==
                std::bit_cast<std::uint32_t>(b.log_sum_exps[row]);
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i)
      same = same && a.outputs[i].bits == b.outputs[i].bits;
    if (!same) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

/// nan and inf in a query, in a key and in a value of one leaf of many change the rows that see
/// them, alone; others may be computed in another way, to the same results but for rounding.
template <class Shape, class By = DefaultBackend<Space, Shape>>
void keeps_not_finite_apart() {
  using Stored = typename Shape::element_type;
  constexpr int columns = Shape::value_dim;
  Shape const shape{.query_heads = 4, .kv_heads = 2};
  // Two decoding requests on each leaf; a third of 4 queries on the first, whose last key is slot
  // 98.
  Forest forest = level_forest({1, 10}, {90, 9});
  for (int leaf = 0; leaf < 10; ++leaf) forest.requests.push_back({1 + leaf});
  forest.requests.push_back({1, 4});
  Problem<Shape> const fine(forest, shape);
  auto const fine_cache = contiguous_cache(fine);
  auto const changes_only = [&](std::vector<int> const& rows, auto const& spoil) {
    Problem<Shape> spoiled = fine;
    spoil(spoiled);
    auto const cache = contiguous_cache(spoiled);
    Answer const answer = spoiled.answer();
    auto const check = [&](auto const& policy) {
      auto const result = attend_by<By>(spoiled, cache, policy);
      auto const untouched = attend_by<By>(fine, fine_cache, policy);
      CHECK(std::ranges::includes(changed_rows(untouched, result, columns), rows));
      auto others = result;
      for (int const row : rows) {
        for (int i = row * columns; i < (row + 1) * columns; ++i) {
          CHECK(std::isfinite(static_cast<float>(result.outputs[i])) ==
                std::isfinite(answer.outputs[i]));
          others.outputs[i] = untouched.outputs[i];
        }
        others.log_sum_exps[row] = untouched.log_sum_exps[row];
      }
      CHECK(worst_error(fine, others) <= 1);
    };
    check(MinimalTraffic<>{By::costs});
    check(GreedyEdges<>{.long_piece = 30, .short_piece = 30});
    check(ShareEveryNode{});
    check(NoSharing{});
    check(SubtreePolicy{});
  };
  auto const rows_of = [](std::initializer_list<int> queries) {
    std::vector<int> rows;
    for (int const query : queries)
      for (int const head : {2, 3}) rows.push_back(query * 4 + head);
    return rows;
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float const bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    CAPTURE(bad);
    changes_only(rows_of({9, 19}),
                 [&](auto& p) { p.value(90 + 81 + 8, 1)[columns - 3] = Stored(bad); });
    changes_only(rows_of({0, 10, 23}), [&](auto& p) { p.value(98, 1)[2] = Stored(bad); });
    changes_only(rows_of({0, 10, 22, 23}), [&](auto& p) { p.value(97, 1)[33] = Stored(bad); });
  }
  Stored const nan(std::numeric_limits<float>::quiet_NaN());
  changes_only(rows_of({9, 19}), [&](auto& p) { p.key(90 + 81 + 3, 1)[7] = nan; });
  changes_only({7 * 4 + 2}, [&](auto& p) { p.query(7, 2)[5] = nan; });
}

}  // namespace

TEST_CASE("nan and inf touch the rows that see them alone") {
  keeps_not_finite_apart<AttentionShape<fasttree::half, 64>>();
  keeps_not_finite_apart<AttentionShape<bfloat16, 64>>();
  keeps_not_finite_apart<AttentionShape<fasttree::half, 128, 96>>();
  keeps_not_finite_apart<AttentionShape<bfloat16, 64, 256>>();
  keeps_not_finite_apart<AttentionShape<fasttree::half, 128>, fasttree::cuda::sm80::Backend<4>>();
}

TEST_CASE("one kernel is enqueued and nothing else; a captured graph follows the plan's memory") {
  using Shape = AttentionShape<fasttree::half, 64>;
  Shape const shape{.query_heads = 8, .kv_heads = 2};
  cudaStream_t stream;  // the default stream cannot be captured
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  Space const space(stream);
  Problem<Shape> const one(level_forest({1, 4, 16}, {100, 30, 20}), shape);
  Problem<Shape> const other(level_forest({2, 16}, {90, 11}), shape);
  AttentionPlan<Space, Shape, Backend> plan(shape);
  make_plan_into(space, one.tree, plan, ShareEveryNode{});
  auto const workspace = make_workspace(space, plan);
  auto const cache = contiguous_cache(one);
  Arrays<fasttree::half, LogBase::e, Problem<Shape>> const arrays(one);
  auto const attend_to_it = [&] {
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                   workspace);
  };
  {
    ToolEvents const events;
    attend_to_it();
    CHECK(events.kernels() == "fasttree::tree_attention::attend");
    CHECK(events.allocations() == "");
    CHECK(events.copies() == "");
    CHECK(events.fences() == "");
  }
  space.fence();
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  REQUIRE(cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal) ==
          cudaSuccess);
  attend_to_it();
  REQUIRE(cudaStreamEndCapture(space.cuda_stream(), &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  auto const replay = [&](Problem<Shape> const& problem) {
    make_plan_into(space, problem.tree, plan, ShareEveryNode{});
    REQUIRE(cudaGraphLaunch(executable, space.cuda_stream()) == cudaSuccess);
    space.fence();
    auto result = arrays.read();
    result.weight_roundoff = Backend::weight_roundoff<Shape>;
    return result;
  };
  CHECK(worst_error(one, replay(one)) <= 1);
  // The other tree's keys, values and queries are the first ones of the same arrays.
  Problem<Shape> smaller = other;
  for (std::size_t i = 0; i < smaller.queries.size(); ++i) smaller.queries[i] = one.queries[i];
  for (std::size_t i = 0; i < smaller.keys.size(); ++i) smaller.keys[i] = one.keys[i];
  for (std::size_t i = 0; i < smaller.values.size(); ++i) smaller.values[i] = one.values[i];
  auto result = replay(smaller);
  result.outputs.resize(smaller.queries.size());
  result.log_sum_exps.resize(smaller.queries.size() / 64);
  CHECK(worst_error(smaller, result) <= 1);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  space.fence();
}
