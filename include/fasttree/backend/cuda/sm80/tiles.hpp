// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry of the sm80 backend, and its shared memory: a ring of key tiles of 16-bit elements.
// A row of a tile is whole chunks of 16 bytes, eight of them in a row of a panel, where they lie
// rotated by their row (exclusive or), so that the eight rows that ldmatrix reads at once are in
// different banks; wgmma wants them so as well.

#include <cstdint>
#include <type_traits>

#include <fasttree/backend/cuda/sm80/mbarrier.hpp>
#include <fasttree/backend/cuda/sm80/mma.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/core/attention_shape.hpp>

namespace fasttree::cuda::sm80 {

/// Heads that the kernels of this backend are written for.
template <class Shape>
inline constexpr bool supports = false;
template <Element E, int Dim>
inline constexpr bool supports<AttentionShape<E, Dim, Dim>> =
    !std::is_same_v<E, float> && (Dim == 64 || Dim == 128);

template <class Stored>
inline constexpr Operand operand = std::is_same_v<Stored, half> ? Operand::half : Operand::bfloat16;

/// Bytes of a row of a panel: a tile lies in panels of 64 columns.
inline constexpr int panel_row = 128;

/// Keys and values of a tile.
template <class Shape, int Warps>
struct KeyTile {
  using Stored = typename Shape::element_type;
  static constexpr int panel = Block<Warps>::tile_keys * panel_row;  ///< bytes

  Stored keys[Block<Warps>::tile_keys * Shape::head_dim];
  Stored values[Block<Warps>::tile_keys * Shape::value_dim];
};

/// Shared memory of a block: this, and before it the ring of key tiles.
template <class Shape, int Warps>
struct SharedMemory {
  using Stored = typename Shape::element_type;
  using Tile = KeyTile<Shape, Warps>;
  static constexpr int most_stages = static_cast<int>(24 * 1024 * Warps / sizeof(Tile));

  float2 outputs[2][warp_rows * Shape::value_dim / 2];  ///< of two warps, for two others
  float2 sums[Warps][warp_rows];                        ///< maximum and sum of the weights
  TileRecord<Warps> tiles[most_stages];
  /// Of the tiles in the ring, of the one before that is closed, and of the one to come.
  TaskRecord<Warps> tasks[most_stages + 2];
  BuilderMemory<Stored, Warps> builder;
  PhaseBarrier full[most_stages], empty[most_stages];

  /// Bytes with a ring of so many tiles.
  static constexpr std::size_t bytes(int stages) {
    return sizeof(SharedMemory) + stages * sizeof(Tile);
  }
};

/// Where chunk `chunk` of row `row` lies, in bytes, for panels of so many bytes.
template <int Panel>
__device__ __forceinline__ std::uint32_t chunk_at(int row, int chunk) {
  return static_cast<std::uint32_t>(chunk / 8 * Panel + row * panel_row +
                                    ((chunk % 8 ^ (row & 7)) << 4));
}

/// From where chunk 0 or 1 of a row lies: an even number of chunks on.
template <int Panel>
__device__ __forceinline__ std::uint32_t chunks_on(std::uint32_t at, int chunks) {
  return (at ^ static_cast<std::uint32_t>(chunks % 8) << 4) + chunks / 8 * Panel;
}

}  // namespace fasttree::cuda::sm80
