// SPDX-License-Identifier: Apache-2.0
// Plans and workspaces used again: a plan made into the memory of another equals a fresh one, a
// workspace serves many calls and plans, the caller's memory serves whatever it holds.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8>;
constexpr Shape shape{.query_heads = 6, .kv_heads = 2};
using HalfShape = AttentionShape<fasttree::half, 64>;
template <class S>
using PlanOf = AttentionPlan<Space, S, DefaultBackend<Space, S>>;
using Plan = PlanOf<Shape>;

template <class S = Shape>
Problem<S> random_problem(std::uint64_t seed) {
  S const heads{.query_heads = shape.query_heads, .kv_heads = shape.kv_heads};
  return {random_forest(seed, {12, 80, 20, 3}), heads, seed};
}

}  // namespace

TEST_CASE(
    "a plan made into the memory of another, larger or smaller, gives the bits of a fresh one") {
  Space const space{};
  Plan plan(shape);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem = random_problem(seed);
    make_plan_into(space, problem.tree, plan);
    Plan const fresh = make_plan(space, problem.tree, shape);
    CHECK(workspace_bytes(space, plan) == workspace_bytes(space, fresh));
    Result<float> const result = attend(plan, problem, make_workspace(space, plan));
    CHECK(same_bits(result, attend(fresh, problem, make_workspace(space, fresh))));
    CHECK(worst_error(problem, result) <= 1);
  }
}

TEST_CASE_TEMPLATE("one workspace serves plans of all sizes up to its own, call after call", S,
                   Shape, HalfShape) {
  Space const space{};
  std::size_t bytes = 0;
  PlanOf<S> plan(random_problem<S>(0).shape);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    make_plan_into(space, random_problem<S>(seed).tree, plan, ShareEveryNode{});
    bytes = std::max(bytes, workspace_bytes(space, plan));
  }
  auto const workspace = make_workspace(space, plan, Workspace<Space>::Memory("memory", bytes));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    auto const problem = random_problem<S>(seed);
    make_plan_into(space, problem.tree, plan, ShareEveryNode{});
    auto const first = attend(plan, problem, workspace);
    CHECK(worst_error(problem, first) <= 1);
    CHECK(same_bits(attend(plan, problem, workspace), first));  // deterministic for a plan
  }
}

TEST_CASE_TEMPLATE("a workspace in the caller's memory works whatever the memory holds", S, Shape,
                   HalfShape) {
  Space const space{};
  for (std::uint64_t seed = 50; seed < 60; ++seed) {
    CAPTURE(seed);
    auto const problem = random_problem<S>(seed);
    PlanOf<S> const plan = make_plan(space, problem.tree, problem.shape, ShareEveryNode{});
    auto const expected = attend(plan, problem, make_workspace(space, plan));
    for (std::byte const garbage : {std::byte{0xff}, std::byte{0x7f}, std::byte{1}}) {
      Workspace<Space>::Memory const memory("memory", workspace_bytes(space, plan));
      Kokkos::deep_copy(memory, garbage);
      CHECK(same_bits(attend(plan, problem, make_workspace(space, plan, memory)), expected));
    }
  }
}

TEST_CASE("a policy that is refused leaves the plan as it was") {
  struct Wrong {
    void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
      NoSharing{}.group(tree, target, grouping);
      grouping.groups.front().keys_per_item = 0;
    }
  };
  Space const space{};
  Problem<Shape> const problem = random_problem(4);
  Plan plan = make_plan(space, problem.tree, shape);
  CHECK_THROWS_AS(make_plan_into(space, random_problem(5).tree, plan, Wrong{}), Error);
  CHECK(worst_error(problem, attend(plan, problem, make_workspace(space, plan))) <= 1);
}

TEST_CASE("a plan survives being moved") {
  Space const space{};
  Problem<Shape> const problem = random_problem(3);
  Plan plan = make_plan(space, problem.tree, shape);
  Plan moved = std::move(plan);
  Plan assigned(shape);
  assigned = std::move(moved);
  CHECK(worst_error(problem, attend(assigned, problem, make_workspace(space, assigned))) <= 1);
}

TEST_CASE("writes stay inside: memory around workspace and outputs keeps its bytes") {
  Space const space{};
  Problem<Shape> const problem = random_problem(8);
  Plan const plan = make_plan(space, problem.tree, shape, ShareEveryNode{});
  std::size_t const bytes = workspace_bytes(space, plan);
  Kokkos::View<std::byte*, Space> const block("block", bytes + 512);
  Kokkos::deep_copy(block, std::byte{0x5a});
  std::size_t const begin =
      256 - reinterpret_cast<std::uintptr_t>(block.data()) % WorkspaceLayout::alignment;
  Workspace<Space>::Memory const inside(block.data() + begin, bytes);
  CHECK(worst_error(problem, attend(plan, problem, make_workspace(space, plan, inside))) <= 1);
  auto const after = Kokkos::create_mirror_view(block);
  Kokkos::deep_copy(after, block);
  int changed = 0;
  for (std::size_t i = 0; i < after.extent(0); ++i)
    if (i < begin || i >= begin + bytes) changed += after(i) != std::byte{0x5a};
  CHECK(changed == 0);
}
