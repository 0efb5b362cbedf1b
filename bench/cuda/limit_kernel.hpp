// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the device needs at least to read so many bytes: a kernel that does nothing else, by bulk
// copies to shared memory, and has each block write one row. For compute capability 9.0 and newer.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fasttree/backend/cuda/error.hpp>
#include "timing.hpp"

namespace fasttree::bench {

/// One block for each multiprocessor, with so many copies of so many bytes under way.
struct LimitKernel {
  static constexpr int threads = head_dim;
  static constexpr int copy_bytes = 16384;
  static constexpr int copies = 8;
  static constexpr int shared_bytes = copies * copy_bytes;

  std::byte const* from;  ///< aligned to 16 bytes
  std::int64_t bytes;     ///< a multiple of 16
  float* rows;            ///< one of `threads` numbers for each block

  __host__ __device__ std::int64_t all_copies() const {
    return (bytes + copy_bytes - 1) / copy_bytes;
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ static std::uint32_t shared_address(void const* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
  }

  /// Starts copy number `copy` of all; `arrived` completes a phase when its bytes are there.
  __device__ void start(std::int64_t copy, std::byte* to, std::uint64_t* arrived) const {
    std::int64_t const begin = copy * copy_bytes, left = bytes - begin;
    auto const size = static_cast<std::uint32_t>(left < copy_bytes ? left : copy_bytes);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(arrived)), "r"(size)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :
        : "r"(shared_address(to)), "l"(from + begin), "r"(size), "r"(shared_address(arrived))
        : "memory");
  }

  __device__ static void wait(std::uint64_t* arrived, std::uint32_t parity) {
    std::uint32_t done = 0;
    while (done == 0)
      asm volatile(
          "{\n"
          ".reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n"
          "}"
          : "=r"(done)
          : "r"(shared_address(arrived)), "r"(parity)
          : "memory");
  }

  __device__ void operator()() const {
    extern __shared__ __align__(128) std::byte buffers[];
    __shared__ std::uint64_t arrived[copies];
    int const thread = static_cast<int>(threadIdx.x);
    std::int64_t const begin = all_copies() * blockIdx.x / gridDim.x;
    std::int64_t const count = all_copies() * (blockIdx.x + 1) / gridDim.x - begin;
    if (thread == 0) {
      for (std::uint64_t& barrier : arrived)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                     :
                     : "r"(shared_address(&barrier))
                     : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      for (int i = 0; i < copies && i < count; ++i)
        start(begin + i, buffers + i * copy_bytes, &arrived[i]);
    }
    __syncthreads();
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      auto const buffer = static_cast<int>(i % copies);
      wait(&arrived[buffer], static_cast<std::uint32_t>(i / copies % 2));
      sum += reinterpret_cast<float const*>(buffers + buffer * copy_bytes)[thread];
      __syncthreads();
      if (thread == 0 && i + copies < count)
        start(begin + i + copies, buffers + buffer * copy_bytes, &arrived[buffer]);
    }
    rows[blockIdx.x * threads + thread] = sum;
  }
#else
  __device__ void operator()() const {}
#endif
};

__global__ void __launch_bounds__(LimitKernel::threads)
    limit_kernel(__grid_constant__ LimitKernel const kernel) {
  kernel();
}

/// Whether the kernel was compiled for this device.
inline bool has_limit_kernel() {
  cudaFuncAttributes attributes;
  cuda::check(cudaFuncGetAttributes(&attributes, limit_kernel), "bench::has_limit_kernel",
              "cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}

/// The time to read the first `bytes` of some memory, L2 cold.
inline Times limit_times(Space const& space, Stopwatch const& stopwatch, std::byte const* from,
                         std::int64_t bytes, int repetitions) {
  constexpr char const* function = "bench::limit_times";
  int const processors = space.cuda_device_prop().multiProcessorCount;
  Kokkos::View<float*, Space> const rows("bench::limit_rows", processors * LimitKernel::threads);
  LimitKernel const kernel{from, bytes / 16 * 16, rows.data()};
  auto const blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>(kernel.all_copies(), 1, processors));
  cuda::check(cudaFuncSetAttribute(limit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   LimitKernel::shared_bytes),
              function, "cudaFuncSetAttribute");
  CapturedGraph const graph(space, [&] {
    limit_kernel<<<blocks, LimitKernel::threads, LimitKernel::shared_bytes, space.cuda_stream()>>>(
        kernel);
    cuda::check(cudaGetLastError(), function, "limit_kernel");
  });
  return stopwatch.device_times(graph, repetitions, L2::cold);
}

}  // namespace fasttree::bench
