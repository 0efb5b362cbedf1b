// SPDX-License-Identifier: Apache-2.0
// The portable backend with other numbers of lanes and other teams than those of this machine: one
// lane as on a GPU, teams of several threads.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8, 16>;
constexpr Shape shape{.query_heads = 6, .kv_heads = 2};

template <int Lanes, int TeamSize>
void agrees_with_oracle() {
  Space const space{};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(random_forest(seed, {12, 80, 20, 3}), shape, seed);
    AttentionPlan<Space, Shape, portable::Backend<Space, Lanes, TeamSize>> plan(shape);
    make_plan_into(space, problem.tree, plan, ShareEveryNode{});
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

TEST_CASE("teams of several threads") {
  if (Space{}.concurrency() < 3) return;  // Kokkos::Serial has one
  agrees_with_oracle<1, 3>();
  agrees_with_oracle<4, 2>();
}
