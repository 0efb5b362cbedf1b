// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one entry of all CUDA kernels: a kernel is a functor that says how many threads its blocks
// have and how many blocks a multiprocessor is to hold. Launches show up in Kokkos Tools like those
// of Kokkos.

#include <cstddef>
#include <cstdint>
#include <string>

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree::cuda {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks_per_processor)
    entry(__grid_constant__ Kernel const kernel) {
  kernel();
}

/// Enqueues `blocks` blocks of a kernel, each with so much dynamic shared memory. Does not wait.
/// Errors: `Error` where CUDA refuses the launch, for instance for lack of code for the device.
template <class Kernel>
void launch(Kokkos::Cuda const& space, std::string const& label, Kernel const& kernel, int blocks,
            std::size_t shared_bytes) {
  constexpr char const* function = "cuda::launch";
  check(cudaSetDevice(space.cuda_device()), function, "cudaSetDevice");
  // The limit belongs to the device, so that it cannot be set once and for all.
  check(cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        function, "cudaFuncSetAttribute");
  std::uint64_t id = 0;
  bool const listened_to = Kokkos::Tools::profileLibraryLoaded();
  if (listened_to)
    Kokkos::Tools::beginParallelFor(label, Kokkos::Tools::Experimental::device_id(space), &id);
  entry<<<blocks, Kernel::threads, shared_bytes, space.cuda_stream()>>>(kernel);
  check(cudaGetLastError(), function, label.c_str());
  if (listened_to) Kokkos::Tools::endParallelFor(id);
}

}  // namespace fasttree::cuda
