// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor cores of Hopper, wgmma: 64 rows by the four warps of a warpgroup, the left operand and the
// accumulators in registers, 16 rows to a warp, laid out as for mma.sync (sm80/mma.hpp); the right
// operand in shared memory, in panels of 64 columns whose rows of 128 bytes have their chunks of 16
// bytes rotated by the row. PTX ISA, "Asynchronous warpgroup level matrix instructions". Needs code
// for sm_90a.

#include <cstdint>

#include <nv/target>

namespace fasttree::cuda::sm90 {

/// Whether the code that is compiled here may use wgmma.
__device__ constexpr bool has_wgmma() {
  NV_IF_ELSE_TARGET(NV_HAS_FEATURE_SM_90a, (return true;), (return false;))
}

/// A matrix in shared memory: where it begins; from panel to panel; from 8 rows to the next.
__device__ __forceinline__ std::uint64_t matrix(std::uint32_t address, int panel, int rows) {
  constexpr std::uint64_t swizzle_128 = std::uint64_t{1} << 62;
  return std::uint64_t{(address & 0x3ffff) >> 4} | static_cast<std::uint64_t>(panel >> 4) << 16 |
         static_cast<std::uint64_t>(rows >> 4) << 32 | swizzle_128;
}

/// Before the first of a group of products: registers have what was written.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes the group and waits for it.
__device__ __forceinline__ void finish_products() {
  asm volatile(
      "wgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0;" ::
          : "memory");
}

/// What others copied to shared memory, and this thread has waited for, the tensor cores see.
__device__ __forceinline__ void show_copies_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// sum = a * b, or sum += a * b if it adds, for b of 16 rows and 64 columns that lie in memory by
/// columns or, `Transposed`, by rows.
template <bool Bfloat16, int Transposed>
__device__ __forceinline__ void multiply(float (&sum)[8][4], std::uint32_t const (&a)[4],
                                         std::uint64_t b, bool adds) {
  if constexpr (!Bfloat16) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, adds, 1, 1, %38; }"
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
          "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
          "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
          "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
          "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
          "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
          "+f"(sum[7][2]), "+f"(sum[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(Transposed)
        : "memory");
  } else {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, adds, 1, 1, %38; }"
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
          "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
          "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
          "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
          "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
          "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
          "+f"(sum[7][2]), "+f"(sum[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(Transposed)
        : "memory");
  }
}

/// The same for 128 columns.
template <bool Bfloat16, int Transposed>
__device__ __forceinline__ void multiply(float (&sum)[16][4], std::uint32_t const (&a)[4],
                                         std::uint64_t b, bool adds) {
  if constexpr (!Bfloat16) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, adds, 1, 1, %70; }"
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
          "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
          "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
          "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
          "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
          "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
          "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]),
          "+f"(sum[8][3]), "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]),
          "+f"(sum[10][0]), "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]),
          "+f"(sum[11][1]), "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]),
          "+f"(sum[12][2]), "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]),
          "+f"(sum[13][3]), "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]),
          "+f"(sum[15][0]), "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(Transposed)
        : "memory");
  } else {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, adds, 1, 1, %70; }"
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
          "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
          "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
          "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
          "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
          "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
          "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]),
          "+f"(sum[8][3]), "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]),
          "+f"(sum[10][0]), "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]),
          "+f"(sum[11][1]), "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]),
          "+f"(sum[12][2]), "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]),
          "+f"(sum[13][3]), "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]),
          "+f"(sum[15][0]), "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(Transposed)
        : "memory");
  }
}

/// Changes how many registers the threads of a warpgroup may use; all of its warps call it.
template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace fasttree::cuda::sm90
