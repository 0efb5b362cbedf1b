// SPDX-License-Identifier: Apache-2.0
#pragma once
// The second verb: decode attention of all requests of a tree, by its plan. With make_plan.hpp,
// which it includes, and a cache, all that a program needs:
//     auto plan      = fasttree::make_plan(space, tree, shape);
//     auto workspace = fasttree::make_workspace(space, plan);
//     fasttree::tree_attention(space, plan, queries, cache, output, workspace);

#include <fasttree/cache/contiguous_cache.hpp>
#include <fasttree/cache/indexed_cache.hpp>
#include <fasttree/cache/paged_cache.hpp>
#include <fasttree/make_plan.hpp>
#include <fasttree/plan/explain.hpp>
#include <fasttree/stages/attend.hpp>

namespace fasttree {

namespace detail {

template <class Space, class Shape, class Backend, KVCache Cache, class Queries, class Output,
          LogBase Base>
void tree_attention(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                    Queries const& queries, Cache const& cache, Output const& output,
                    StridedArray<LogSumExp<Base>, 2> const* log_sum_exps,
                    Workspace<Space> const& workspace) {
  constexpr char const* function = "tree_attention";
  using Stored = typename Shape::element_type;
  using Written = ElementOf<Output>;
  static_assert(std::is_same_v<std::remove_const_t<ElementOf<Queries>>, Stored>,
                "fasttree::tree_attention: queries must have the plan's element type");
  static_assert(std::is_same_v<typename Cache::element_type, Stored>,
                "fasttree::tree_attention: the cache must have the plan's element type");
  static_assert(Element<Written>,
                "fasttree::tree_attention: output must have float, half or bfloat16 elements that "
                "are not const");
  auto const asked = as_const(strided<Space, 3>(queries));
  Results<Written, Base> results{strided<Space, 3>(output), {}};
  require_extent(asked, 0, plan.queries(), function, "queries");
  require_extent(asked, 1, plan.shape().query_heads, function, "queries");
  require_extent(asked, 2, Shape::head_dim, function, "queries");
  require(cache.kv_heads() == plan.shape().kv_heads, function, "cache.kv_heads()",
          plan.shape().kv_heads, cache.kv_heads());
  require(cache.head_dim() == Shape::head_dim, function, "cache.head_dim()", Shape::head_dim,
          cache.head_dim());
  require(cache.value_dim() == Shape::value_dim, function, "cache.value_dim()", Shape::value_dim,
          cache.value_dim());
  if (cache.slots() < plan.tables().slots)
    fail(function, "cache.slots()", "at least " + std::to_string(plan.tables().slots),
         cache.slots());
  require_extent(results.outputs, 0, plan.queries(), function, "output");
  require_extent(results.outputs, 1, plan.shape().query_heads, function, "output");
  require_extent(results.outputs, 2, Shape::value_dim, function, "output");
  if (log_sum_exps != nullptr) {
    require_extent(*log_sum_exps, 0, plan.queries(), function, "log_sum_exps");
    require_extent(*log_sum_exps, 1, plan.shape().query_heads, function, "log_sum_exps");
    results.log_sum_exps = *log_sum_exps;
  }
  if (workspace.bytes() < workspace_bytes(space, plan))
    fail(function, "workspace.bytes()", "at least " + std::to_string(workspace_bytes(space, plan)),
         workspace.bytes());
  require(workspace.layout() == workspace_layout(space, plan), function, "workspace",
          "one that was made for a plan of these heads, on this space", "another");
  if (plan.queries() == 0) return;
  attend(space, plan, asked, cache, results, workspace);
}

}  // namespace detail

/// Attention of every query of the plan's tree to the keys on its request's path.
///
/// \param space      the instance that the plan was made for; work is enqueued on it
/// \param queries    (tree.queries(), query_heads, head_dim), request after request, any strides
/// \param cache      keys and values of the tree's slots
/// \param output     (tree.queries(), query_heads, value_dim), any strides, float or 16 bits
/// \param workspace  of make_workspace; calls that use the same one must not overlap
///
/// out = sum_j softmax_j(softmax_scale q . k_j) v_j, accumulated in float. A query without keys
/// gives 0. Enqueues and returns: does not fence, does not allocate; deterministic for a plan.
/// Errors: `Error` where extents, heads, slots or the workspace do not fit the plan, before
/// anything is enqueued. Time: see explain(plan). FastTree section 4.
template <class Space, class Shape, class Backend, KVCache Cache, class Queries, class Output>
void tree_attention(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                    Queries const& queries, Cache const& cache, Output const& output,
                    Workspace<Space> const& workspace) {
  StridedArray<NaturalLogSumExp, 2> const* const no_log_sum_exps = nullptr;
  detail::tree_attention(space, plan, queries, cache, output, no_log_sum_exps, workspace);
}

/// The same with log-sum-exps as a second output: (tree.queries(), query_heads) of LogSumExp in the
/// base that its type names; -inf for a query without keys.
template <class Space, class Shape, class Backend, KVCache Cache, class Queries, class Output,
          class LogSumExps>
void tree_attention(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                    Queries const& queries, Cache const& cache, Output const& output,
                    LogSumExps const& log_sum_exps, Workspace<Space> const& workspace) {
  static_assert(
      requires { ElementOf<LogSumExps>::base; } && !std::is_const_v<ElementOf<LogSumExps>>,
      "fasttree::tree_attention: log_sum_exps must hold NaturalLogSumExp or BinaryLogSumExp (the "
      "base is part of the type), not const");
  auto const written = strided<Space, 2>(log_sum_exps);
  detail::tree_attention(space, plan, queries, cache, output, &written, workspace);
}

}  // namespace fasttree
