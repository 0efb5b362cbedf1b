// SPDX-License-Identifier: Apache-2.0
#pragma once
// 16 query rows of a warp, in its registers, and their online softmax over the keys of a tile in
// shared memory (FlashAttention 2; FastTree section 4.1):
//     S = scale Q K^T,  m' = max(m, S),  P = 2^(S - m'),  l' = l 2^(m - m') + sum P,
//     O' = O 2^(m - m') + P V
// Logits are in base 2. P is rounded to the elements of V where it multiplies them, not in the sum.
// A weight of 0 does not keep nan or inf among values from a row that does not see them: its
// outputs are then not finite, and it is computed again (single_row.hpp).

#include <cstdint>

#include <fasttree/backend/cuda/sm80/mma.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>
#include <fasttree/backend/cuda/sm90/wgmma.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::cuda::sm80 {

/// Of the 16 rows a thread has two, `row` and `row + 8`: see mma.hpp.
template <class Shape, int Warps>
class QueryRows {
 public:
  using Tile = TileRecord<Warps>;
  using Stored = typename Shape::element_type;
  static constexpr Operand type = operand<Stored>;
  static constexpr bool is_bfloat16 = type == Operand::bfloat16;
  static constexpr int head_dim = Shape::head_dim;
  static constexpr int value_dim = Shape::value_dim;

  std::uint32_t query[head_dim / 16][4];
  /// In whole panels, as wgmma takes them; what is behind value_dim may be anything.
  float output[padded(value_dim) / 8][4];
  float scale;               ///< positive: of products of queries and keys, to logits in base 2
  float maximum[2], sum[2];  ///< of products; of the weights of keys that this thread has had

  /// Begins with queries that lie as keys of a tile do, these rows from `first_row` on.
  __device__ void open(std::uint32_t queries, int first_row, bool negated) {
    std::uint32_t const at = queries + chunk_at<panel>(first_row + lane() % 16, lane() / 16);
    FASTTREE_UNROLL
    for (int k = 0; k < head_dim / 16; ++k) load_matrices(query[k], chunks_on<panel>(at, 2 * k));
    if (negated) {
      FASTTREE_UNROLL
      for (auto& block : query) FASTTREE_UNROLL
      for (std::uint32_t& pair : block) pair ^= 0x80008000u;
    }
    FASTTREE_UNROLL
    for (auto& block : output) FASTTREE_UNROLL
    for (float& x : block) x = 0.f;
    maximum[0] = maximum[1] = -detail::infinity;
    sum[0] = sum[1] = 0.f;
  }

  /// Attends to some groups of 16 keys of a tile, as of TileRecord::groups_of; `first_row`: which
  /// 16 rows of the task these are; `visible`: of the task. `keys`, `values`: of the whole tile, in
  /// shared memory. One group at a time: products of two would not fit the registers, and cost more
  /// than they gain.
  __device__ void attend(Tile const& tile, int const* visible, int first_row, unsigned groups,
                         std::uint32_t keys, std::uint32_t values) {
#pragma unroll 1
    for (; groups != 0; groups &= groups - 1) {
      int const group = __ffs(groups) - 1, key = Tile::key_of(group);
      float product[2][4], base[2];
      std::uint32_t weights[4];
      multiply_keys(product, keys + key * panel_row);
      if (unsigned const masks = tile.masks[group / 8])
        mask(product, tile, masks, visible, key, first_row);
      raise_maximum(product, base);
      weigh(product, base, weights);
      multiply_values(weights, values + key * panel_row);
    }
  }

