// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by rings as each rank does it, over whatever communicator, and its result against the
// oracle.

#include <cstdint>
#include <limits>
#include <vector>

#include <fasttree/ring_attention.hpp>
#include "ranks.hpp"

namespace fasttree::test {

/// Of outputs alone: rings give no log-sum-exps, so the oracle's stand in their place.
template <class Written>
double worst_output_error(Answer const& answer, int head_dim, std::vector<Written> const& outputs) {
  Result<Written> result{outputs, {}, 0};
  for (double const exact : answer.log_sum_exps)
    result.log_sum_exps.push_back(static_cast<float>(exact));
  return worst_error(result, answer, head_dim);
}
template <class P, class Written>
double worst_output_error(P const& problem, std::vector<Written> const& outputs) {
  return worst_output_error(problem.answer(), P::Shape::head_dim, outputs);
}

/// What all ranks together pass on in a ring of K,V, each shard in so many messages, or of queries.
template <class P>
RingSize ring_size(P const& problem, std::int64_t messages_per_shard = 1) {
  using Shape = typename P::Shape;
  std::int64_t tokens = 0;
  for (int node = 0; node < problem.tree.nodes(); ++node) tokens += problem.tree.length(node);
  std::int64_t const size = sizeof(typename Shape::element_type);
  return {
      tokens * problem.shape.kv_heads * (Shape::head_dim + Shape::value_dim) * size,
      std::int64_t{1} * problem.tree.queries() * problem.shape.query_heads * Shape::head_dim * size,
      messages_per_shard};
}

template <class P>
Traffic expected_pass_q(P const& problem, int ranks) {
  std::int64_t const rows = std::int64_t{1} * problem.tree.queries() * problem.shape.query_heads;
  return pass_q_traffic(ranks, ring_size(problem), {rows, P::Shape::value_dim});
}

/// A ring of K,V, with as many calls on one plan as asked; how many messages a shard took.
template <class Comm, class P, class Shards, class Cache, class Array>
std::int64_t attend_pass_kv(Comm& communicator, P const& problem, Shards const& shards,
                            Cache const& cache, Array const& array, int calls,
                            std::int64_t message_bytes) {
  Space const space{};
  auto plan =
      make_pass_kv_plan(space, communicator, problem.tree, shards, problem.shape, message_bytes);
  auto const workspace = make_workspace(space, plan);
  for (int i = 0; i < calls; ++i)
    pass_kv_attention(space, communicator, plan, array.queries, cache, array.outputs, workspace);
  space.fence();
  return plan.shard.messages_per_shard();
}

/// A ring of queries.
template <class Comm, class P, class Cache, class Array>
void attend_pass_q(Comm& communicator, P const& local, Cache const& cache, Array const& array,
                   int calls) {
  Space const space{};
  auto plan = make_pass_q_plan(space, communicator, local.tree, local.shape);
  auto const workspace = make_workspace(space, plan.distributed.attention);
  for (int i = 0; i < calls; ++i)
    pass_q_attention(space, communicator, plan, array.queries, cache, array.outputs, workspace);
  space.fence();
}

/// The heads of a rank in a ring of queries, [first, end).
struct Heads {
  int first, end;

  static Heads of(int heads, int rank, int ranks) {
    return {heads * rank / ranks, heads * (rank + 1) / ranks};
  }
  bool have(int head) const { return head >= first && head < end; }
};

/// Leaves a rank the queries of its heads, and nan in the place of the others.
template <class P>
void keep_queries_of(P& local, Heads const& heads) {
  for (int row = 0; row < local.tree.queries(); ++row)
    for (int head = 0; head < local.shape.query_heads; ++head)
      if (!heads.have(head))
        std::ranges::fill(local.query(row, head), poison<typename P::Stored>());
}

/// Puts what a rank wrote of its heads into `whole`; whether it wrote nothing else, nan having been
/// there.
template <class P, class Written>
bool collect_outputs(P const& problem, std::vector<Written> const& outputs, Heads const& heads,
                     std::vector<Written>& whole) {
  constexpr int dim = P::Shape::value_dim;
  bool others_untouched = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    int const head = static_cast<int>(i) / dim % problem.shape.query_heads;
    if (heads.have(head))
      whole[i] = outputs[i];
    else
      others_untouched = others_untouched && outputs[i] != outputs[i];
  }
  return others_untouched;
}

}  // namespace fasttree::test
