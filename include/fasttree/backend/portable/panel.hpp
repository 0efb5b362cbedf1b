// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of the portable backend: a panel of query rows against a tile of keys, by the
// online softmax (FlashAttention; FastTree section 4.1). A SIMD lane is a query row, so nothing is
// ever summed across lanes: scores, maxima, sums and outputs of a row stay in its lane.
//     S = K Q^T,  m' = max(m, S) rounded up to an even integer,  P = 2^(S - m'),
//     l' = l 2^(m - m') + sum P,  O' = O 2^(m - m') + V^T P
// Queries carry softmax_scale * log2(e), so that logits are in base 2. Maxima are integers, so that
// scaling is exact, and sums grow key by key: a row's bits follow from the item's keys in their
// order, not from where tiles end, other rows, lanes or masks. (But for underflow, at 2^-125.)

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/portable/key_rows.hpp>
#include <fasttree/backend/portable/tiles.hpp>
#include <fasttree/core/lanes.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::portable {

/// State of the rows of a panel, `width` = N * panel_vectors of them; row last in all arrays.
template <int N>
struct Panel {
  static constexpr int width = N * panel_vectors;

  /// The rows from register `vector` on.
  KOKKOS_FORCEINLINE_FUNCTION Panel from(int vector) const {
    int const row = vector * N;
    return {queries + row, outputs + row, maxima + row, sums + row, scores, limit + row};
  }

  float* queries;       ///< (head_dim, width), scaled
  float* outputs;       ///< (value_dim, width), not yet divided by the sums
  float* maxima;        ///< (width), of the logits in base 2, rounded up to even integers
  float* sums;          ///< (width), of 2^(logit - maximum)
  float* scores;        ///< (keys of a tile, width)
  std::int32_t* limit;  ///< (width): of the keys of the tile, the row sees those before this one
};

/// Keys and values of a tile as floats: (count, head_dim), (count, value_dim). Keys follow up to a
/// multiple of 8 that are zero.
struct KeyTile {
  float const* keys;
  float const* values;
  int count;
};

/// Keys of which one step takes scores together, and dimensions of one step of the outputs.
template <int Vectors>
inline constexpr int step = Vectors == 1 ? 8 : 4;

/// Lanes whose row sees key `key` of the tile.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION auto sees(std::int32_t const* limit, int key) {
  return IntegerLanes<N>{} + key < load<N>(limit);
}

/// scores(key, row) for `step` keys: the sum over head_dim of key times query.
template <int N, int Vectors, int HeadDim>
KOKKOS_FORCEINLINE_FUNCTION void multiply_keys(float const* keys, float const* queries,
                                               float* scores) {
  constexpr int width = Panel<N>::width;
  Lanes<N> sum[step<Vectors>][Vectors] = {};
  for (int d = 0; d < HeadDim; ++d) {
    Lanes<N> query[Vectors];
    FASTTREE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      query[v] = load<N>(queries + d * width + v * N);
      keep_in_register(query[v]);
    }
    FASTTREE_UNROLL
    for (int k = 0; k < step<Vectors>; ++k) {
      float const key = keys[k * HeadDim + d];
      FASTTREE_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[k][v] += key * query[v];
    }
  }
  FASTTREE_UNROLL
  for (int k = 0; k < step<Vectors>; ++k) FASTTREE_UNROLL
  for (int v = 0; v < Vectors; ++v) store<N>(sum[k][v], scores + k * width + v * N);
}

