// SPDX-License-Identifier: Apache-2.0
// What a stage promises, seen by Kokkos Tools: it enqueues its labelled kernels on the given
// instance and does nothing else: no allocation, no fence, no copy; on the first call as on every
// other.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8>;
constexpr char const* two_kernels =
    "fasttree::tree_attention::partial_attention, fasttree::tree_attention::merge_partials";

/// The id that tools see for kernels of an instance.
std::uint32_t device_of(Space const& space) {
  ToolEvents const events;
  Kokkos::parallel_for("probe", Kokkos::RangePolicy<Space>(space, 0, 1), KOKKOS_LAMBDA(int){});
  space.fence();
  return events.devices().at(0);
}

}  // namespace

TEST_CASE(
    "tree_attention enqueues two kernels on its instance and does nothing else, call by call") {
  Space const space{};
  // A kernel before: Kokkos itself may allocate for the first kernel of a program.
  std::uint32_t const device = device_of(space);
  Problem<Shape> const problem(Forest{{-1, 0, 0}, {300, 70, 9}, {{1}, {1}, {2}, {0, 3}}},
                               {.query_heads = 4, .kv_heads = 2});
  auto const cache = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  auto const plan = make_plan(space, problem.tree, problem.shape, ShareEveryNode{});
  auto const workspace = make_workspace(space, plan);
  for (int call = 0; call < 3; ++call) {
    CAPTURE(call);
    ToolEvents const events;
    tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, workspace);
    CHECK(events.kernels() == two_kernels);
    CHECK(events.devices() == std::vector(2, device));
    CHECK(events.allocations() == "");
    CHECK(events.copies() == "");
    CHECK(events.fences() == "");
  }
}

TEST_CASE("two kernels as well where there is nothing to merge, or log-sum-exps are asked for") {
  Space const space{};
  Problem<Shape> const problem(Forest{{-1}, {9}, {{0}}}, {});
  auto const cache = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  auto const plan = make_plan(space, problem.tree, problem.shape);
  auto const workspace = make_workspace(space, plan);
  ToolEvents const events;
  tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                 workspace);
  CHECK(events.kernels() == two_kernels);
}

TEST_CASE(
    "a plan is made without a kernel or a fence, into existing memory without an allocation") {
  Space const space{};
  PrefixTree const tree = Forest{{-1, 0}, {10, 3}, {{1}, {0}}}.tree();
  Shape const shape{.query_heads = 4, .kv_heads = 2};
  ToolEvents const events;
  auto plan = make_plan(space, tree, shape);
  CHECK(events.kernels() == "");
  CHECK(events.fences() == "");
  std::string const before = events.allocations();
  if constexpr (runs_on_host<Space>) CHECK(before == "");
  make_plan_into(space, tree, plan);
  CHECK(events.allocations() == before);
  CHECK(events.kernels() == "");
  CHECK(events.fences() == "");
}

TEST_CASE("a workspace is one labelled allocation and one labelled kernel, and does not fence") {
  Space const space{};
  auto const plan = make_plan(space, Forest{{-1}, {9}, {{0}}}.tree(), Shape{});
  ToolEvents const events;
  auto const workspace = make_workspace(space, plan);
  CHECK(events.allocations().starts_with("fasttree::workspace"));  // then Kokkos may, for itself
  CHECK(events.kernels() == "fasttree::make_workspace::prepare");
  CHECK(events.fences() == "");
}
