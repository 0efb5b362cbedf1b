// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verb for several ranks, each of which has some of the keys of every node: each attends to its
// own, by the plan and the kernels of one rank, and partial results merge over the ranks.
//     auto shard     = fasttree::shard_tree(tree, policy, {communicator.rank(), communicator.size()});
//     auto plan      = fasttree::make_distributed_plan(space, communicator, shard, shape);
//     auto workspace = fasttree::make_workspace(space, plan.attention);
//     fasttree::distributed_attention(space, communicator, plan, queries, cache, output, workspace);
// Where results must not depend on the number of ranks, a rank has several shards: fixed_shards.
// Tree Attention (arXiv 2408.04093), algorithm 3.

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <fasttree/comm/explain_reduction.hpp>
#include <fasttree/comm/self_communicator.hpp>
#include <fasttree/stages/reduce_shards.hpp>
#include <fasttree/tree/fixed_shards.hpp>
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

/// The same with the algorithm that is cheapest on the communicator's links, of those that are as
/// reproducible; explain_reduction(topology_of(communicator), size) has all prices.
template <class Space, Communicator Comm, Element E, int HeadDim, int ValueDim>
auto make_distributed_plan(Space const& space, Comm& communicator, PrefixTree const& shard,
                           AttentionShape<E, HeadDim, ValueDim> const& shape,
                           Reproducibility reproducibility = Reproducibility::per_algorithm) {
  validate("make_distributed_plan", shape);
  ReductionSize const size{std::int64_t{1} * shard.queries() * shape.query_heads, ValueDim};
  auto const algorithm = cheapest(topology_of(communicator), size, reproducibility);
  return make_distributed_plan(space, communicator, shard, shape,
                               {algorithm, Payload::fp32, reproducibility});
}

/// A rank's plans of attention over its shards, and of what follows.
template <class Space, class Shape, class Backend, Communicator Comm>
struct FixedShardsPlan {
  std::vector<AttentionPlan<Space, Shape, Backend>> attention;
  ShardReduction<Space, Comm> reduction;
};

/// A plan of attention over shards of which each rank has several, and whose number does not depend
/// on that of ranks. Collective.
///
/// \param shards  this rank's, by fixed_shards, of a tree and a number that are the same on all ranks
/// \param method  merges by the tree over ranks, and sends floats
/// \param policy  of the planner, the same on all ranks
///
/// Of ranks that plan and compute alike (machines and numbers of threads of one kind, backends and
/// caches the same) results have the same bits, whatever the number of ranks, the algorithm and the
/// topology. Errors: those of make_plan and plan_reduction.
template <class Space, Communicator Comm, Element E, int HeadDim, int ValueDim,
          PlannerPolicy Policy = DefaultPlanner>
auto make_distributed_plan(
    Space const& space, Comm& communicator, FixedShards const& shards,
    AttentionShape<E, HeadDim, ValueDim> const& shape,
    ReductionMethod method = ReductionAlgorithm::one_shot,
    Policy const& policy = Policy{
        DefaultBackend<Space, AttentionShape<E, HeadDim, ValueDim>>::costs}) {
  using Shape = AttentionShape<E, HeadDim, ValueDim>;
  ShardOf const me{communicator.rank(), communicator.size()};
  require(shards.range == shards_of_rank(shards.range.count, me) &&
              std::ssize(shards.trees) == shards.range.size(),
          "make_distributed_plan", "shards", "those of this rank", "others");
  std::vector<AttentionPlan<Space, Shape, DefaultBackend<Space, Shape>>> attention;
  for (PrefixTree const& tree : shards.trees)
    attention.push_back(make_plan(space, tree, shape, policy));
  method.reproducibility = Reproducibility::across_algorithms;
  return FixedShardsPlan<Space, Shape, DefaultBackend<Space, Shape>, Comm>{
      std::move(attention),
      plan_reduction(space, communicator, shards.trees[0].queries(), shape.query_heads, ValueDim,
                     method, {shards.range.size(), shards.range.count})};
}

/// A workspace for all plans of a rank's shards.
template <class Space, class Shape, class Backend, Communicator Comm>
Workspace<Space> make_workspace(Space const& space,
                                FixedShardsPlan<Space, Shape, Backend, Comm> const& plan) {
  return make_workspace(space,
                        *std::ranges::max_element(plan.attention, {}, [&](auto const& of_shard) {
                          return workspace_bytes(space, of_shard);
                        }));
}

