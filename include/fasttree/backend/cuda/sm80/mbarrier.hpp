// SPDX-License-Identifier: Apache-2.0
#pragma once
// Barriers in shared memory on which warps wait for each other phase by phase, and for copies that
// are under way. PTX ISA, "mbarrier".

#include <cstdint>

#include <nv/target>

#include <fasttree/backend/cuda/sm80/cp_async.hpp>

namespace fasttree::cuda::sm80 {

/// Phases end when as many have arrived as `initialize` said; the first is 0.
class PhaseBarrier {
 public:
  /// By one thread, before the block synchronises.
  __device__ __forceinline__ void initialize(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }

  /// What this thread wrote before, those see that have waited.
  __device__ __forceinline__ void arrive() {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(address())
                 : "memory");
  }

  /// Arrives when all copies that this thread started have been done.
  __device__ __forceinline__ void arrive_with_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address()) : "memory");
  }

  /// Waits until the last phase of this parity has ended; before phase 0, that was 1.
  __device__ __forceinline__ void wait(std::uint32_t parity) {
    while (!has_ended(parity)) {
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t address() { return shared_address(&state_); }

  __device__ __forceinline__ bool has_ended(std::uint32_t parity) {
    std::uint32_t ended;
    // Since Hopper the thread may sleep meanwhile.
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_90,
        (asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; "
                      "selp.u32 %0, 1, 0, p; }"
                      : "=r"(ended)
                      : "r"(address()), "r"(parity)
                      : "memory");),
        (asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
                      "selp.u32 %0, 1, 0, p; }"
                      : "=r"(ended)
                      : "r"(address()), "r"(parity)
                      : "memory");))
    return ended != 0;
  }

  std::uint64_t state_;
};

/// A place in a ring of `size` buffers, and how often the ring has been gone round.
struct RingPlace {
  int index = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance(int size) {
    if (++index < size) return;
    index = 0;
    parity ^= 1;
  }
};

}  // namespace fasttree::cuda::sm80
