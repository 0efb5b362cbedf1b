// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry by which planners size work items: compile-time values in a backend's type, which is
// part of the plan's type, so that no plan reaches a kernel whose tiles it does not know.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace fasttree {

/// A tile of attention: `query_rows` rows (queries x query heads of one KV head) against `key_rows`
/// keys. A key range pays for its rows in whole `row_step`s, those of a SIMD register or a warp.
struct TilePolicy {
  int query_rows = 64;
  int key_rows = 64;
  int row_step = 1;
  /// How many teams of threads have rows of their own, a step each, if they do: what rows of one
  /// team see alone takes as long as if all teams had as many keys. At most 8.
  int row_teams = 1;

  /// Teams with rows of their own where there are so many steps of rows; others share theirs.
  constexpr std::uint32_t teams_of(std::uint32_t steps) const {
    return std::min(static_cast<std::uint32_t>(row_teams), std::bit_ceil(steps));
  }

  friend constexpr bool operator==(TilePolicy const&, TilePolicy const&) = default;
};

/// The tiles of a backend: items of many rows take the wide one, items that fit the narrow one take
/// it. Each may have an arithmetic of its own; where both are the same there is but one.
struct Tiles {
  TilePolicy wide;
  TilePolicy narrow;
  /// Keys that an item should have at most: those of a token lie near each other for all KV heads,
  /// whose turns at one item follow each other.
  int most_keys = 1 << 30;

  friend constexpr bool operator==(Tiles const&, Tiles const&) = default;
};

}  // namespace fasttree
