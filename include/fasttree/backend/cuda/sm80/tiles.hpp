// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry of the sm80 backend, and its shared memory: a ring of key tiles of 16-bit elements.
// A row of a tile is whole chunks of 16 bytes, eight of them in a row of a panel, where they lie
// rotated by their row (exclusive or), so that the eight rows that ldmatrix reads at once are in
// different banks; wgmma wants them so as well.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <fasttree/backend/cuda/sm80/mbarrier.hpp>
#include <fasttree/backend/cuda/sm80/mma.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/core/attention_shape.hpp>

namespace fasttree::cuda::sm80 {

/// A length of rows that the kernels of this backend are written for.
constexpr bool has_dim(int dim) {
  return dim == 64 || dim == 96 || dim == 128 || dim == 192 || dim == 256;
}

/// Heads of such rows.
template <class Shape>
inline constexpr bool supports = false;
template <Element E, int HeadDim, int ValueDim>
inline constexpr bool supports<AttentionShape<E, HeadDim, ValueDim>> =
    !std::is_same_v<E, float> && has_dim(HeadDim) && has_dim(ValueDim);

/// Heads whose tiles and accumulators want blocks of four warps, one to a multiprocessor.
template <class Shape>
inline constexpr bool is_large = Shape::head_dim > 128 || Shape::value_dim > 128;

template <class Stored>
inline constexpr Operand operand = std::is_same_v<Stored, half> ? Operand::half : Operand::bfloat16;

/// Bytes of a row of a panel: a tile lies in panels of 64 columns.
inline constexpr int panel_row = 128;

/// Elements of a row of so many, in whole panels.
constexpr int padded(int dim) { return (dim + 63) / 64 * 64; }

/// Keys and values of a tile, or queries in the place of keys. Where a panel is wider than they
/// are, anything may lie in it.
template <class Shape, int Warps>
struct KeyTile {
  using Stored = typename Shape::element_type;
  static constexpr int panel = Block<Warps>::tile_keys * panel_row;  ///< bytes

  Stored keys[Block<Warps>::tile_keys * padded(Shape::head_dim)];
  Stored values[Block<Warps>::tile_keys * padded(Shape::value_dim)];
};

/// Shared memory of a block, one of `Blocks` of a multiprocessor: this, and before it the ring of
/// key tiles.
template <class Shape, int Warps, int Blocks>
struct SharedMemory {
  using Stored = typename Shape::element_type;
  using Tile = KeyTile<Shape, Warps>;
  static constexpr int most_stages = static_cast<int>(192 * 1024 / Blocks / sizeof(Tile));

  /// Eight rows of results of each warp; or outputs on their way from each to another.
  alignas(16) std::byte stage[Warps][16 * Shape::value_dim];
  float2 sums[Warps][warp_rows];  ///< maximum and sum of the weights
  TileRecord<Warps> tiles[most_stages];
  /// Of the tiles in the ring and of the one before, which is being closed; and one to spare.
  TaskRecord<Warps> tasks[most_stages + 2];
  BuilderMemory<Stored, Warps> builder;
  PhaseBarrier full[most_stages], empty[most_stages];

  __device__ std::uint32_t stage_of_warp() { return shared_address(stage[threadIdx.x / 32]); }
  __device__ float2* pairs_of(int warp) { return reinterpret_cast<float2*>(stage[warp]); }

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
