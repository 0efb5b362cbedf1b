// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workspaces in which nothing can be read that was not written.

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/make_plan.hpp>
#include <fasttree/tree_attention.hpp>
#include "arrays.hpp"

namespace fasttree::bench {

/// Memory that holds no number before it is written.
template <class Plan>
Workspace<Space> poisoned_workspace(Space const& space, Plan const& plan) {
  Workspace<Space>::Memory const memory(
      Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "bench::workspace"),
      workspace_bytes(space, plan));
  cuda::check(cudaMemsetAsync(memory.data(), 0xff, memory.size(), space.cuda_stream()),
              "bench::poisoned_workspace", "cudaMemsetAsync");
  return make_workspace(space, plan, memory);
}

}  // namespace fasttree::bench
