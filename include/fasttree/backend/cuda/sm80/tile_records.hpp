// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the warps that build tiles tell those that multiply them, in shared memory.

#include <cstdint>
#include <type_traits>

#include <fasttree/backend/cuda/sm80/block.hpp>
#include <fasttree/plan/work_item.hpp>

namespace fasttree::cuda::sm80 {

/// A work item for one KV head. An item of one query may have more rows than a tile: then there is
/// a task for each tile of them. Of few rows several warps have the same, and different keys:
/// warp w has rows 16 (w mod n) to 16 (w mod n) + 15 and keys of way w / n, n being `row_warps`.
struct Task {
  WorkItem item;
  int kv_head;
  int first_row;  ///< of the item's rows
  int rows;
  int row_warps;  ///< warps of different rows: 1, 2, 4 or 8
  int group;      ///< query heads of a KV head

  /// The query of a row, counted from the first of the item's, and its head.
  struct Row {
    int query, head;
  };
  __device__ Row row(int number) const {
    return row_of(number, static_cast<int>(static_cast<unsigned>(first_row + number) /
                                           static_cast<unsigned>(group)));
  }
  /// The same, its query being known.
  __device__ Row row_of(int number, int query) const {
    return {query, kv_head * group + first_row + number - query * group};
  }
};

/// A task and its query rows.
template <int Warps>
struct TaskRecord {
  int queries[Block<Warps>::tile_rows];  ///< of the array of queries
  int visible[Block<Warps>::tile_rows];  ///< keys of its path that a row sees
  /// The query of a row, counted from the first of the item's.
  std::uint8_t of_item[Block<Warps>::tile_rows];
  Task task;

  /// As of the task, without a division.
  __device__ Task::Row row(int number) const { return task.row_of(number, of_item[number]); }
};

/// A tile of keys, which lie in the place of the ring that has the same number. Each warp that
/// builds describes a part of 32 keys. The first tile of a task has its queries in the place of
/// keys, and says no more than `task`.
template <int Warps>
struct TileRecord {
  static constexpr int part_keys = 2 * group_keys;
  static constexpr int parts = Block<Warps>::build_warps;

  int positions[Block<Warps>::tile_keys];  ///< along the paths
  /// Rows of the task that attend to a key: the first, and 256 times their number, 0 where there is
  /// no key.
  alignas(4) std::uint16_t rows[Block<Warps>::tile_keys];
  /// Groups of a part that a warp has to multiply: a bit for each.
  alignas(parts) std::uint8_t groups[Warps][parts];
  /// What of a part is to be masked: bits of `Masks`.
  alignas(parts) std::uint8_t masks[parts];
  int together;  ///< parts with keys, if they are those of rows of several warps; else 0
  int task;      ///< its place among the task records; none: there are no more tiles
  bool is_last;  ///< of the task, as far as is known

  static constexpr int none = -1;
  enum Masks : std::uint8_t {
    some_rows = 1,  ///< some key does not exist, or some rows do not attend to it
    tails = 2,      ///< some key is behind what some row sees of its path
  };

  /// The masks of all parts, a byte each.
  __device__ unsigned all_masks() const { return word(masks); }

  /// The groups that a warp has to multiply, a bit for each: bit 8 p + g for group g of part p.
  __device__ unsigned groups_of(int warp) const { return word(groups[warp]); }
  /// The first key of a group of such a bit.
  __device__ static int key_of(int bit) { return bit / 8 * part_keys + bit % 8 * group_keys; }

 private:
  __device__ static unsigned word(std::uint8_t const (&bytes)[parts]) {
    using Word = std::conditional_t<parts == 4, std::uint32_t, std::uint16_t>;
    return *reinterpret_cast<Word const*>(bytes);
  }
};

/// Where a key and its value lie.
template <class Stored>
struct alignas(16) KeyRow {
  Stored const *key, *value;
};

}  // namespace fasttree::cuda::sm80
