// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of a warp on their way between global memory, where a thread takes 16 bytes at a time, and
// fragments of the tensor cores: through shared memory, since to exchange them among the threads by
// shuffles takes several times as many instructions.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/mma.hpp>

namespace fasttree::cuda::sm80 {

/// Room for eight rows of `Dim` 16-bit elements. Thread t of the warp has row t / 4: of a fragment
/// pair t % 4 of each chunk of 16 bytes, else whole chunks, t % 4 and every fourth after it.
template <int Dim>
class StagedRows {
 public:
  static constexpr int bytes = 8 * Dim * 2;
  static constexpr int chunks = Dim / 8;
  static constexpr int chunks_of_thread = chunks / 4;

  /// In shared memory, at a multiple of 16 bytes.
  __device__ explicit StagedRows(std::uint32_t memory) : memory_(memory) {}

  __device__ void put_pair(int chunk, std::uint32_t pair) const {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at(lane() / 4, chunk) + lane() % 4 * 4), "r"(pair)
                 : "memory");
  }

  /// The thread's i-th chunk.
  __device__ uint4 get_chunk(int i) const {
    uint4 chunk;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
                 : "r"(own_chunk(i))
                 : "memory");
    return chunk;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ std::uint32_t own_chunk(int i) const { return at(lane() / 4, 4 * i + lane() % 4); }

  /// Chunk by chunk, each rotated, so that neither the same chunk of eight rows nor four of two meet
  /// in a bank.
  __device__ std::uint32_t at(int row, int chunk) const {
    return memory_ + static_cast<std::uint32_t>(8 * chunk + (row + 2 * chunk) % 8) * 16;
  }

  std::uint32_t memory_;
};

}  // namespace fasttree::cuda::sm80
