// SPDX-License-Identifier: Apache-2.0
#pragma once
// The first verb: from a tree to a plan. Host arrays in, device plan out; nothing is read back and
// nothing is waited for. A plan serves every layer, and every step until the requests change: then
// plan anew, or see update_plan.hpp.

#include <utility>

#include <fasttree/backend/select.hpp>
#include <fasttree/core/attention_shape.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/workspace.hpp>
#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// The planner that is used where none is named, with the costs of the backend.
using DefaultPlanner = MinimalTraffic<MachineCosts>;

namespace detail {

/// What `plan` is made for, on `space`.
template <class Space, class Shape, class Backend>
PlanTarget plan_target(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan) {
  constexpr int row_bytes =
      sizeof(typename Shape::element_type) * (Shape::head_dim + Shape::value_dim);
  return {.tiles = Backend::template tiles<Shape>(),
          .group = plan.shape().group(),
          .kv_heads = plan.shape().kv_heads,
          .slots = Backend::teams(space),
          .key_bytes = row_bytes,
          .row_bytes = row_bytes,
          .partial_bytes = sizeof(float) * (Shape::value_dim + 1),
          .flops = 2 * (Shape::head_dim + Shape::value_dim)};
}

}  // namespace detail

/// Plans `tree` anew into `plan`: its shape stays, its memory is reused and grows only where
/// needed.
///
/// Work that was enqueued on `space` before sees the old plan, work enqueued after it the new one;
/// on a host space nothing may be running that uses the plan. Errors: those of build_plan; the plan
/// stays as it was, but for one that outgrows its limits, or key ranges of a policy that do not fit
/// the tree: these leave it empty. Time: that of the policy; linear in nodes + requests + work
/// items.
template <class Space, class Shape, class Backend, PlannerPolicy Policy = DefaultPlanner>
void make_plan_into(Space const& space, PrefixTree const& tree,
                    AttentionPlan<Space, Shape, Backend>& plan,
                    Policy const& policy = Policy{Backend::costs}) {
  PlanTarget const target = detail::plan_target(space, plan);
  plan.rewrite(space, [&](Grouping& grouping, PlanTables& tables) {
    build_plan(tree, target, policy, grouping, tables);
  });
}

/// A plan of attention over `tree`.
///
/// \param space   the execution space instance on which the plan is used
/// \param tree    need not outlive the call
/// \param shape   heads; see AttentionShape
/// \param policy  how keys are shared: MinimalTraffic, GreedyEdges, ShareEveryNode, NoSharing, or a
///                type of your own
///
/// Errors: `Error` where query_heads is no multiple of kv_heads. FastTree section 4.2.
template <class Space, Element E, int HeadDim, int ValueDim, PlannerPolicy Policy = DefaultPlanner>
auto make_plan(Space const& space, PrefixTree const& tree,
               AttentionShape<E, HeadDim, ValueDim> const& shape,
               Policy const& policy = Policy{
                   DefaultBackend<Space, AttentionShape<E, HeadDim, ValueDim>>::costs}) {
  validate("make_plan", shape);
  using Shape = AttentionShape<E, HeadDim, ValueDim>;
  using Backend = DefaultBackend<Space, Shape>;
  static_assert(BackendFor<Backend, Space, Shape>);
  AttentionPlan<Space, Shape, Backend> plan(shape);
  make_plan_into(space, tree, plan, policy);
  return plan;
}

/// Bytes of memory that `tree_attention` needs for this plan on `space`; with `more_partials`, also
/// after updates that add so many partial results: add_request says how many it takes.
template <class Space, class Shape, class Backend>
std::size_t workspace_bytes(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                            std::size_t more_partials = 0) {
  return workspace_layout(space, plan).bytes(plan.tables().partials + more_partials);
}

/// A workspace in memory of the caller's: for several plans of the same heads, make it for the
/// largest.
/// Errors: `Error` where a plan's `workspace_bytes` do not fit, or memory is not aligned to 64
/// bytes.
template <class Space, class Shape, class Backend>
Workspace<Space> make_workspace(Space const& space,
                                AttentionPlan<Space, Shape, Backend> const& plan,
                                typename Workspace<Space>::Memory memory) {
  require(memory.size() >= workspace_bytes(space, plan), "make_workspace", "memory.size()",
          workspace_bytes(space, plan), memory.size());
  Workspace<Space> workspace(std::move(memory), workspace_layout(space, plan));
  Backend::prepare(space, plan, workspace);
  return workspace;
}

/// Allocates a workspace for `plan`, and for `more_partials` that updates may add.
template <class Space, class Shape, class Backend>
Workspace<Space> make_workspace(Space const& space,
                                AttentionPlan<Space, Shape, Backend> const& plan,
                                std::size_t more_partials = 0) {
  return make_workspace(
      space, plan,
      allocate(space, "fasttree::workspace", workspace_bytes(space, plan, more_partials)));
}

}  // namespace fasttree
