// SPDX-License-Identifier: Apache-2.0
// The portable backend with other numbers of lanes and other teams than those of this machine: one
// lane as on a GPU, teams of several threads.

#include <fasttree/plan/explain.hpp>
#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include "support/one_tile_policy.hpp"
#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8, 16>;
constexpr Shape shape{.query_heads = 6, .kv_heads = 2};

template <int Lanes, int TeamSize, class Policy = ShareEveryNode>
void agrees_with_oracle(Policy const& policy = {}) {
  Space const space{};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(random_forest(seed, {12, 80, 20, 3}), shape, seed);
    AttentionPlan<Space, Shape, portable::Backend<Space, Lanes, TeamSize>> plan(shape);
    make_plan_into(space, problem.tree, plan, policy);
    auto const workspace = make_workspace(space, plan);
    auto const cache = contiguous_cache(problem);
    Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                   workspace);
    space.fence();
    CHECK(worst_error(problem, arrays.read()) <= 1);
  }
}

}  // namespace

TEST_CASE("one lane") { agrees_with_oracle<1, 1>(); }

TEST_CASE("four lanes, as every machine has") { agrees_with_oracle<4, 1>(); }

TEST_CASE("a policy may give up either tile: then all items take the other") {
  PrefixTree const tree = Forest{{-1, 0}, {90, 9}, {{0}, {1}, {1, 3}}}.tree();
  Space const space{};
  AttentionPlan<Space, Shape, portable::Backend<Space, 4>> plan(shape);
  make_plan_into(space, tree, plan, OneTilePolicy{.queries_per_item = 1});
  CHECK(summarize(plan).wide_items == 5);
  CHECK(summarize(plan).narrow_items == 0);
  make_plan_into(space, tree, plan, OneTilePolicy{.wide = false});
  CHECK(summarize(plan).wide_items == 0);
  CHECK(summarize(plan).narrow_items == 5);  // of 3 rows each: no two fit
  agrees_with_oracle<4, 1>(OneTilePolicy{});
  agrees_with_oracle<4, 1>(OneTilePolicy{.queries_per_item = 1});
  agrees_with_oracle<4, 1>(OneTilePolicy{.wide = false});
  agrees_with_oracle<1, 1>(OneTilePolicy{.wide = false});
}

TEST_CASE("items of one query with more rows than the narrow tile go by panels") {
  AttentionShape<float, 8, 16> const five_rows{.query_heads = 5, .kv_heads = 1};
  Problem<Shape> const problem(random_forest(1, {12, 80, 20, 3}), five_rows);
  for (bool const wide : {true, false}) {
    CAPTURE(wide);
    OneTilePolicy const policy{wide, 1};
    auto const plan = make_plan(Space{}, problem.tree, five_rows, policy);
    CHECK(summarize(plan).narrow_items == 0);
    CHECK(worst_error(problem, attend(problem, contiguous_cache(problem), policy)) <= 1);
  }
}

TEST_CASE("teams of several threads") {
  if (Space{}.concurrency() < 3) return;  // Kokkos::Serial has one
  agrees_with_oracle<1, 3>();
  agrees_with_oracle<4, 2>();
}
