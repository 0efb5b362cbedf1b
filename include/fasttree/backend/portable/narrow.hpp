// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of the portable backend for few query rows, where a SIMD lane for each row would
// leave most lanes empty (one request alone has as many rows as a KV head has query heads). Here
// lanes run along head_dim: a key is read and converted once, multiplied with every row, and summed
// across lanes, N sums at a time. Scores lie (key, row), so a register holds N / Rows keys of all
// rows, and maxima and sums are kept in that pattern: lane l is for row l % Rows.

#include <cstdint>

#include <fasttree/backend/portable/key_rows.hpp>
#include <fasttree/core/lanes.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::portable {

/// The most rows that are computed with in this way.
inline constexpr int narrow_rows = 4;

/// Whether lanes can run along head_dim at all.
template <int N>
inline constexpr bool has_narrow = N > 1;

/// Keys of a tile of theirs. Two tiles are under way at a time, one read and one asked for; of a
/// cache in token order, with rows a page apart, longer ones crowd each other out of the sets of
/// L2.
inline constexpr int narrow_key_rows = 16;

/// Lanes of the narrow arithmetic for a shape: native ones where they divide both dimensions.
template <int N, class Shape>
inline constexpr int narrow_lanes = N <= 8 ||
                                            (Shape::head_dim % N == 0 && Shape::value_dim % N == 0)
                                        ? N
                                        : 8;

/// State of up to `narrow_rows` rows, `Rows` of which are in use.
template <int N>
struct NarrowPanel {
  float* queries;  ///< (rows, head_dim), scaled
  float* outputs;  ///< (rows, value_dim), not yet divided by the sums
  float* maxima;   ///< (N), of the logits in base 2, by the pattern
  float* sums;     ///< (N), of 2^(logit - maximum), one part in each lane of the pattern
  float* scores;   ///< (keys of a tile, rows)
  std::int32_t const*
      limit;  ///< (rows): of the keys of the tile, the row sees those before this one
};

/// Scores of N / Rows keys, of which `count` exist; beyond them the last is taken again.
template <int N, int Rows, int HeadDim, class Stored>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> multiply_keys(Stored const* const* keys, int count,
                                                   float const* queries) {
  constexpr int together = N / Rows;
  Stored const* key[together];
  FASTTREE_UNROLL
  for (int k = 0; k < together; ++k) key[k] = keys[k < count ? k : count - 1];
  Lanes<N> sum[N] = {};
  for (int d = 0; d < HeadDim; d += N) {
    Lanes<N> query[Rows];
    FASTTREE_UNROLL
    for (int r = 0; r < Rows; ++r) query[r] = load<N>(queries + r * HeadDim + d);
    FASTTREE_UNROLL
    for (int k = 0; k < together; ++k) {
      Lanes<N> value = load<N>(key[k] + d);
      keep_in_register(value);
      FASTTREE_UNROLL
      for (int r = 0; r < Rows; ++r) sum[k * Rows + r] += value * query[r];
    }
  }
  return sums_of<N>(sum);
}

/// Adds the values of a tile, each times its weights, to Together x N dimensions of all rows'
/// outputs.
template <int N, int Rows, int ValueDim, int Together, bool Masked, class Stored>
KOKKOS_FORCEINLINE_FUNCTION void multiply_values(Stored const* const* values, int count, int first,
                                                 NarrowPanel<N> const& panel,
                                                 float const* correction) {
  Lanes<N> sum[Rows][Together] = {};
  for (int k = 0; k < count; ++k) {
    Stored const* const row = values[k] + first;
    Lanes<N> value[Together];
    FASTTREE_UNROLL
    for (int t = 0; t < Together; ++t) {
      value[t] = load<N>(row + t * N);
      keep_in_register(value[t]);
    }
    FASTTREE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      if (Masked && k >= panel.limit[r]) continue;
      float const weight = panel.scores[k * Rows + r];
      FASTTREE_UNROLL
      for (int t = 0; t < Together; ++t) sum[r][t] += weight * value[t];
    }
  }
  FASTTREE_UNROLL
  for (int r = 0; r < Rows; ++r) FASTTREE_UNROLL
  for (int t = 0; t < Together; ++t) {
    float* const output = panel.outputs + r * ValueDim + first + t * N;
    store<N>(load<N>(output) * correction[r] + sum[r][t], output);
  }
}

/// Lets `Rows` rows attend to the keys of a tile. Masked: some row does not see all of them.
template <int N, int Rows, int HeadDim, int ValueDim, bool Masked, class Stored>
KOKKOS_INLINE_FUNCTION void attend(NarrowPanel<N> const& panel, KeyRows<Stored> const& tile,
                                   KeyRows<Stored> const& ahead) {
  int const count = tile.count;
  constexpr int together = N / Rows;
  std::int32_t pattern[N], key_of_lane[N];
  for (int l = 0; l < N; ++l) {
    pattern[l] = panel.limit[l % Rows] < count ? panel.limit[l % Rows] : count;
    key_of_lane[l] = l / Rows;
  }
  IntegerLanes<N> const limit = load<N>(pattern) - load<N>(key_of_lane);
  Lanes<N> const old_maximum = load<N>(panel.maxima);
  Lanes<N> maximum = old_maximum;
  for (int k = 0; k < count; k += together) {
    prefetch_part<HeadDim>(ahead.keys, ahead.count, k, k + together, count);
    Lanes<N> score = multiply_keys<N, Rows, HeadDim>(tile.keys + k, count - k, panel.queries);
    score = IntegerLanes<N>{} + k < limit ? score : Lanes<N>{} - detail::infinity;
    maximum = larger(score, maximum);
    store<N>(score, panel.scores + k * Rows);
  }
  maximum = across_lanes<N, Rows>(
      maximum, [](Lanes<N> const& a, Lanes<N> const& b) { return larger(a, b); });
  Lanes<N> const base = maximum == -detail::infinity ? Lanes<N>{} : maximum;
  Lanes<N> const correction = exp2<N>(old_maximum - base);
  Lanes<N> sum = load<N>(panel.sums) * correction;
  for (int k = 0; k < count; k += together) {
    Lanes<N> const weight = exp2<N>(load<N>(panel.scores + k * Rows) - base);
    store<N>(weight, panel.scores + k * Rows);
    sum += weight;
  }
  store<N>(maximum, panel.maxima);
  store<N>(sum, panel.sums);
  float row_correction[N];
  store<N>(correction, row_correction);
  constexpr int most = 8 / Rows;  // registers side by side: 8 sums in flight
  int d = 0;
  for (; d + most * N <= ValueDim; d += most * N) {
    prefetch_part<ValueDim>(ahead.values, ahead.count, d, d + most * N, ValueDim);
    multiply_values<N, Rows, ValueDim, most, Masked>(tile.values, count, d, panel, row_correction);
  }
  for (; d < ValueDim; d += N) {
    prefetch_part<ValueDim>(ahead.values, ahead.count, d, d + N, ValueDim);
    multiply_values<N, Rows, ValueDim, 1, Masked>(tile.values, count, d, panel, row_correction);
  }
}

}  // namespace fasttree::portable
