// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backend of NVIDIA GPUs since Ampere (A100, RTX 4090; newer ones run it as well): mma.sync and
// cp.async, on half and bfloat16, head_dim and value_dim 64, 96, 128, 192 or 256. In code for
// sm_90a the wide tile is multiplied by wgmma. Other heads take the portable backend: see
// select.hpp. Its space is a Kokkos::Cuda or a CudaStream.

#include <algorithm>
#include <cstddef>
#include <string>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/launch.hpp>
#include <fasttree/backend/cuda/sm80/attend.hpp>
#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// With blocks of so many multiplying warps, and at most so many blocks to a multiprocessor: one of
/// eight where it has the shared memory of Hopper's, else two of four; for large heads one of four.
/// Errors of `teams`: `Error` on a device that has not what the kernels need.
template <int Warps, int Blocks = 8 / Warps>
struct Backend {
  template <class Shape>
  static consteval Tiles tiles() {
    static_assert(supports<Shape> && (!is_large<Shape> || Warps * Blocks == 4));
    return {.wide = wide_tile<Warps>, .narrow = narrow_tile<Warps>};
  }

  static constexpr MachineCosts costs = h200_costs<Warps, Blocks>;

  /// Weights are rounded to the elements that they multiply.
  template <class Shape>
  static constexpr double weight_roundoff = unit_roundoff<typename Shape::element_type>;

  /// Blocks that run at once.
  template <class Space>
  static int teams(Space const& space) {
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
  template <class Space, class Shape>
  static void prepare(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                      Workspace<Space> const& workspace) {
    clear(space, workspace.queue(), sizeof(WorkQueue));
    clear(space, partial_arrays(space, plan, workspace).arrivals,
          workspace_layout(space, plan).arrival_bytes(workspace.bytes()));
  }

  template <class Space, class Shape, KVCache Cache, class Output, LogBase Base>
  static void attend(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                     StridedArray<typename Shape::element_type const, 3> queries,
                     Cache const& cache, Results<Output, Base> const& results,
                     Workspace<Space> const& workspace) {
    using Memory = SharedMemory<Shape, Warps, Blocks>;
    static_assert(Memory::bytes(2) <= least_memory);
    auto const& device = space.cuda_device_prop();
    std::size_t const memory =
        device.sharedMemPerMultiprocessor / static_cast<std::size_t>(blocks(device)) - reserved;
    int stages = Memory::most_stages;
    while (Memory::bytes(stages) > std::min(memory, device.sharedMemPerBlockOptin)) --stages;
    launch(space, "fasttree::tree_attention::attend",
           Attend<Warps, Blocks, Shape, Cache, Output, Base>{
               plan.shape(),
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
  /// multiprocessor, one into the 100 KB of an RTX 4090's; with large heads, one and none.
  static constexpr std::size_t least_memory = 1024 * (Warps == 8 ? 162 : Blocks == 2 ? 81 : 154);

  /// Of a multiprocessor.
  template <class Properties>
  static int blocks(Properties const& device) {
    auto const fit = device.sharedMemPerMultiprocessor / (least_memory + reserved);
    return static_cast<int>(std::clamp<std::size_t>(fit, 1, Blocks));
  }

  template <class Space>
  static void clear(Space const& space, void* memory, std::size_t bytes) {
    constexpr char const* function = "make_workspace";
    check(cudaSetDevice(space.cuda_device()), function, "cudaSetDevice");
    check(cudaMemsetAsync(memory, 0, bytes, space.cuda_stream()), function, "cudaMemsetAsync");
  }
};

}  // namespace fasttree::cuda::sm80