/// outputs(d, row) = outputs(d, row) * correction(row) + sum over keys of value times score, key by
/// key, for `step` dimensions, in rows that see a key. Masked: a key adds nothing to rows that do
/// not see it, whatever its value holds.
template <int N, int Vectors, int ValueDim, bool Masked>
KOKKOS_FORCEINLINE_FUNCTION void multiply_values(float const* values, int count,
                                                 Panel<N> const& panel,
                                                 Lanes<N> const (&correction)[Vectors],
                                                 float* outputs) {
  constexpr int width = Panel<N>::width;
  Lanes<N> sum[step<Vectors>][Vectors];
  FASTTREE_UNROLL
  for (int d = 0; d < step<Vectors>; ++d) FASTTREE_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    sum[d][v] = load<N>(outputs + d * width + v * N) * correction[v];
    // Or else a compiler might fuse this product with the first sum and round that of value and
    // score, which at every other key is not rounded.
    keep_in_register(sum[d][v]);
  }
  for (int k = 0; k < count; ++k) {
    Lanes<N> score[Vectors];
    FASTTREE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      score[v] = load<N>(panel.scores + k * width + v * N);
      keep_in_register(score[v]);
    }
    FASTTREE_UNROLL
    for (int d = 0; d < step<Vectors>; ++d) {
      float const value = values[k * ValueDim + d];
      FASTTREE_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        Lanes<N> const with_key = multiply_add<N>(value, score[v], sum[d][v]);
        if constexpr (Masked) {
          sum[d][v] = sees<N>(panel.limit + v * N, k) ? with_key : sum[d][v];
        } else {
          sum[d][v] = with_key;
        }
      }
    }
  }
  FASTTREE_UNROLL
  for (int d = 0; d < step<Vectors>; ++d) FASTTREE_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    float* const output = outputs + d * width + v * N;
    store<N>(sees<N>(panel.limit + v * N, 0) ? sum[d][v] : load<N>(output), output);
  }
}

/// Turns the scores of N rows into weights 2^(score - maximum), updates maxima and sums of rows
/// that see a key, and returns the factor by which what was summed before is to be scaled.
template <int N, bool Masked>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> weigh(Panel<N> const& panel, int count, int first_row) {
  constexpr int width = Panel<N>::width;
  float* const scores = panel.scores + first_row;
  Lanes<N> const old_maximum = load<N>(panel.maxima + first_row);
  Lanes<N> maximum = old_maximum;
  for (int k = 0; k < count; ++k) {
    Lanes<N> score = load<N>(scores + k * width);
    if constexpr (Masked) {
      score = sees<N>(panel.limit + first_row, k) ? score : Lanes<N>{} - detail::infinity;
      store<N>(score, scores + k * width);
    }
    maximum = larger(score, maximum);
  }
  maximum = even_not_below<N>(maximum);
  // A row that has seen no key yet keeps -inf; its weights are taken over 2^0, which gives 0.
  Lanes<N> const base = maximum == -detail::infinity ? Lanes<N>{} : maximum;
  Lanes<N> const correction = exp2<N>(old_maximum - base);
  Lanes<N> const old_sum = load<N>(panel.sums + first_row);
  Lanes<N> sum = old_sum * correction;
  for (int k = 0; k < count; ++k) {
    Lanes<N> const weight = exp2_over<N>(load<N>(scores + k * width), base);
    store<N>(weight, scores + k * width);
    sum += weight;
  }
  auto const attends = sees<N>(panel.limit + first_row, 0);
  store<N>(attends ? maximum : old_maximum, panel.maxima + first_row);
  store<N>(attends ? sum : old_sum, panel.sums + first_row);
  return correction;
}

/// Lets the first `Vectors` registers of a panel's rows attend to the keys of a tile. Masked: some
/// row sees some of the keys and not all; unmasked, each row sees all of them or none.
template <int N, int Vectors, int HeadDim, int ValueDim, bool Masked, class Stored>
KOKKOS_INLINE_FUNCTION void attend(Panel<N> const& panel, KeyTile const& tile,
                                   KeyRows<Stored> const& ahead) {
  for (int k = 0; k < tile.count; k += step<Vectors>) {
    prefetch_part<HeadDim>(ahead.keys, ahead.count, k, k + step<Vectors>, tile.count);
    multiply_keys<N, Vectors, HeadDim>(tile.keys + k * HeadDim, panel.queries,
                                       panel.scores + k * Panel<N>::width);
  }
  Lanes<N> correction[Vectors];
  for (int v = 0; v < Vectors; ++v) correction[v] = weigh<N, Masked>(panel, tile.count, v * N);
  for (int d = 0; d < ValueDim; d += step<Vectors>) {
    prefetch_part<ValueDim>(ahead.values, ahead.count, d, d + step<Vectors>, ValueDim);
    multiply_values<N, Vectors, ValueDim, Masked>(tile.values + d, tile.count, panel, correction,
                                                  panel.outputs + d * Panel<N>::width);
  }
}

}  // namespace fasttree::portable
