// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only include of Kokkos_Core.hpp, and the place for whatever differs between its versions
// (3.4.01 to 5.x) and between compilers. Everything else keeps to what all of them have in common.

#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

// Unrolls the loop that follows: accumulators stay in registers at -O2 too.
#if defined(__clang__) || defined(__CUDA_ARCH__)
#define FASTTREE_UNROLL _Pragma("unroll")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define FASTTREE_UNROLL _Pragma("GCC unroll 16")
#else
#define FASTTREE_UNROLL
#endif

// Whether functions for host and device may use vector types: not with nvcc.
#if defined(__CUDACC__)
#define FASTTREE_VECTORS 0
#else
#define FASTTREE_VECTORS 1
#endif

// Whether kernels for NVIDIA GPUs since Ampere can be compiled: by nvcc, and if Kokkos has CUDA, for
// such GPUs.
#if defined(__NVCC__) && defined(__CUDACC__) &&                                                   \
    (!defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ARCH_AMPERE) || defined(KOKKOS_ARCH_ADA89) || \
     defined(KOKKOS_ARCH_HOPPER) || defined(KOKKOS_ARCH_BLACKWELL))
#define FASTTREE_CUDA 1
#else
#define FASTTREE_CUDA 0
#endif

// Functions that kernels of CUDA call as well as those of Kokkos: under nvcc they are for the device
// even if Kokkos has no CUDA.
#if defined(__CUDACC__) && !defined(KOKKOS_ENABLE_CUDA)
#define FASTTREE_INLINE_FUNCTION __host__ __device__ inline
#define FASTTREE_FORCEINLINE_FUNCTION __host__ __device__ __forceinline__
#else
#define FASTTREE_INLINE_FUNCTION KOKKOS_INLINE_FUNCTION
#define FASTTREE_FORCEINLINE_FUNCTION KOKKOS_FORCEINLINE_FUNCTION
#endif

namespace fasttree {

/// An execution space of Kokkos. The verbs also take a CudaStream, which is none.
template <class Space>
concept KokkosSpace = Kokkos::is_execution_space<Space>::value;

/// Whether code of `Space` runs on the host.
template <class Space>
inline constexpr bool runs_on_host = false;
template <KokkosSpace Space>
inline constexpr bool runs_on_host<Space> =
    std::is_same_v<typename Space::memory_space, Kokkos::HostSpace>;

/// Whether code of `Space` reaches what lies in a memory space of Kokkos.
template <class Space, class MemorySpace>
inline constexpr bool reaches = !std::is_same_v<MemorySpace, Kokkos::HostSpace>;
template <KokkosSpace Space, class MemorySpace>
inline constexpr bool reaches<Space, MemorySpace> =
    Kokkos::SpaceAccessibility<Space, MemorySpace>::accessible;

/// Memory of the host that devices copy to and from by themselves, where there are devices.
#if KOKKOS_VERSION >= 40000
using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// In kernels of a device: nanoseconds of a clock that its multiprocessors share.
KOKKOS_INLINE_FUNCTION std::uint64_t device_nanoseconds() {
  std::uint64_t time = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
#elif defined(__HIP_DEVICE_COMPILE__)
  time = 10 * wall_clock64();  // of 100 MHz
#endif
  return time;
}

/// Makes `space` ready for host threads that each launch kernels on it, before they start: at the
/// first team kernel Kokkos allocates what its teams have in common, unguarded before 4.0.
template <class Space>
void prepare_for_threads(Space const& space) {
  using Policy = Kokkos::TeamPolicy<Space>;
  Kokkos::parallel_for("fasttree::prepare_for_threads", Policy(space, 1, 1),
                       KOKKOS_LAMBDA(typename Policy::member_type const&){});
  space.fence();
}

}  // namespace fasttree
