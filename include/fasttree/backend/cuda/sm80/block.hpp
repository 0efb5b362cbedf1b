// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a block of the sm80 backend divides its work, and what planners see of it.

#include <fasttree/plan/tile_policy.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int group_keys = 16;  ///< keys that a step of the arithmetic takes
inline constexpr int warp_rows = 16;

/// How a block of so many multiplying warps, 4 or 8, divides its work: a tile has 16 keys and as
/// many rows for each of them, and a warp that builds for every two.
template <int Warps>
struct Block {
  static_assert(Warps == 4 || Warps == 8);
  static constexpr int multiply_threads = 32 * Warps;
  static constexpr int build_warps = Warps / 2;
  static constexpr int threads = multiply_threads + 32 * build_warps;
  static constexpr int tile_keys = group_keys * Warps;
  static constexpr int tile_rows = warp_rows * Warps;
};

/// Wide: each warp has 16 rows and reads all keys; where rows are few, several warps have the same
/// and share the keys. Narrow: 16 rows in all, each warp reads 16 keys of a tile.
template <int Warps>
inline constexpr TilePolicy wide_tile{.query_rows = Block<Warps>::tile_rows,
                                      .key_rows = Block<Warps>::tile_keys,
                                      .row_step = warp_rows,
                                      .row_teams = Warps};
template <int Warps>
inline constexpr TilePolicy narrow_tile{
    .query_rows = warp_rows, .key_rows = Block<Warps>::tile_keys, .row_step = warp_rows};

}  // namespace fasttree::cuda::sm80
