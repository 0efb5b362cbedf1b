// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry of the sm80 backend, and its shared memory: a ring of key tiles of 16-bit elements.
// A row of a tile is whole chunks of 16 bytes, which lie rotated by their row (exclusive or), so
// that the eight rows that ldmatrix reads at once are in different banks.

#include <cstdint>
#include <type_traits>

#include <fasttree/backend/cuda/sm80/mma.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/core/attention_shape.hpp>
#include <fasttree/plan/tile_policy.hpp>

namespace fasttree::cuda::sm80 {

/// Heads that the kernels of this backend are written for.
template <class Shape>
inline constexpr bool supports = false;
template <Element E, int Dim>
inline constexpr bool supports<AttentionShape<E, Dim, Dim>> =
    !std::is_same_v<E, float> && (Dim == 64 || Dim == 128);

template <class Stored>
inline constexpr Operand operand = std::is_same_v<Stored, half> ? Operand::half : Operand::bfloat16;

inline constexpr int multiply_warps = 4;
inline constexpr int multiply_threads = 32 * multiply_warps;
inline constexpr int threads = multiply_threads + 32;  ///< and the warp that builds tiles

/// Wide: 16 rows to a warp, each warp reads all keys. Narrow: 16 rows in all, each warp reads 16
/// keys of a tile.
inline constexpr TilePolicy wide_tile{
    .query_rows = tile_rows, .key_rows = tile_keys, .row_step = 16};
inline constexpr TilePolicy narrow_tile{.query_rows = 16, .key_rows = tile_keys, .row_step = 16};

/// Shared memory of a block.
template <class Shape>
struct SharedMemory {
  using Stored = typename Shape::element_type;
  static constexpr int tile_bytes = tile_keys * 2 * (Shape::head_dim + Shape::value_dim);
  /// Tiles in the ring: two of head_dim 128, 64 KB. Two blocks fit into the 164 KB of an A100's
  /// multiprocessor, one into the 100 KB of an RTX 4090's.
  static constexpr int stages = 64 * 1024 / tile_bytes;
  static constexpr int records_in_use = stages + 1;

  Stored keys[stages][tile_keys * Shape::head_dim];
  Stored values[stages][tile_keys * Shape::value_dim];
  float outputs[narrow_tile.query_rows * Shape::value_dim];  ///< of a warp, for another
  float2 sums[multiply_warps][narrow_tile.query_rows];       ///< maximum and sum of the weights
  TileRecord<Stored> records[records_in_use];
};

/// Where chunk `chunk` of row `row` of Dim elements lies, in bytes.
template <int Dim>
__device__ __forceinline__ std::uint32_t chunk_at(int row, int chunk) {
  return static_cast<std::uint32_t>(row * Dim * 2 + ((chunk ^ (row & 7)) << 4));
}

}  // namespace fasttree::cuda::sm80
