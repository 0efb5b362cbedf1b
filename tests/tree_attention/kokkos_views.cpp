// SPDX-License-Identifier: Apache-2.0
// Kokkos::View of any layout, managed or not, as every array of a call; the README's own way. Arrays at
// pointers.

#include <fasttree/fasttree.hpp>

#include <doctest/doctest.h>

#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<bfloat16, 16>;

/// The problem's arrays as views of `KeyLayout` and `OutputLayout`: the error in units of
/// tolerance.
template <class KeyLayout, class OutputLayout>
double error_with(Problem<Shape> const& problem) {
  Space const space{};
  auto const filled = [](auto const& view, std::vector<bfloat16> const& from) {
    auto const host = Kokkos::create_mirror_view(view);
    std::size_t next = 0;
    for (std::size_t i = 0; i < host.extent(0); ++i)
      for (std::size_t j = 0; j < host.extent(1); ++j)
        for (std::size_t k = 0; k < host.extent(2); ++k) host(i, j, k) = from[next++];
    Kokkos::deep_copy(view, host);
  };
  int const slots = static_cast<int>(problem.tree.slots()), rows = problem.tree.queries();
  int const heads = problem.shape.query_heads, kv_heads = problem.shape.kv_heads;
  Kokkos::View<bfloat16***, OutputLayout, Space> const queries("queries", rows, heads, 16);
  Kokkos::View<bfloat16** [16], KeyLayout, Space> const keys("keys", slots, kv_heads);
  Kokkos::View<bfloat16***, KeyLayout, Space> const values("values", slots, kv_heads, 16);
  filled(queries, problem.queries);
  filled(keys, problem.keys);
  filled(values, problem.values);
  Kokkos::View<float***, OutputLayout, Space> const output("output", rows, heads, 16);
  Kokkos::View<NaturalLogSumExp**, OutputLayout, Space> const sums("log_sum_exps", rows, heads);

  auto const cache =
      make_contiguous_cache(space, Kokkos::View<bfloat16 const** [16], KeyLayout, Space>(keys),
                            Kokkos::View<bfloat16 const***, KeyLayout, Space>(values));
  auto const plan = make_plan(space, problem.tree, problem.shape);
  auto const workspace = make_workspace(space, plan);
  tree_attention(space, plan, queries, cache, output, sums, workspace);
  space.fence();

  auto const outputs = Kokkos::create_mirror_view(output);
  auto const log_sum_exps = Kokkos::create_mirror_view(sums);
  Kokkos::deep_copy(outputs, output);
  Kokkos::deep_copy(log_sum_exps, sums);
  Result<float> result;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < heads; ++j) {
      for (int k = 0; k < 16; ++k) result.outputs.push_back(outputs(i, j, k));
      result.log_sum_exps.push_back(log_sum_exps(i, j).value);
    }
  return worst_error(problem, result);
}

}  // namespace

TEST_CASE("views of LayoutRight for keys, of either layout for queries and outputs") {
  Problem<Shape> const problem(random_forest(7), {.query_heads = 4, .kv_heads = 2});
  CHECK(error_with<Kokkos::LayoutRight, Kokkos::LayoutRight>(problem) <= 1);
  CHECK(error_with<Kokkos::LayoutRight, Kokkos::LayoutLeft>(problem) <= 1);
}

TEST_CASE("arrays at pointers") {
  if constexpr (runs_on_host<Space>) {
    Space const space{};
    Problem<Shape> const problem(random_forest(7), {.query_heads = 4, .kv_heads = 2});
    std::int64_t const slots = problem.tree.slots(), rows = problem.tree.queries();
    Result<float> result{std::vector<float>(rows * 4 * 16), {}};
    std::vector<NaturalLogSumExp> sums(rows * 4);
    auto const cache = make_contiguous_cache(space, row_major(problem.keys.data(), {slots, 2, 16}),
                                             row_major(problem.values.data(), {slots, 2, 16}));
    auto const plan = make_plan(space, problem.tree, problem.shape);
    auto const workspace = make_workspace(space, plan);
    tree_attention(space, plan, row_major(problem.queries.data(), {rows, 4, 16}), cache,
                   row_major(result.outputs.data(), {rows, 4, 16}),
                   row_major(sums.data(), {rows, 4}), workspace);
    space.fence();
    for (auto const sum : sums) result.log_sum_exps.push_back(sum.value);
    CHECK(worst_error(problem, result) <= 1);
  }
}