  /// Attends to so many keys of a tile, 64 or 128, from `first_key` on, together with the other
  /// warps of the warpgroup. Without branches about the products, before which the compiler would
  /// wait.
  template <int Keys>
  __device__ void attend_together(Tile const& tile, int first_key, int const* visible,
                                  int first_row, std::uint32_t keys, std::uint32_t values) {
    float product[Keys / 8][4], base[2];
    sm90::show_copies_to_products();
    sm90::begin_products();
    FASTTREE_UNROLL
    for (int k = 0; k < head_dim / 16; ++k)
      sm90::multiply<is_bfloat16, 0>(
          product, query[k],
          sm90::matrix(keys + k / 4 * panel + first_key * panel_row + k % 4 * 32, 16, 1024), k > 0);
    sm90::finish_products();
    keep(product);
    int const first_part = first_key / Tile::part_keys;
    if (unsigned const masks = tile.all_masks() >> 8 * first_part) [[unlikely]] {
      FASTTREE_UNROLL
      for (int g = 0; g < Keys / group_keys; ++g)
        mask(&product[2 * g], tile, masks >> g / 2 * 8, visible, first_key + g * group_keys,
             first_row);
    }
    raise_maximum(product, base);
    std::uint32_t weights[Keys / group_keys][4];
    FASTTREE_UNROLL
    for (int g = 0; g < Keys / group_keys; ++g) weigh(&product[2 * g], base, weights[g]);
    sm90::begin_products();
    FASTTREE_UNROLL
    for (int g = 0; g < Keys / group_keys; ++g)
      multiply_panels<0>(weights[g], values + (first_key + g * group_keys) * panel_row);
    sm90::finish_products();
    keep(output);
  }

