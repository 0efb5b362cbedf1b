// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verb for several ranks, each of which has some of the keys of every node: each attends to its
// own, by the plan and the kernels of one rank, and partial results merge over the ranks.
//     auto shard     = fasttree::shard_tree(tree, policy, {communicator.rank(), communicator.size()});
//     auto plan      = fasttree::make_distributed_plan(space, communicator, shard, shape);
//     auto workspace = fasttree::make_workspace(space, plan.attention);
//     fasttree::distributed_attention(space, communicator, plan, queries, cache, output, workspace);
// Tree Attention (arXiv 2408.04093), algorithm 3.

#include <type_traits>
#include <utility>

#include <fasttree/comm/explain_reduction.hpp>
#include <fasttree/comm/self_communicator.hpp>
#include <fasttree/stages/reduce_shards.hpp>
#include <fasttree/tree/shard_tree.hpp>
#include <fasttree/tree_attention.hpp>

namespace fasttree {

/// A rank's plan of attention over its shard, and of what follows. To plan anew for other requests,
/// of no more queries than before, make_plan_into(space, shard, plan.attention): not collective.
template <class Space, class Shape, class Backend, Communicator Comm>
struct DistributedPlan {
  AttentionPlan<Space, Shape, Backend> attention;
  ShardReduction<Space, Comm> reduction;
};

/// A plan of attention over shards. Collective.
///
/// \param space      as for make_plan
/// \param shard      this rank's, by shard_tree, of a tree that is the same on all ranks
/// \param method     the same on all ranks: an algorithm, or one and a payload
/// \param policy     of the planner, which may differ
///
/// Errors: those of make_plan and plan_reduction.
template <class Space, Communicator Comm, Element E, int HeadDim, int ValueDim,
          PlannerPolicy Policy = DefaultPlanner>
auto make_distributed_plan(
    Space const& space, Comm& communicator, PrefixTree const& shard,
    AttentionShape<E, HeadDim, ValueDim> const& shape, ReductionMethod method,
    Policy const& policy = Policy{
        DefaultBackend<Space, AttentionShape<E, HeadDim, ValueDim>>::costs}) {
  using Shape = AttentionShape<E, HeadDim, ValueDim>;
  auto attention = make_plan(space, shard, shape, policy);
  return DistributedPlan<Space, Shape, DefaultBackend<Space, Shape>, Comm>{
      std::move(attention),
      plan_reduction(space, communicator, shard.queries(), shape.query_heads, ValueDim, method)};
}

/// The same with the algorithm that is cheapest on the communicator's links; explain_reduction(
/// topology_of(communicator), size) has all prices.
template <class Space, Communicator Comm, Element E, int HeadDim, int ValueDim>
auto make_distributed_plan(Space const& space, Comm& communicator, PrefixTree const& shard,
                           AttentionShape<E, HeadDim, ValueDim> const& shape) {
  validate("make_distributed_plan", shape);
  ReductionSize const size{std::int64_t{1} * shard.queries() * shape.query_heads, ValueDim};
  return make_distributed_plan(space, communicator, shard, shape,
                               cheapest(topology_of(communicator), size));
}

namespace detail {

template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output, LogBase Base>
void distributed_attention(Space const& space, Comm& communicator,
                           DistributedPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Cache const& cache, Output const& output,
                           StridedArray<LogSumExp<Base>, 2> const* log_sum_exps,
                           Workspace<Space> const& workspace) {
  constexpr char const* function = "distributed_attention";
  using Written = ElementOf<Output>;
  static_assert(
      Element<Written>,
      "fasttree::distributed_attention: output must have float, half or bfloat16 elements "
      "that are not const");
  int const rows = plan.attention.queries(), heads = plan.attention.shape().query_heads;
  Results<Written, Base> results{strided<Space, 3>(output), {}};
  require_extent(results.outputs, 0, rows, function, "output");
  require_extent(results.outputs, 1, heads, function, "output");
  require_extent(results.outputs, 2, Shape::value_dim, function, "output");
  if (log_sum_exps != nullptr) {
    require_extent(*log_sum_exps, 0, rows, function, "log_sum_exps");
    require_extent(*log_sum_exps, 1, heads, function, "log_sum_exps");
    results.log_sum_exps = *log_sum_exps;
  }
  require(communicator.size() == plan.reduction.ranks(), function, "communicator.size()",
          plan.reduction.ranks(), communicator.size());
  if (rows > plan.reduction.queries())
    fail_above(function, "plan.attention.queries()", plan.reduction.queries(), rows);
  tree_attention(space, plan.attention, queries, cache, plan.reduction.outputs(rows),
                 plan.reduction.log_sum_exps(rows), workspace);
  if (rows > 0) reduce_shards(space, communicator, plan.reduction, rows, results);
}

}  // namespace detail

/// Attention of every query of the tree to the keys on its request's path, wherever they lie.
/// Collective: each rank calls it with all queries and its own cache, and gets the whole output.
///
/// \param space         of this rank
/// \param communicator  that the plan was made with
/// \param queries       (tree.queries(), query_heads, head_dim), the same on all ranks
/// \param cache         keys and values of the shard's slots
/// \param output        (tree.queries(), query_heads, value_dim), any strides, float or 16 bits
/// \param workspace     of make_workspace(space, plan.attention)
///
/// The result of tree_attention over the whole tree, up to rounding; the same bits on all ranks. By
/// the algorithms `scatter` and `on_rank_0` a rank gets its heads, or rank 0 all, and nothing else
/// of the output is touched.
/// Does not allocate; waits and fences as reduce_shards does. Errors: those of tree_attention and
/// of the communicator; after one of this rank's alone the others get theirs at the deadline, or
/// when its communicator ends.
template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output>
void distributed_attention(Space const& space, Comm& communicator,
                           DistributedPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Cache const& cache, Output const& output,
                           Workspace<Space> const& workspace) {
  StridedArray<NaturalLogSumExp, 2> const* const no_log_sum_exps = nullptr;
  detail::distributed_attention(space, communicator, plan, queries, cache, output, no_log_sum_exps,
                                workspace);
}

/// The same with log-sum-exps as a second output; see tree_attention.
template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output, class LogSumExps>
void distributed_attention(Space const& space, Comm& communicator,
                           DistributedPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Cache const& cache, Output const& output,
                           LogSumExps const& log_sum_exps, Workspace<Space> const& workspace) {
  static_assert(
      requires { ElementOf<LogSumExps>::base; } && !std::is_const_v<ElementOf<LogSumExps>>,
      "fasttree::distributed_attention: log_sum_exps must hold NaturalLogSumExp or "
      "BinaryLogSumExp (the base is part of the type), not const");
  auto const written = strided<Space, 2>(log_sum_exps);
  detail::distributed_attention(space, communicator, plan, queries, cache, output, &written,
                                workspace);
}

}  // namespace fasttree
