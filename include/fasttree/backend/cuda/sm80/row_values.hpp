// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values of one row in the registers of a warp, as they are written to memory.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/tiles.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree::cuda::sm80 {

/// Writes an element, rounded to nearest even.
__device__ __forceinline__ void store(float* to, float value) { *to = value; }
template <class T>
__device__ __forceinline__ void store(T* to, float value) {
  to->bits = static_cast<std::uint16_t>(pack<operand<T>>(value, 0.f));
}

/// `Dim` values: of every 128, thread t of the warp has those of columns 4 t to 4 t + 3.
template <int Dim>
struct RowValues {
  static constexpr int parts = (Dim + 127) / 128;

  float of[parts][4] = {};

  __device__ static int column(int part) {
    return 128 * part + 4 * (static_cast<int>(threadIdx.x) % 32);
  }
  __device__ static bool has(int part) { return column(part) < Dim; }

  __device__ void scale(float factor) {
    FASTTREE_UNROLL
    for (auto& four : of) FASTTREE_UNROLL
    for (float& value : four) value *= factor;
  }

  /// Adds `weight` times values in memory, which begin at a multiple of 16 bytes.
  __device__ void add(float weight, float4 const (&more)[parts]) {
    FASTTREE_UNROLL
    for (int p = 0; p < parts; ++p) {
      of[p][0] += weight * more[p].x;
      of[p][1] += weight * more[p].y;
      of[p][2] += weight * more[p].z;
      of[p][3] += weight * more[p].w;
    }
  }

  /// Writes columns [begin, end), multiples of four, of a row at `to`, elements `stride` apart,
  /// rounded to nearest even.
  template <class T>
  __device__ void store(T* to, std::int64_t stride, int begin = 0, int end = Dim) const {
    bool const whole = stride == 1 && reinterpret_cast<std::uintptr_t>(to) % (4 * sizeof(T)) == 0;
    FASTTREE_UNROLL
    for (int p = 0; p < parts; ++p) {
      if (column(p) < begin || column(p) >= end) continue;
      if (whole) {
        store_four(to + column(p), of[p]);
      } else {
        FASTTREE_UNROLL
        for (int e = 0; e < 4; ++e) sm80::store(to + (column(p) + e) * stride, of[p][e]);
      }
    }
  }

 private:
  __device__ static void store_four(float* to, float const (&four)[4]) {
    *reinterpret_cast<float4*>(to) = make_float4(four[0], four[1], four[2], four[3]);
  }
  template <class T>
  __device__ static void store_four(T* to, float const (&four)[4]) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(pack<operand<T>>(four[0], four[1]), pack<operand<T>>(four[2], four[3]));
  }
};

}  // namespace fasttree::cuda::sm80