  /// Adds up what the four threads of a row have.
  __device__ void finish_sums() {
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      sum[x] += __shfl_xor_sync(all, sum[x], 1);
      sum[x] += __shfl_xor_sync(all, sum[x], 2);
    }
  }

  /// Whether this thread's outputs of a row, in the first blocks of columns, are all finite.
  __device__ bool is_finite(int x, int blocks) const {
    float zeros[2] = {};  // nan times 0 and inf times 0 are not 0
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) {
      if (ends_at(i) && i >= blocks) break;
      FASTTREE_UNROLL
      for (int e = 0; e < 2; ++e) zeros[e] = fmaf(output[i][2 * x + e], 0.f, zeros[e]);
    }
    return zeros[0] + zeros[1] == 0.f;
  }

  /// Whether so many blocks of eight columns are half of all or a quarter, as a warp may have.
  static constexpr bool ends_at(int blocks) {
    return blocks == value_dim / 16 || blocks == value_dim / 32;
  }

  __device__ void scale_outputs(float const (&factor)[2]) {
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) output[i][x] *= factor[x / 2];
  }

 private:
  static constexpr unsigned all = 0xffffffffu;
  static constexpr int panel = KeyTile<Shape, Warps>::panel;

  /// Registers that products of tensor cores have been written to may be read from here on.
  template <int Blocks>
  __device__ static void keep(float (&sum)[Blocks][4]) {
    FASTTREE_UNROLL
    for (int n = 0; n < Blocks; ++n) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) asm volatile("" : "+f"(sum[n][x])::"memory");
  }

  /// Adds values of 16 keys, each times its weight, by wgmma: of two panels at a time, from panel
  /// `First` on.
  template <int First>
  __device__ void multiply_panels(std::uint32_t const (&weights)[4], std::uint32_t values) {
    constexpr int left = padded(value_dim) / 64 - First, blocks = left > 1 ? 16 : 8;
    sm90::multiply<is_bfloat16, 1>(
        reinterpret_cast<float(&)[blocks][4]>(output[8 * First]), weights,
        sm90::matrix(values + First * panel, panel, 8 * panel_row), true);
    if constexpr (left > 2) multiply_panels<First + 2>(weights, values);
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Products with 16 keys, in two blocks of 8. The even and the odd steps are added up apart: a
  /// step waits for the one that it is added to.
  __device__ void multiply_keys(float (&product)[2][4], std::uint32_t keys) const {
    float odd[2][4];
    std::uint32_t const at = keys + chunk_at<panel>(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2);
    FASTTREE_UNROLL
    for (int k = 0; k < head_dim / 16; ++k) {
      std::uint32_t b[4];
      load_matrices(b, chunks_on<panel>(at, 2 * k));
      auto& sum = k % 2 == 0 ? product : odd;
      if (k < 2) {
        multiply<type>(sum[0], query[k], b[0], b[1]);
        multiply<type>(sum[1], query[k], b[2], b[3]);
      } else {
        multiply_add<type>(sum[0], query[k], b[0], b[1]);
        multiply_add<type>(sum[1], query[k], b[2], b[3]);
      }
    }
    FASTTREE_UNROLL
    for (int n = 0; n < 2; ++n) FASTTREE_UNROLL
    for (int x = 0; x < 4; ++x) product[n][x] += odd[n][x];
  }

  /// Takes away what a row does not see, of 16 keys.
  __device__ void mask(float (*product)[4], Tile const& tile, unsigned masks, int const* visible,
                       int key, int first_row) const {
    int const row = first_row + lane() / 4;
    FASTTREE_UNROLL
    for (int n = 0; n < 2; ++n) {
      int const at = key + n * 8 + lane() % 4 * 2;  // and the next
      std::uint32_t const two = *reinterpret_cast<std::uint32_t const*>(&tile.rows[at]);
      FASTTREE_UNROLL
      for (int e = 0; e < 2; ++e) {
        int const begin = two >> 16 * e & 0xff, count = two >> (16 * e + 8) & 0xff;
        FASTTREE_UNROLL
        for (int x = 0; x < 2; ++x)
          if (static_cast<unsigned>(row + 8 * x - begin) >= static_cast<unsigned>(count))
            product[n][2 * x + e] = -detail::infinity;
      }
      if ((masks & Tile::tails) == 0) continue;
      FASTTREE_UNROLL
      for (int e = 0; e < 2; ++e) FASTTREE_UNROLL
      for (int x = 0; x < 2; ++x)
        if (tile.positions[at + e] >= visible[row + 8 * x])
          product[n][2 * x + e] = -detail::infinity;
    }
  }

  /// Updates the maxima where weights would be above 2^8, and scales sums and outputs to them;
  /// `base` is what to weigh over.
  template <int Blocks>
  __device__ void raise_maximum(float const (&product)[Blocks][4], float (&base)[2]) {
    float factor[2];
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      float top = maximum[x];
      FASTTREE_UNROLL
      for (int n = 0; n < Blocks; ++n)
        top = fmaxf(top, fmaxf(product[n][2 * x], product[n][2 * x + 1]));
      top = fmaxf(top, __shfl_xor_sync(all, top, 1));
      top = fmaxf(top, __shfl_xor_sync(all, top, 2));
      if ((top - maximum[x]) * scale <= 8.f) top = maximum[x];
      // A row that has seen no key yet keeps -inf; its weights are taken over 2^0, which gives 0.
      base[x] = top == -detail::infinity ? 0.f : top * scale;
      factor[x] = top == maximum[x] ? 1.f : exp2_approximate(maximum[x] * scale - base[x]);
      maximum[x] = top;
      sum[x] *= factor[x];
    }
    if (__any_sync(all, factor[0] != 1.f || factor[1] != 1.f)) scale_outputs(factor);
  }

  /// Turns the products of 16 keys into weights, a left operand.
  __device__ void weigh(float const (*product)[4], float const (&base)[2],
                        std::uint32_t (&weights)[4]) {
    FASTTREE_UNROLL
    for (int n = 0; n < 2; ++n) {
      float weight[4];
      FASTTREE_UNROLL
      for (int x = 0; x < 4; ++x) {
        weight[x] = exp2_approximate(product[n][x] * scale - base[x / 2]);
        sum[x / 2] += weight[x];
      }
      weights[2 * n] = pack<type>(weight[0], weight[1]);
      weights[2 * n + 1] = pack<type>(weight[2], weight[3]);
    }
  }

  /// Adds the values of 16 keys, each times its weight.
  __device__ void multiply_values(std::uint32_t const (&weights)[4], std::uint32_t values) {
    std::uint32_t const at = values + chunk_at<panel>(lane() % 16, lane() / 16);
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 16; ++i) {
      std::uint32_t b[4];
      load_transposed(b, chunks_on<panel>(at, 2 * i));
      multiply_add<type>(output[2 * i], weights, b[0], b[1]);
      multiply_add<type>(output[2 * i + 1], weights, b[2], b[3]);
    }
  }
};

}  // namespace fasttree::cuda::sm80
