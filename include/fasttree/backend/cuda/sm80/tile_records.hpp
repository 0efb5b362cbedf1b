// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the warps that build tiles tell those that multiply them, in shared memory.

#include <cstdint>

#include <fasttree/plan/work_item.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int tile_keys = 64;
inline constexpr int tile_rows = 64;
inline constexpr int group_keys = 16;  ///< keys that a step of the arithmetic takes
inline constexpr int warp_rows = 16;

/// A work item for one KV head. An item of one query may have more rows than a tile: then there is
/// a task for each `tile_rows` of them.
struct Task {
  WorkItem item;
  int kv_head;
  int first_row;  ///< of the item's rows
  int rows;
  bool narrow;

  /// Of the item's, counted from the first of its queries: which query, and which head, a row is.
  __device__ int query_of(int row, int group) const { return (first_row + row) / group; }
  __device__ int head_of(int row, int group) const {
    return kv_head * group + (first_row + row) % group;
  }
};

/// A task and its query rows.
struct TaskRecord {
  int queries[tile_rows];  ///< of the array of queries
  int visible[tile_rows];  ///< keys of its path that a row sees
  Task task;
};

/// A tile of keys, which lie in the place of the ring that has the same number.
struct TileRecord {
  int positions[tile_keys];  ///< along the paths
  /// Rows of the task that attend to a key: the first, and 256 times their number, 0 where there is
  /// no key.
  alignas(4) std::uint16_t rows[tile_keys];
  std::uint16_t groups_of_warps;  ///< 4 bits a warp, one for each group that its rows see
  bool for_all_rows;  ///< all keys exist, and all rows attend to them as far as their tails allow
  bool together;      ///< its keys are those of rows of several warps, of a task of the wide tile
  bool has_tails;     ///< some keys are behind what some row sees of its path
  int task;           ///< its place among the task records; none: there are no more tiles

  static constexpr int none = -1;

  /// The groups that rows of a warp see, a bit for each.
  __device__ int groups_of(int warp) const { return groups_of_warps >> 4 * warp & 0xf; }
};

/// Where a key and its value lie.
template <class Stored>
struct alignas(16) KeyRow {
  Stored const *key, *value;
};

}  // namespace fasttree::cuda::sm80
