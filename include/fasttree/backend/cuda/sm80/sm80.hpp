// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backend of NVIDIA GPUs since Ampere (A100, RTX 4090; newer ones run it as well): mma.sync and
// cp.async, on half and bfloat16, head_dim and value_dim both 64 or both 128. Other heads take the
// portable backend: see select.hpp.

#include <algorithm>
#include <cstddef>
#include <string>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/launch.hpp>
#include <fasttree/backend/cuda/merge_partials.hpp>
#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/backend/cuda/sm80/partial_attention.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// Empties the queue of a workspace.
struct EmptyQueue {
  static constexpr int threads = 1;
  static constexpr int blocks_per_processor = 1;

  WorkQueue* queue;

  __device__ void operator()() const { *queue = WorkQueue{}; }
};

/// Errors of `teams`: `Error` on a device that has not what the kernels need.
struct Backend {
  template <class Shape>
  static consteval Tiles tiles() {
    static_assert(supports<Shape>);
    return {.wide = wide_tile, .narrow = narrow_tile};
  }

  static constexpr MachineCosts costs = h200_costs;

  /// Weights are rounded to the elements that they multiply.
  template <class Shape>
  static constexpr double weight_roundoff = unit_roundoff<typename Shape::element_type>;

  /// Blocks that run at once.
  static int teams(Kokkos::Cuda const& space) {
    auto const& device = space.cuda_device_prop();
    constexpr char const* function = "sm80::Backend";
    constexpr std::size_t reserved = 1024;  // of each block, by CUDA
    if (device.major < 8)
      fail(function, "the device", "compute capability 8.0 or more",
           std::to_string(device.major) + "." + std::to_string(device.minor));
    require(device.sharedMemPerBlockOptin >= largest_memory, function,
            "shared memory of a block on the device", largest_memory,
            device.sharedMemPerBlockOptin);
    auto const fit = device.sharedMemPerMultiprocessor / (largest_memory + reserved);
    return device.multiProcessorCount * static_cast<int>(std::clamp<std::size_t>(fit, 1, 2));
  }

  /// Scratch is in shared memory.
  template <class Shape>
  static std::size_t scratch_bytes(Shape const&) {
    return 0;
  }

  static void empty_queue(Kokkos::Cuda const& space, Workspace<Kokkos::Cuda> const& workspace) {
    launch(space, "fasttree::make_workspace::empty_queue", EmptyQueue{workspace.queue()}, 1, 0);
  }

  template <class Shape, KVCache Cache, class Output, LogBase Base>
  static void partial_attention(Kokkos::Cuda const& space,
                                AttentionPlan<Kokkos::Cuda, Shape, Backend> const& plan,
                                StridedArray<typename Shape::element_type const, 3> queries,
                                Cache const& cache, Results<Output, Base> const& results,
                                Workspace<Kokkos::Cuda> const& workspace) {
    static_assert(sizeof(SharedMemory<Shape>) <= largest_memory);
    launch(
        space, "fasttree::tree_attention::partial_attention",
        PartialAttention<Shape, Cache, Output, Base>{plan.shape(),
                                                     plan.arrays(),
                                                     workspace.queue(),
                                                     queries,
                                                     cache,
                                                     {results, partials(space, plan, workspace)}},
        teams(space), sizeof(SharedMemory<Shape>));
  }

  template <class Shape, class Output, LogBase Base>
  static void merge_partials(Kokkos::Cuda const& space,
                             AttentionPlan<Kokkos::Cuda, Shape, Backend> const& plan,
                             Results<Output, Base> const& results,
                             Workspace<Kokkos::Cuda> const& workspace) {
    using Kernel = MergePartials<Shape, Output, Base>;
    launch(space, "fasttree::tree_attention::merge_partials",
           Kernel{plan.shape(), plan.arrays(), partials(space, plan, workspace), results},
           space.cuda_device_prop().multiProcessorCount * Kernel::blocks_per_processor, 0);
  }

 private:
  /// Two such blocks fit into the 164 KB of an A100's multiprocessor.
  static constexpr std::size_t largest_memory = 80 * 1024;

  template <class Shape>
  static PartialArrays partials(Kokkos::Cuda const& space,
                                AttentionPlan<Kokkos::Cuda, Shape, Backend> const& plan,
                                Workspace<Kokkos::Cuda> const& workspace) {
    WorkspaceLayout const at = workspace_layout(space, plan);
    return {
        reinterpret_cast<float*>(workspace.data() + at.outputs()),
        reinterpret_cast<NaturalLogSumExp*>(workspace.data() + at.log_sum_exps(workspace.bytes()))};
  }
};

}  // namespace fasttree::cuda::sm80
