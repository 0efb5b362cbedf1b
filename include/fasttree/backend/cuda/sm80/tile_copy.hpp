// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a building warp starts to copy its part of a tile, of keys and values or of queries, to
// shared memory.

#include <algorithm>
#include <bit>
#include <cstdint>

#include <fasttree/backend/cuda/sm80/cp_async.hpp>
#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree::cuda::sm80 {

/// Copies of rows that a TileBuilder has found.
template <class Shape, int Warps>
struct TileCopy {
  using Stored = typename Shape::element_type;
  using Tile = KeyTile<Shape, Warps>;

  /// Starts to copy keys and values of the warp's part of a tile.
  template <class Builder>
  __device__ static void start(Builder const& builder, Tile& tile) {
    KeyRow<Stored> const* const rows = builder.rows();
    int const first_key = first_key_of_part();
    if (builder.aligned()) return copy_chunks<0, Shape::value_dim>(rows, first_key, tile);
    copy_elements<Shape::head_dim>(rows, &KeyRow<Stored>::key, 1, first_key, tile.keys);
    copy_elements<Shape::value_dim>(rows, &KeyRow<Stored>::value, 1, first_key, tile.values);
  }

  /// Starts to copy a part of a task's queries, elements `stride` apart, to where keys would be.
  __device__ static void start_queries(KeyRow<Stored> const* rows, int part, std::int64_t stride,
                                       Tile& tile) {
    int const first = part * Record::part_keys;
    auto const address = reinterpret_cast<std::uintptr_t>(rows[threadIdx.x % 32].key);
    if (__all_sync(0xffffffffu, stride == 1 && address % 16 == 0))
      return copy_chunks<0, 0>(rows, first, tile);
    copy_elements<Shape::head_dim>(rows, &KeyRow<Stored>::key, stride, first, tile.keys);
  }

 private:
  using Record = TileRecord<Warps>;

  /// Rows of keys, and of `ValueDim` values, from chunk `First` on, 16 bytes at a time: as many
  /// chunks as a power of two says, of both where both have them; then those that are left.
  template <int First, int ValueDim>
  __device__ static void copy_chunks(KeyRow<Stored> const* rows, int first_key, Tile& tile) {
    constexpr int of_key = Shape::head_dim / 8, of_value = ValueDim / 8;
    constexpr int of_both = std::min(of_key, of_value), of_longer = std::max(of_key, of_value);
    constexpr int left = (First < of_both ? of_both : of_longer) - First;
    constexpr int chunks = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
    constexpr int rows_at_once = 32 / chunks, batch = std::min(chunks, 8);
    int const chunk = First + static_cast<int>(threadIdx.x) % chunks;
    int const first = static_cast<int>(threadIdx.x) % 32 / chunks;
    std::uint32_t const keys = shared_address(tile.keys), values = shared_address(tile.values);
#pragma unroll 1
    for (int begin = first; begin < Record::part_keys; begin += batch * rows_at_once) {
      KeyRow<Stored> from[batch];  // all loaded before the first copy starts
      FASTTREE_UNROLL
      for (int i = 0; i < batch; ++i) from[i] = rows[begin + i * rows_at_once];
      FASTTREE_UNROLL
      for (int i = 0; i < batch; ++i) {
        std::uint32_t const to = chunk_at<Tile::panel>(first_key + begin + i * rows_at_once, chunk);
        if constexpr (First < of_key) copy_16(keys + to, from[i].key + 8 * chunk);
        if constexpr (First < of_value) copy_16(values + to, from[i].value + 8 * chunk);
      }
    }
    if constexpr (First + chunks < of_longer)
      copy_chunks<First + chunks, ValueDim>(rows, first_key, tile);
  }

  /// Which key of a tile is the first of the warp's part.
  __device__ static int first_key_of_part() {
    return (static_cast<int>(threadIdx.x) / 32 - Warps) * Record::part_keys;
  }

  /// Copies rows of any alignment, by the threads themselves.
  template <int Dim>
  __device__ static void copy_elements(KeyRow<Stored> const* rows,
                                       Stored const* KeyRow<Stored>::*part, std::int64_t stride,
                                       int first_key, Stored* to) {
    int const lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int i = lane; i < Record::part_keys * Dim / 8; i += 32) {
      int const row = i / (Dim / 8), chunk = i % (Dim / 8);
      auto* const elements = reinterpret_cast<Stored*>(
          reinterpret_cast<char*>(to) + chunk_at<Tile::panel>(first_key + row, chunk));
      for (int d = 0; d < 8; ++d)
        elements[d].bits = (rows[row].*part)[(8 * chunk + d) * stride].bits;
    }
  }
};

}  // namespace fasttree::cuda::sm80
