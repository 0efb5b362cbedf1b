// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of results of 16 bits on their way from fragments of the tensor cores to global memory,
// where a thread stores 16 bytes at a time: through shared memory, since to exchange them among
// the threads by shuffles takes several times as many instructions.

#include <cstdint>

namespace fasttree::cuda::sm80 {

/// Eight rows of `Dim` 16-bit elements, of which thread t of a warp has row t / 4.
template <int Dim>
class StagedRows {
 public:
  /// In 16 `Dim` bytes of shared memory from a multiple of 16 on.
  __device__ explicit StagedRows(std::uint32_t memory) : memory_(memory) {}

  /// The thread's part of a chunk of 16 bytes: pair t % 4.
  __device__ void put_pair(int chunk, std::uint32_t pair) const {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at(lane() / 4, chunk) + lane() % 4 * 4), "r"(pair)
                 : "memory");
  }

  /// Any chunk of the thread's row.
  __device__ uint4 get_chunk(int chunk) const {
    uint4 words;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(at(lane() / 4, chunk))
                 : "memory");
    return words;
  }

  /// Any element of the thread's row.
  __device__ std::uint16_t get_element(int column) const {
    std::uint16_t bits;
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(bits)
                 : "r"(at(lane() / 4, column / 8) + column % 8 * 2)
                 : "memory");
    return bits;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Chunk by chunk, each rotated, so that neither the same chunk of eight rows nor four of two
  /// meet in a bank.
  __device__ std::uint32_t at(int row, int chunk) const {
    return memory_ + static_cast<std::uint32_t>(8 * chunk + (row + 2 * chunk) % 8) * 16;
  }

  std::uint32_t memory_;
};

}  // namespace fasttree::cuda::sm80
