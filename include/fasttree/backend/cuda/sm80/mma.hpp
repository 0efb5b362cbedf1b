// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instructions of the tensor cores since Ampere: mma.sync with float accumulators, and ldmatrix,
// which brings its operands out of shared memory. PTX ISA, "Warp-level matrix instructions".
//
// Where thread t of a warp has its elements: of a 16 x 8 accumulator, rows t / 4 and t / 4 + 8,
// columns 2 (t % 4) and the next: {top, top, bottom, bottom}. Of the 16 x 16 left operand likewise,
// two elements to a register: {top left, bottom left, top right, bottom right}. Two accumulators
// side by side, packed, are thus a left operand.

#include <cstdint>

namespace fasttree::cuda::sm80 {

/// What the 16 bits of an operand are.
enum class Operand { half, bfloat16 };

/// sum += a * b for a of 16 x 16, b of 16 x 8.
template <Operand Type>
__device__ __forceinline__ void multiply_add(float (&sum)[4], std::uint32_t const (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  if constexpr (Type == Operand::half) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// product = a * b.
template <Operand Type>
__device__ __forceinline__ void multiply(float (&product)[4], std::uint32_t const (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  if constexpr (Type == Operand::half) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(product[0]), "=f"(product[1]), "=f"(product[2]), "=f"(product[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.f));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(product[0]), "=f"(product[1]), "=f"(product[2]), "=f"(product[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.f));
  }
}

/// 2^x, to 2 units in the last place; 0 below the normal numbers.
__device__ __forceinline__ float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Two floats, rounded to nearest even; the first in the lower half.
template <Operand Type>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t both;
  if constexpr (Type == Operand::half) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
}

/// Four 8 x 8 matrices; thread t gives the address of row t % 8 of matrix t / 8, 16 bytes.
__device__ __forceinline__ void load_matrices(std::uint32_t (&matrices)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

/// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(std::uint32_t (&matrices)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

}  // namespace fasttree::cuda::sm80
