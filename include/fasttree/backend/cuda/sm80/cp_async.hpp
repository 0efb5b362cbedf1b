// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies from global to shared memory that a thread does not wait for (since Ampere), and barriers
// of some of a block's warps. PTX ISA, "Non-bulk copy".

#include <cstdint>

namespace fasttree::cuda::sm80 {

/// An address in shared memory as instructions take it.
__device__ __forceinline__ std::uint32_t shared_address(void const* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Starts to copy 16 bytes, both addresses multiples of 16.
__device__ __forceinline__ void copy_16(std::uint32_t to, void const* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}

/// Asks for the 128 bytes around an address to be brought into L2.
__device__ __forceinline__ void prefetch_to_l2(void const* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// A barrier of `Threads` threads of the block; number 0 is that of __syncthreads.
template <int Number, int Threads>
__device__ __forceinline__ void barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(Number), "n"(Threads) : "memory");
}

}  // namespace fasttree::cuda::sm80
