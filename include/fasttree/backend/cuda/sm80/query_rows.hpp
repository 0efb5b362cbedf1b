// SPDX-License-Identifier: Apache-2.0
#pragma once
// 16 query rows of a warp, in its registers, and their online softmax over the keys of a tile in
// shared memory (FlashAttention 2; FastTree section 4.1):
//     S = scale Q K^T,  m' = max(m, S),  P = 2^(S - m'),  l' = l 2^(m - m') + sum P,
//     O' = O 2^(m - m') + P V
// Logits are in base 2. P is rounded to the elements of V where it multiplies them, not in the sum.
// A weight of 0 does not keep nan or inf from a row that does not see them: values that are not
// finite are taken apart where keys are masked, and go to the rows that see them alone.

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
  float scale;               ///< of products of queries and keys: logits in base 2
  float maximum[2], sum[2];  ///< the sum over the keys that this thread has had
  int visible[2];            ///< keys of its path that a row sees

  __device__ void clear() {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) output[i][x] = 0.f;
    maximum[0] = maximum[1] = -detail::infinity;
    sum[0] = sum[1] = 0.f;
  }

  /// Attends to `Groups` groups of 16 keys of a tile from group `first` on; `warp`: which 16 rows
  /// of the task these are. `keys`, `values`: of the whole tile, in shared memory.
  template <int Groups>
  __device__ void attend(TileRecord<Stored> const& tile, int first, int warp, std::uint32_t keys,
                         std::uint32_t values) {
    int const on = tile.groups_of_warp[warp] >> first & ((1 << Groups) - 1);
    if (on == 0) return;
    int const first_row = warp * warp_rows;
    bool const masked =
        __any_sync(all, !tile.for_all_rows || tile.last_position >= min(visible[0], visible[1]));
    float score[2 * Groups][4];
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g) {
      if ((on >> g & 1) != 0) {
        multiply_keys(&score[2 * g], keys, (first + g) * group_keys);
        if (masked) mask(&score[2 * g], tile, (first + g) * group_keys, first_row);
      } else {
        FASTTREE_UNROLL
        for (int x = 0; x < 4; ++x) score[2 * g][x] = score[2 * g + 1][x] = -detail::infinity;
      }
    }
    float base[2];
    raise_maximum<Groups>(score, base);
    std::uint32_t weights[Groups][4];
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g)
      if ((on >> g & 1) != 0) weigh(&score[2 * g], base, weights[g]);
    FASTTREE_UNROLL
    for (int g = 0; g < Groups; ++g)
      if ((on >> g & 1) != 0) {
        int const key = (first + g) * group_keys;
        if (masked && has_not_finite(values, key)) [[unlikely]] {
          multiply_values<true>(weights[g], values, key);
          add_not_finite(weights[g], tile, key, first_row, values);
        } else {
          multiply_values<false>(weights[g], values, key);
        }
      }
  }

  /// Adds up what the four threads of a row have.
  __device__ void finish_sums() {
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      sum[x] += __shfl_xor_sync(all, sum[x], 1);
      sum[x] += __shfl_xor_sync(all, sum[x], 2);
    }
  }

  __device__ void scale_outputs(float const (&factor)[2]) {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) output[i][x] *= factor[x / 2];
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

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
      top = fmaxf(top, __shfl_xor_sync(all, top, 1));
      top = fmaxf(top, __shfl_xor_sync(all, top, 2));
      // A row that has seen no key yet keeps -inf; its weights are taken over 2^0, which gives 0.
      base[x] = top == -detail::infinity ? 0.f : top;
      factor[x] = exp2f(maximum[x] - base[x]);
      maximum[x] = top;
      sum[x] *= factor[x];
    }
    if (__any_sync(all, factor[0] != 1.f || factor[1] != 1.f)) scale_outputs(factor);
  }

  /// Turns the logits of 16 keys into weights, a left operand.
  __device__ void weigh(float (*score)[4], float const (&base)[2], std::uint32_t (&weights)[4]) {
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
  }

  /// Adds the values of 16 keys, each times its weight; `FiniteOnly`: only those that are finite.
  template <bool FiniteOnly>
  __device__ void multiply_values(std::uint32_t const (&weights)[4], std::uint32_t values,
                                  int key) {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 16; ++i) {
      std::uint32_t b[4];
      load_transposed(b, values_at(values, key, i));
      if constexpr (FiniteOnly)
        for (std::uint32_t& two : b) two &= ~elements_not_finite(two);
      multiply_add<type>(output[2 * i], weights, b[0], b[1]);
      multiply_add<type>(output[2 * i + 1], weights, b[2], b[3]);
    }
  }

  /// Where this thread's part of values 16 i to 16 i + 15 of 16 keys begins.
  __device__ static std::uint32_t values_at(std::uint32_t values, int key, int i) {
    return values + chunk_at<value_dim>(key + lane() % 16, 2 * i + lane() / 16);
  }

  /// The sign bit of each of two elements that is nan or infinite.
  __device__ static std::uint32_t not_finite(std::uint32_t two) {
    constexpr std::uint32_t one_exponent = type == Operand::half ? 0x04000400u : 0x00800080u;
    return ((two & 0x7fff7fffu) + one_exponent) & 0x80008000u;
  }

  /// All bits of each of two elements that is nan or infinite.
  __device__ static std::uint32_t elements_not_finite(std::uint32_t two) {
    return not_finite(two) / 0x8000u * 0xffffu;
  }

  __device__ static bool has_not_finite(std::uint32_t values, int key) {
    std::uint32_t found = 0;
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 16; ++i) {
      std::uint32_t b[4];
      load_transposed(b, values_at(values, key, i));
      found |= not_finite(b[0]) | not_finite(b[1]) | not_finite(b[2]) | not_finite(b[3]);
    }
    return __any_sync(all, found != 0);
  }

  /// Adds what multiply_values left out of 16 keys to the rows that see it, key by key: of one key,
  /// the product with other keys' weights of 0 is of zeros. Rare.
  __device__ void add_not_finite(std::uint32_t const (&weights)[4], TileRecord<Stored> const& tile,
                                 int key, int first_row, std::uint32_t values) {
    int const row = first_row + lane() / 4;
#pragma unroll 1
    for (int k = 0; k < group_keys; ++k) {
      int const at = key + k;
      bool const here = lane() % 4 == k % 8 / 2;  // a thread has two keys of each block of 8
      std::uint32_t const of_key = !here ? 0u : k % 2 == 0 ? 0xffffu : 0xffff0000u;
      bool sees[2];
      FASTTREE_UNROLL
      for (int x = 0; x < 2; ++x)
        sees[x] = row + 8 * x >= tile.row_begin[at] && row + 8 * x < tile.row_end[at] &&
                  tile.positions[at] < visible[x];
      FASTTREE_UNROLL
      for (int i = 0; i < value_dim / 16; ++i) {
        std::uint32_t b[4];
        load_transposed(b, values_at(values, key, i));
        FASTTREE_UNROLL
        for (int n = 0; n < 4; ++n)  // blocks of 8 keys by turns
          b[n] &= n % 2 == k / 8 ? of_key & elements_not_finite(b[n]) : 0u;
        FASTTREE_UNROLL
        for (int n = 0; n < 2; ++n) {
          float product[4] = {};
          multiply_add<type>(product, weights, b[2 * n], b[2 * n + 1]);
          FASTTREE_UNROLL
          for (int x = 0; x < 4; ++x)
            if (sees[x / 2]) output[2 * i + n][x] += product[x];
        }
      }
    }
  }
};

}  // namespace fasttree::cuda::sm80
