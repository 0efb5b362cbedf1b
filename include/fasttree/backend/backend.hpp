// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a backend is: the kernels of one kind of machine behind one stage. A backend enqueues on the
// given instance, returns at once, does not fence, does not allocate, and computes the same
// bits for the same plan; its launches depend on the plan's memory alone, work counts are read on
// the device.

#include <cstddef>

#include <fasttree/cache/kv_cache.hpp>
#include <fasttree/core/log_sum_exp.hpp>
#include <fasttree/core/strided_array.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/tile_policy.hpp>
#include <fasttree/plan/workspace.hpp>

namespace fasttree {

/// Where final results go: outputs (queries, query_heads, value_dim) and, unless its data is null,
/// log-sum-exps (queries, query_heads).
template <class Output, LogBase Base>
struct Results {
  StridedArray<Output, 3> outputs;
  StridedArray<LogSumExp<Base>, 2> log_sum_exps;

  FASTTREE_FORCEINLINE_FUNCTION void write_log_sum_exp(int query, int head,
                                                       NaturalLogSumExp value) const {
    if (log_sum_exps.data != nullptr) log_sum_exps(query, head) = convert<Base>(value);
  }
};

/// Where partial results go: outputs (partials, query_heads, value_dim), contiguous; and for each
/// query, at its place in the plan's list, and head how many have arrived.
struct PartialArrays {
  float* outputs;
  NaturalLogSumExp* log_sum_exps;
  int* arrivals;
};

/// A backend for heads of `Shape` on `Space`: its tiles, what work costs on the machine that it is
/// meant for, by how much it rounds softmax weights beyond float, the teams that run at once and
/// the scratch of each, and `prepare` for a new workspace, `attend` for the stage of that name.
/// `teams` throws an `Error` on a device that it cannot run on.
template <class Candidate, class Space, class Shape>
concept BackendFor = requires(Space const& space, Shape const& shape,
                              AttentionPlan<Space, Shape, Candidate> const& plan,
                              Workspace<Space> const& workspace) {
  { Candidate::template tiles<Shape>() } -> std::same_as<Tiles>;
  { Candidate::teams(space) } -> std::same_as<int>;
  { Candidate::costs } -> std::convertible_to<MachineCosts>;
  { Candidate::template weight_roundoff<Shape> } -> std::convertible_to<double>;
  { Candidate::scratch_bytes(shape) } -> std::same_as<std::size_t>;
  Candidate::prepare(space, plan, workspace);
};

/// The layout of workspaces on `space` for plans like this one.
template <class Space, class Shape, class Backend>
WorkspaceLayout workspace_layout(Space const& space,
                                 AttentionPlan<Space, Shape, Backend> const& plan) {
  return WorkspaceLayout(plan.shape().query_heads, Shape::value_dim, Backend::teams(space),
                         Backend::scratch_bytes(plan.shape()));
}

/// The part of a workspace that holds partial results.
template <class Space, class Shape, class Backend>
PartialArrays partial_arrays(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                             Workspace<Space> const& workspace) {
  WorkspaceLayout const at = workspace_layout(space, plan);
  std::byte* const data = workspace.data();
  std::size_t const bytes = workspace.bytes();
  return {reinterpret_cast<float*>(data + at.outputs()),
          reinterpret_cast<NaturalLogSumExp*>(data + at.log_sum_exps(bytes)),
          reinterpret_cast<int*>(data + at.arrivals(bytes))};
}

}  // namespace fasttree
