// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one entry of all CUDA kernels: a kernel is a functor that says how many threads its blocks
// have and how many blocks a multiprocessor is to hold. Launches on Kokkos::Cuda show up in Kokkos
// Tools like those of Kokkos.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree::cuda {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks_per_processor)
    entry(__grid_constant__ Kernel const kernel) {
  kernel();
}

/// Enqueues `blocks` blocks of a kernel, each with so much dynamic shared memory, on a Kokkos::Cuda
/// or a CudaStream. Does not wait.
/// Errors: `Error` where CUDA refuses the launch, for instance for lack of code for the device.
template <class Space, class Kernel>
void launch(Space const& space, char const* label, Kernel const& kernel, int blocks,
            std::size_t shared_bytes) {
  constexpr char const* function = "cuda::launch";
  check(cudaSetDevice(space.cuda_device()), function, "cudaSetDevice");
  // The limit belongs to the device, so that it cannot be set once and for all.
  check(cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        function, "cudaFuncSetAttribute");
  auto const enqueue = [&] {
    entry<<<blocks, Kernel::threads, shared_bytes, space.cuda_stream()>>>(kernel);
    check(cudaGetLastError(), function, label);
  };
  if constexpr (KokkosSpace<Space>) {
    if (Kokkos::Tools::profileLibraryLoaded()) {
      std::uint64_t id = 0;
      Kokkos::Tools::beginParallelFor(label, Kokkos::Tools::Experimental::device_id(space), &id);
      enqueue();
      Kokkos::Tools::endParallelFor(id);
      return;
    }
  }
  enqueue();
}

}  // namespace fasttree::cuda
