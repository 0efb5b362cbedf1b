// SPDX-License-Identifier: Apache-2.0
#pragma once
// 16 query rows of a warp, in its registers, and their online softmax over the keys of a tile in
// shared memory (FlashAttention 2; FastTree section 4.1):
//     S = scale Q K^T,  m' = max(m, S),  P = 2^(S - m'),  l' = l 2^(m - m') + sum P,
//     O' = O 2^(m - m') + P V
// Logits are in base 2. P is rounded to the elements of V where it multiplies them, not in the sum.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/mma.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::cuda::sm80 {

/// Of the 16 rows a thread has two, `row` and `row + 8`: see mma.hpp.
template <class Shape>
class QueryRows {
 public:
  using Stored = typename Shape::element_type;
  static constexpr Operand type = operand<Stored>;
  static constexpr int head_dim = Shape::head_dim;
  static constexpr int value_dim = Shape::value_dim;

  std::uint32_t query[head_dim / 16][4];
  float output[value_dim / 8][4];
  float maximum[2], sum[2];  ///< the sum over the keys that this thread has had
  int visible[2];            ///< keys of its path that a row sees

  __device__ void clear() {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) output[i][x] = 0.f;
    maximum[0] = maximum[1] = -detail::infinity;
    sum[0] = sum[1] = 0.f;
  }

  /// Attends to `Groups` groups of 16 keys of a tile from group `first` on; `first_row`: of the 16
  /// rows, among those of the task. `keys`, `values`: of the whole tile, in shared memory.
  template <int Groups>
  __device__ void attend(TileRecord<Stored> const& tile, int first, int first_row,
                         std::uint32_t keys, std::uint32_t values) {
    bool on[Groups], any = false;  // groups that concern some of the rows
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g) {
      on[g] = tile.group_begin[first + g] < first_row + 16 && tile.group_end[first + g] > first_row;
      any = any || on[g];
    }
    if (!any) return;
    bool const masked = !tile.for_all_rows || tile.last_position >= min(visible[0], visible[1]);
    float score[2 * Groups][4];
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g) {
      if (on[g]) {
        multiply_keys(&score[2 * g], keys, (first + g) * group_keys);
        if (masked) mask(&score[2 * g], tile, (first + g) * group_keys, first_row);
      } else {
        FASTTREE_UNROLL
        for (int x = 0; x < 4; ++x) score[2 * g][x] = score[2 * g + 1][x] = -detail::infinity;
      }
    }
    float base[2];
    raise_maximum<Groups>(score, base);
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g)
      if (on[g]) multiply_values(&score[2 * g], base, values, (first + g) * group_keys);
  }

  /// Adds up what the four threads of a row have.
  __device__ void finish_sums() {
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      sum[x] += __shfl_xor_sync(0xffffffffu, sum[x], 1);
      sum[x] += __shfl_xor_sync(0xffffffffu, sum[x], 2);
    }
  }

  __device__ void scale_outputs(float const (&factor)[2]) {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) output[i][x] *= factor[x / 2];
  }

  /// Of the base 2 logits of a layer.
  float scale;

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Logits of 16 keys from `key` on: two blocks of 8.
  __device__ void multiply_keys(float (*score)[4], std::uint32_t keys, int key) const {
    FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) score[0][x] = score[1][x] = 0.f;
    int const row = key + lane() % 8 + lane() / 16 * 8, chunk = lane() / 8 % 2;
    FASTTREE_UNROLL
    for (int k = 0; k < head_dim / 16; ++k) {
      std::uint32_t b[4];
      load_matrices(b, keys + chunk_at<head_dim>(row, 2 * k + chunk));
      multiply_add<type>(score[0], query[k], b[0], b[1]);
      multiply_add<type>(score[1], query[k], b[2], b[3]);
    }
    FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) score[0][x] *= scale, score[1][x] *= scale;
  }

  /// Takes away what a row does not see.
  __device__ void mask(float (*score)[4], TileRecord<Stored> const& tile, int key,
                       int first_row) const {
    int const row = first_row + lane() / 4;
    FASTTREE_UNROLL
    for (int n = 0; n < 2; ++n) FASTTREE_UNROLL
    for (int e = 0; e < 2; ++e) {
      int const at = key + n * 8 + lane() % 4 * 2 + e;
      int const begin = tile.row_begin[at], end = tile.row_end[at], position = tile.positions[at];
      if (row < begin || row >= end || position >= visible[0]) score[n][e] = -detail::infinity;
      if (row + 8 < begin || row + 8 >= end || position >= visible[1])
        score[n][2 + e] = -detail::infinity;
    }
  }

  /// Updates the maxima, and scales sums and outputs to them; `base` is what to weigh over.
  template <int Groups>
  __device__ void raise_maximum(float const (&score)[2 * Groups][4], float (&base)[2]) {
    float factor[2];
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      float top = maximum[x];
      FASTTREE_UNROLL
      for (int n = 0; n < 2 * Groups; ++n)
        top = fmaxf(top, fmaxf(score[n][2 * x], score[n][2 * x + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      // A row that has seen no key yet keeps -inf; its weights are taken over 2^0, which gives 0.
      base[x] = top == -detail::infinity ? 0.f : top;
      factor[x] = exp2f(maximum[x] - base[x]);
      maximum[x] = top;
      sum[x] *= factor[x];
    }
    scale_outputs(factor);
  }

  /// Weighs 16 keys and adds their values.
  __device__ void multiply_values(float (*score)[4], float const (&base)[2], std::uint32_t values,
                                  int key) {
    std::uint32_t weights[4];
    FASTTREE_UNROLL
    for (int n = 0; n < 2; ++n) {
      FASTTREE_UNROLL
      for (int x = 0; x < 4; ++x) {
        score[n][x] = exp2f(score[n][x] - base[x / 2]);
        sum[x / 2] += score[n][x];
      }
      weights[2 * n] = pack<type>(score[n][0], score[n][1]);
      weights[2 * n + 1] = pack<type>(score[n][2], score[n][3]);
    }
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 16; ++i) {
      std::uint32_t b[4];
      load_transposed(b, values + chunk_at<value_dim>(key + lane() % 16, 2 * i + lane() / 16));
      multiply_add<type>(output[2 * i], weights, b[0], b[1]);
      multiply_add<type>(output[2 * i + 1], weights, b[2], b[3]);
    }
  }
};

}  // namespace fasttree::cuda::sm80