namespace detail {

/// `cache_of(i)`: that of the rank's shard i, whose plan is plans[i].
template <class Space, class Shape, class Backend, Communicator Comm, class CacheOf, class Queries,
          class Output, LogBase Base>
void distributed_attention(Space const& space, Comm& communicator,
                           std::span<AttentionPlan<Space, Shape, Backend> const> plans,
                           ShardReduction<Space, Comm>& reduction, Queries const& queries,
                           CacheOf const& cache_of, Output const& output,
                           StridedArray<LogSumExp<Base>, 2> const* log_sum_exps,
                           Workspace<Space> const& workspace) {
  constexpr char const* function = "distributed_attention";
  using Written = ElementOf<Output>;
  static_assert(
      Element<Written>,
      "fasttree::distributed_attention: output must have float, half or bfloat16 elements "
      "that are not const");
  int const rows = plans[0].queries(), heads = plans[0].shape().query_heads;
  Results<Written, Base> results{strided<Space, 3>(output), {}};
  require_extent(results.outputs, 0, rows, function, "output");
  require_extent(results.outputs, 1, heads, function, "output");
  require_extent(results.outputs, 2, Shape::value_dim, function, "output");
  if (log_sum_exps != nullptr) {
    require_extent(*log_sum_exps, 0, rows, function, "log_sum_exps");
    require_extent(*log_sum_exps, 1, heads, function, "log_sum_exps");
    results.log_sum_exps = *log_sum_exps;
  }
  require(communicator.size() == reduction.ranks(), function, "communicator.size()",
          reduction.ranks(), communicator.size());
  if (rows > reduction.queries())
    fail_above(function, "plan.attention.queries()", reduction.queries(), rows);
  for (int shard = 0; shard < reduction.shards(); ++shard)
    tree_attention(space, plans[shard], queries, cache_of(shard), reduction.outputs(rows, shard),
                   reduction.log_sum_exps(rows, shard), workspace);
  if (rows > 0) reduce_shards(space, communicator, reduction, rows, results);
}

/// Without log-sum-exps: what `log_sum_exps` of the above is then.
inline constexpr StridedArray<NaturalLogSumExp, 2> const* no_log_sum_exps = nullptr;

template <class Space, class LogSumExps>
auto strided_log_sum_exps(LogSumExps const& log_sum_exps) {
  static_assert(
      requires { ElementOf<LogSumExps>::base; } && !std::is_const_v<ElementOf<LogSumExps>>,
      "fasttree::distributed_attention: log_sum_exps must hold NaturalLogSumExp or "
      "BinaryLogSumExp (the base is part of the type), not const");
  return strided<Space, 2>(log_sum_exps);
}

template <class Space, class Shape, class Backend, Communicator Comm>
std::span<AttentionPlan<Space, Shape, Backend> const> plans_of(
    DistributedPlan<Space, Shape, Backend, Comm> const& plan) {
  return {&plan.attention, 1};
}

template <class Caches>
void require_caches(Caches const& caches, std::size_t shards) {
  require(std::ranges::size(caches) == shards, "distributed_attention", "caches.size()", shards,
          std::ranges::size(caches));
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
  detail::distributed_attention(
      space, communicator, detail::plans_of(plan), plan.reduction, queries,
      [&](int) -> Cache const& { return cache; }, output, detail::no_log_sum_exps, workspace);
}

/// The same with log-sum-exps as a second output; see tree_attention.
template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output, class LogSumExps>
void distributed_attention(Space const& space, Comm& communicator,
                           DistributedPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Cache const& cache, Output const& output,
                           LogSumExps const& log_sum_exps, Workspace<Space> const& workspace) {
  auto const written = detail::strided_log_sum_exps<Space>(log_sum_exps);
  detail::distributed_attention(
      space, communicator, detail::plans_of(plan), plan.reduction, queries,
      [&](int) -> Cache const& { return cache; }, output, &written, workspace);
}

/// The same over shards of which a rank has several.
///
/// \param caches     a range of as many, of one type: caches[i] has the slots of the i-th of them
/// \param workspace  of make_workspace(space, plan)
template <class Space, class Shape, class Backend, Communicator Comm, class Queries, class Caches,
          class Output>
void distributed_attention(Space const& space, Comm& communicator,
                           FixedShardsPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Caches const& caches, Output const& output,
                           Workspace<Space> const& workspace) {
  detail::require_caches(caches, plan.attention.size());
  detail::distributed_attention(
      space, communicator, std::span(std::as_const(plan.attention)), plan.reduction, queries,
      [&](int shard) -> decltype(auto) { return caches[shard]; }, output, detail::no_log_sum_exps,
      workspace);
}

/// The same with log-sum-exps.
template <class Space, class Shape, class Backend, Communicator Comm, class Queries, class Caches,
          class Output, class LogSumExps>
void distributed_attention(Space const& space, Comm& communicator,
                           FixedShardsPlan<Space, Shape, Backend, Comm>& plan,
                           Queries const& queries, Caches const& caches, Output const& output,
                           LogSumExps const& log_sum_exps, Workspace<Space> const& workspace) {
  detail::require_caches(caches, plan.attention.size());
  auto const written = detail::strided_log_sum_exps<Space>(log_sum_exps);
  detail::distributed_attention(
      space, communicator, std::span(std::as_const(plan.attention)), plan.reduction, queries,
      [&](int shard) -> decltype(auto) { return caches[shard]; }, output, &written, workspace);
}

}  // namespace fasttree
