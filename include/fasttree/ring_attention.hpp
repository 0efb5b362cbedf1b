// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention over ranks by rings, to compare distributed_attention with: a ring of K,V, in which the
// shards of keys and values go around and each rank attends to all of them, one after the other
// (pass-KV; Ring Attention, arXiv 2310.01889), and a ring of queries, in which these go around and
// each rank attends to its own keys (pass-Q; arXiv 2411.01783).
//     auto plan      = fasttree::make_pass_kv_plan(space, communicator, tree, policy, shape);
//     auto workspace = fasttree::make_workspace(space, plan);
//     fasttree::pass_kv_attention(space, communicator, plan, queries, cache, output, workspace);

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fasttree/core/partials.hpp>
#include <fasttree/distributed_attention.hpp>
#include <fasttree/stages/pass_kv.hpp>
#include <fasttree/stages/pass_q.hpp>

namespace fasttree {

/// A rank's plans of attention over the shards of all ranks, as it has them at hand, and the memory
/// of a ring of K,V: that of ShardAtHand, and two partial results of each query.
template <class Space, class Shape, class Backend, Communicator Comm>
struct PassKvPlan {
  std::vector<AttentionPlan<Space, Shape, Backend>> attention;  ///< by rank
  ShardAtHand<Space, Comm, Shape> shard;
  Partials<Space> merged, partial;
  std::int64_t slots;  ///< that the rank's cache must have

  int ranks() const { return static_cast<int>(attention.size()); }
  int queries() const { return attention[0].queries(); }
};

/// Plans a ring of K,V. Collective.
///
/// \param tree           the whole one, the same on all ranks
/// \param shards         how keys are dealt out, by which each rank knows all shards
/// \param message_bytes  most that are sent at once, a multiple of 64; a ring has (ranks - 1) *
///                       ceil(bytes of the largest shard / message_bytes) rounds
/// \param policy         of the planner
///
/// Errors: those of shard_tree, make_plan and ShardAtHand. Time: that of a plan for each rank.
template <class Space, Communicator Comm, ShardPolicy Shards, Element E, int HeadDim, int ValueDim,
          PlannerPolicy Policy = DefaultPlanner>
auto make_pass_kv_plan(Space const& space, Comm& communicator, PrefixTree const& tree,
                       Shards const& shards, AttentionShape<E, HeadDim, ValueDim> const& shape,
                       std::int64_t message_bytes = std::int64_t{4} << 20,
                       Policy const& policy = Policy{
                           DefaultBackend<Space, AttentionShape<E, HeadDim, ValueDim>>::costs}) {
  using Shape = AttentionShape<E, HeadDim, ValueDim>;
  using Backend = DefaultBackend<Space, Shape>;
  std::vector<AttentionPlan<Space, Shape, Backend>> plans;
  std::vector<std::int64_t> tokens;
  PackedNodes own;
  std::int64_t slots = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    PrefixTree const shard = shard_tree(tree, shards, {rank, communicator.size()});
    std::vector<int> parents, lengths;
    std::vector<Request> requests;
    for (int node = 0; node < shard.nodes(); ++node) {
      parents.push_back(shard.parent(node));
      lengths.push_back(shard.length(node));
    }
    for (int i = 0; i < shard.requests(); ++i) requests.push_back(shard.request(i));
    PrefixTree const packed(parents, lengths, requests);  // its slots follow each other
    if (rank == communicator.rank()) {
      slots = shard.slots();
      for (int node = 0; node < shard.nodes(); ++node) {
        own.cache_begins.push_back(shard.slot_begin(node));
        own.packed_begins.push_back(packed.slot_begin(node));
      }
    }
    tokens.push_back(packed.slots());
    plans.push_back(make_plan(space, packed, shape, policy));
  }
  auto const partials = [&] {
    return make_partials(space, tree.queries(), shape.query_heads, ValueDim);
  };
  return PassKvPlan<Space, Shape, Backend, Comm>{
      std::move(plans),
      ShardAtHand<Space, Comm, Shape>(space, communicator, shape, tokens, own, message_bytes),
      partials(), partials(), slots};
}

/// Allocates a workspace for all plans of a ring of K,V.
template <class Space, class Shape, class Backend, Communicator Comm>
Workspace<Space> make_workspace(Space const& space,
                                PassKvPlan<Space, Shape, Backend, Comm> const& plan) {
  return make_workspace(space, *std::ranges::max_element(plan.attention, {}, [&](auto const& one) {
                          return workspace_bytes(space, one);
                        }));
}

