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

/// Starts to copy 16 bytes, both addresses multiples of 16; zeros where `exists` is false.
__device__ __forceinline__ void copy_16(std::uint32_t to, void const* from, bool exists) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

/// Closes a group of copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all but the last `Groups` groups of this thread have arrived.
template <int Groups>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
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
