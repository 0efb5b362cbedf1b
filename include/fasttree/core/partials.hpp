// SPDX-License-Identifier: Apache-2.0
#pragma once
// Partial results as a public type: what attention over some of the keys yields, ready to be merged
// with what other keys, other calls or other ranks yield. See core/log_sum_exp.hpp for the formula.

#include <string>

#include <fasttree/core/error.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree {

/// Partial results of `rows` queries: outputs (rows, query_heads, value_dim) and their log-sum-exps
/// (rows, query_heads). An output whose log-sum-exp is -inf is never read.
template <class Space, LogBase Base = LogBase::e>
struct Partials {
  Kokkos::View<float***, Kokkos::LayoutRight, Space> outputs;
  Kokkos::View<LogSumExp<Base>**, Kokkos::LayoutRight, Space> log_sum_exps;
};

/// Allocates partial results. Contents are undefined until written.
template <class Space, LogBase Base = LogBase::e>
Partials<Space, Base> make_partials(Space const& space, int rows, int query_heads, int value_dim) {
  using Kokkos::view_alloc;
  using Kokkos::WithoutInitializing;
  using Result = Partials<Space, Base>;
  Result result;
  result.outputs = decltype(Result::outputs)(
      view_alloc(space, WithoutInitializing, "fasttree::partials::outputs"), rows, query_heads,
      value_dim);
  result.log_sum_exps = decltype(Result::log_sum_exps)(
      view_alloc(space, WithoutInitializing, "fasttree::partials::log_sum_exps"), rows,
      query_heads);
  return result;
}

/// a := merge(a, b), row by row, for partial results over disjoint keys.
///
/// Both of one shape; reads b, overwrites a. Enqueues on `space`, does not fence, does not
/// allocate. Commutative to the bit (but for outputs below 2^-126); (0, -inf) is the identity to
/// the bit; associative up to rounding. Errors: `Error` where shapes differ. Time: reads both once,
/// writes one.
template <class Space, LogBase Base>
void merge(Space const& space, Partials<Space, Base> const& a, Partials<Space, Base> const& b) {
  auto const require_extents = [&](char const* array, auto const& of, int dimensions) {
    for (int i = 0; i < dimensions; ++i)
      if (of.extent(i) != a.outputs.extent(i))
        fail("merge", std::string(array) + ".extent(" + std::to_string(i) + ")",
             a.outputs.extent(i), of.extent(i));
  };
  require_extents("a.log_sum_exps", a.log_sum_exps, 2);
  require_extents("b.outputs", b.outputs, 3);
  require_extents("b.log_sum_exps", b.log_sum_exps, 2);
  auto const heads = static_cast<std::int64_t>(a.log_sum_exps.extent(1));
  auto const rows = static_cast<std::int64_t>(a.log_sum_exps.extent(0)) * heads;
  Kokkos::parallel_for(
      "fasttree::merge::rows",
      Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, rows),
      KOKKOS_LAMBDA(std::int64_t row) {
        auto const query = row / heads, head = row % heads;
        auto const weights =
            merge_weights(a.log_sum_exps(query, head), b.log_sum_exps(query, head));
        for (std::size_t i = 0; i < a.outputs.extent(2); ++i)
          a.outputs(query, head, i) =
              merge_outputs(weights, a.outputs(query, head, i), b.outputs(query, head, i));
        a.log_sum_exps(query, head) = weights.log_sum_exp;
      });
}

}  // namespace fasttree