/// Attention of every query of the tree to the keys on its request's path, by a ring of K,V.
/// Collective: each rank calls it with all queries and its own cache, attends to the keys of all
/// ranks, and gets the whole output.
///
/// \param cache      keys and values of the shard's slots, those of shard_tree; not changed
/// \param output     (tree.queries(), query_heads, value_dim), any strides, float or 16 bits
/// \param workspace  of make_workspace(space, plan)
///
/// The result of tree_attention over the whole tree, up to rounding; a rank merges from its own
/// shard on, so ranks agree up to rounding too. Does not allocate. Fences before it sends; the
/// communicator's deadline has to leave every rank the time of attention to a shard. Errors: as
/// distributed_attention.
template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output>
void pass_kv_attention(Space const& space, Comm& communicator,
                       PassKvPlan<Space, Shape, Backend, Comm>& plan, Queries const& queries,
                       Cache const& cache, Output const& output,
                       Workspace<Space> const& workspace) {
  constexpr char const* function = "pass_kv_attention";
  static_assert(std::is_same_v<typename Cache::element_type, typename Shape::element_type>,
                "fasttree::pass_kv_attention: the cache must have the plan's element type");
  static_assert(Element<ElementOf<Output>>,
                "fasttree::pass_kv_attention: output must have float, half or bfloat16 elements "
                "that are not const");
  auto const written = strided<Space, 3>(output);
  int const ranks = plan.ranks(), rank = communicator.rank();
  Shape const& shape = plan.attention[0].shape();
  require(communicator.size() == ranks, function, "communicator.size()", ranks,
          communicator.size());
  require(cache.kv_heads() == shape.kv_heads, function, "cache.kv_heads()", shape.kv_heads,
          cache.kv_heads());
  require(cache.head_dim() == Shape::head_dim, function, "cache.head_dim()", Shape::head_dim,
          cache.head_dim());
  require(cache.value_dim() == Shape::value_dim, function, "cache.value_dim()", Shape::value_dim,
          cache.value_dim());
  if (cache.slots() < plan.slots)
    fail(function, "cache.slots()", "at least " + std::to_string(plan.slots), cache.slots());
  require_extent(written, 0, plan.queries(), function, "output");
  require_extent(written, 1, shape.query_heads, function, "output");
  require_extent(written, 2, Shape::value_dim, function, "output");
  if (plan.queries() == 0) return;
  plan.shard.pack(space, communicator, cache);
  auto const attend = [&](int i) {
    auto const& part = i == 0 ? plan.merged : plan.partial;
    tree_attention(space, plan.attention[(rank + ranks - i) % ranks], queries, plan.shard.cache(),
                   part.outputs, part.log_sum_exps, workspace);
    if (i > 0) merge(space, plan.merged, plan.partial);
  };
  for (int i = 0; i < ranks - 1; ++i) plan.shard.pass(space, communicator, i, [&] { attend(i); });
  attend(ranks - 1);
  write_outputs(space, plan.merged, written);
}

/// A rank's plan of attention over its shard, and the memory of a ring of queries.
template <class Space, class Shape, class Backend, Communicator Comm>
struct PassQPlan {
  GatheredQueries<Space, Comm, Shape> queries;
  DistributedPlan<Space, Shape, Backend, Comm> distributed;
};

/// Plans a ring of queries. Collective. As make_distributed_plan.
template <class Space, Communicator Comm, Element E, int HeadDim, int ValueDim,
          PlannerPolicy Policy = DefaultPlanner>
auto make_pass_q_plan(Space const& space, Comm& communicator, PrefixTree const& shard,
                      AttentionShape<E, HeadDim, ValueDim> const& shape,
                      Policy const& policy = Policy{
                          DefaultBackend<Space, AttentionShape<E, HeadDim, ValueDim>>::costs}) {
  using Shape = AttentionShape<E, HeadDim, ValueDim>;
  validate("make_pass_q_plan", shape);
  GatheredQueries<Space, Comm, Shape> queries(space, communicator, shape, shard.queries());
  return PassQPlan<Space, Shape, DefaultBackend<Space, Shape>, Comm>{
      std::move(queries), make_distributed_plan(space, communicator, shard, shape,
                                                ReductionAlgorithm::scatter, policy)};
}

/// Attention by a ring of queries. Collective: a rank begins with the queries of its heads, from
/// query_heads * rank / ranks on, and gets the outputs of these. Once it has all queries it attends
/// to its own keys, those of a shared node once for all; then partial results go to whose heads
/// they are, and merge there.
///
/// \param queries    (tree.queries(), query_heads, head_dim); no others than the rank's are read
/// \param output     (tree.queries(), query_heads, value_dim); no others than the rank's are written
/// \param workspace  of make_workspace(space, plan.distributed.attention)
///
/// Does not allocate. Waits, fences and errors: those of distributed_attention.
template <class Space, class Shape, class Backend, Communicator Comm, KVCache Cache, class Queries,
          class Output>
void pass_q_attention(Space const& space, Comm& communicator,
                      PassQPlan<Space, Shape, Backend, Comm>& plan, Queries const& queries,
                      Cache const& cache, Output const& output, Workspace<Space> const& workspace) {
  constexpr char const* function = "pass_q_attention";
  static_assert(
      std::is_same_v<std::remove_const_t<ElementOf<Queries>>, typename Shape::element_type>,
      "fasttree::pass_q_attention: queries must have the plan's element type");
  auto const own = as_const(strided<Space, 3>(queries));
  auto const& attention = plan.distributed.attention;
  require(communicator.size() == plan.distributed.reduction.ranks(), function,
          "communicator.size()", plan.distributed.reduction.ranks(), communicator.size());
  require_extent(own, 0, attention.queries(), function, "queries");
  require_extent(own, 1, attention.shape().query_heads, function, "queries");
  require_extent(own, 2, Shape::head_dim, function, "queries");
  if (attention.queries() > plan.queries.queries())
    fail_above(function, "plan.distributed.attention.queries()", plan.queries.queries(),
               attention.queries());
  if (attention.queries() == 0) return;
  auto const all = plan.queries.gather(space, communicator, own);
  distributed_attention(space, communicator, plan.distributed, all, cache, output, workspace);
}

}  // namespace fasttree
