// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backend of NVIDIA GPUs since Ampere (A100, RTX 4090; newer ones run it as well): mma.sync and
// cp.async, on half and bfloat16, head_dim and value_dim both 64 or both 128. In code for sm_90a
// the wide tile is multiplied by wgmma. Other heads take the portable backend: see select.hpp.

#include <algorithm>
#include <cstddef>
#include <string>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/launch.hpp>
#include <fasttree/backend/cuda/sm80/attend.hpp>
#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// With blocks of so many multiplying warps: eight, one block to a multiprocessor, where it has the
/// shared memory of Hopper's; else four. Errors of `teams`: `Error` on a device that has not what
/// the kernels need.
template <int Warps>
struct Backend {
  template <class Shape>
  static consteval Tiles tiles() {
    static_assert(supports<Shape>);
    return {.wide = wide_tile<Warps>, .narrow = narrow_tile<Warps>};
  }

  static constexpr MachineCosts costs = h200_costs<Warps>;

  /// Weights are rounded to the elements that they multiply.
  template <class Shape>
  static constexpr double weight_roundoff = unit_roundoff<typename Shape::element_type>;

  /// Blocks that run at once.
  static int teams(Kokkos::Cuda const& space) {
    auto const& device = space.cuda_device_prop();
    constexpr char const* function = "sm80::Backend";
    if (device.major < 8)
      fail(function, "the device", "compute capability 8.0 or more",
           std::to_string(device.major) + "." + std::to_string(device.minor));
    require(device.sharedMemPerBlockOptin >= least_memory, function,
            "shared memory of a block on the device", least_memory, device.sharedMemPerBlockOptin);
    return device.multiProcessorCount * blocks(device);
  }

  /// Scratch is in shared memory.
  template <class Shape>
  static std::size_t scratch_bytes(Shape const&) {
    return 0;
  }

  /// Enqueues what makes a new workspace ready: its queue is empty, nothing has arrived.
  template <class Shape>
  static void prepare(Kokkos::Cuda const& space,
                      AttentionPlan<Kokkos::Cuda, Shape, Backend> const& plan,
                      Workspace<Kokkos::Cuda> const& workspace) {
    clear(space, workspace.queue(), sizeof(WorkQueue));
    clear(space, partial_arrays(space, plan, workspace).arrivals,
          workspace_layout(space, plan).arrival_bytes(workspace.bytes()));
  }

  template <class Shape, KVCache Cache, class Output, LogBase Base>
  static void attend(Kokkos::Cuda const& space,
                     AttentionPlan<Kokkos::Cuda, Shape, Backend> const& plan,
                     StridedArray<typename Shape::element_type const, 3> queries,
                     Cache const& cache, Results<Output, Base> const& results,
                     Workspace<Kokkos::Cuda> const& workspace) {
    using Memory = SharedMemory<Shape, Warps>;
    static_assert(Memory::bytes(2) <= least_memory);
    auto const& device = space.cuda_device_prop();
    std::size_t const memory =
        device.sharedMemPerMultiprocessor / static_cast<std::size_t>(blocks(device)) - reserved;
    int stages = Memory::most_stages;
    while (Memory::bytes(stages) > std::min(memory, device.sharedMemPerBlockOptin)) --stages;
    launch(
        space, "fasttree::tree_attention::attend",
        Attend<Warps, Shape, Cache, Output, Base>{plan.shape(),
                                                  plan.arrays(),
                                                  workspace.queue(),
                                                  queries,
                                                  cache,
                                                  {results, partial_arrays(space, plan, workspace)},
                                                  stages},
        teams(space), Memory::bytes(stages));
  }

 private:
  static constexpr std::size_t reserved = 1024;  ///< of each block's shared memory, by CUDA
  /// With a ring of two tiles. Of four warps, two such blocks fit into the 164 KB of an A100's
  /// multiprocessor, one into the 100 KB of an RTX 4090's.
  static constexpr std::size_t least_memory = (Warps == 8 ? 162 : 81) * 1024;

  /// Of a multiprocessor.
  static int blocks(cudaDeviceProp const& device) {
    auto const fit = device.sharedMemPerMultiprocessor / (least_memory + reserved);
    return static_cast<int>(std::clamp<std::size_t>(fit, 1, 8 / Warps));
  }

  static void clear(Kokkos::Cuda const& space, void* memory, std::size_t bytes) {
    constexpr char const* function = "make_workspace";
    check(cudaSetDevice(space.cuda_device()), function, "cudaSetDevice");
    check(cudaMemsetAsync(memory, 0, bytes, space.cuda_stream()), function, "cudaMemsetAsync");
  }
};

}  // namespace fasttree::cuda::sm80
