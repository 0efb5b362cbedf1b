// SPDX-License-Identifier: Apache-2.0
#pragma once
// Merge of partial results by Kokkos alone: per query and head, the partial results
// of the plan's list, in its order, to the final output. A query without any gets (0, -inf).

#include <cmath>
#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/portable/tiles.hpp>

namespace fasttree::portable {

/// The kernel: teams share out (query, head) pairs, threads the dimensions of an output.
template <class Space, int MostLanes, class Shape, class Output, LogBase Base>
class MergePartials {
 public:
  static constexpr int N = Shape::value_dim % MostLanes == 0 ? MostLanes : 1;
  static constexpr int pieces = Shape::value_dim / N;
  using Policy = Kokkos::TeamPolicy<Space>;
  using Team = typename Policy::member_type;

  Shape shape;
  PlanArrays plan;
  PartialArrays partials;
  Results<Output, Base> results;

  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    auto const rows = static_cast<std::int64_t>(plan.counts->merge_queries) * shape.query_heads;
    for (std::int64_t row = team.league_rank(); row < rows; row += team.league_size())
      merge_row(team, plan.merge_queries[row / shape.query_heads],
                static_cast<int>(row % shape.query_heads));
  }

 private:
  KOKKOS_INLINE_FUNCTION std::int64_t partial(int i, int head) const {
    return static_cast<std::int64_t>(plan.merge_partials[i]) * shape.query_heads + head;
  }

  KOKKOS_INLINE_FUNCTION void merge_row(Team const& team, int query, int head) const {
    int const begin = plan.merge_begin[query], end = plan.merge_begin[query + 1];
    // The formula of core/log_sum_exp.hpp for any number of sides: one logarithm for all of them.
    float top = -detail::infinity;
    for (int i = begin; i < end; ++i)
      top = larger(partials.log_sum_exps[partial(i, head)].value, top);
    float sum = 0.f;
    Lanes<N> output[pieces] = {};
    for (int i = begin; i < end; ++i) {
      std::int64_t const at = partial(i, head);
      float const log_sum_exp = partials.log_sum_exps[at].value;
      if (log_sum_exp == -detail::infinity) continue;  // no keys: what its output holds is not read
      float const weight = std::exp(log_sum_exp - top);
      sum += weight;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, pieces), [&](int piece) {
        output[piece] += weight * load<N>(partials.outputs + at * Shape::value_dim + piece * N);
      });
    }
    float const factor = sum == 0.f ? 0.f : 1.f / sum;
    int const to = plan.query_order[query];
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, pieces), [&](int piece) {
      float final_output[N];
      store<N>(output[piece] * factor, final_output);
      for (int i = 0; i < N; ++i)
        results.outputs(to, head, piece * N + i) = static_cast<Output>(final_output[i]);
    });
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      results.write_log_sum_exp(to, head, {sum == 0.f ? -detail::infinity : top + std::log(sum)});
    });
  }
};

}  // namespace fasttree::portable
