// SPDX-License-Identifier: Apache-2.0
#pragma once
// An H200 as planners see it, until a backend for it is calibrated: constants that are assumed, from
// what its memory was measured to yield (4.2 us + bytes / 4.54 TB/s) and from kernels of the kind
// that plans are meant for. Whatever is computed with them is a prediction.

#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::bench {

inline constexpr int h200_slots = 264;  // two for each of 132 multiprocessors

inline constexpr MachineCosts assumed_h200{.launch = 4.2,
                                           .item = 6,
                                           .memory = 4.54e6 / h200_slots,
                                           .cache = 6e6 / h200_slots,
                                           .results = 6e6 / h200_slots,
                                           .wide = 300e6 / h200_slots,
                                           .narrow = 200e6 / h200_slots,
                                           .alone = 2};

/// Attention of 16-bit elements with head_dim 128, in tiles of 64 and of 16 rows.
constexpr PlanTarget h200_target(int query_heads, int kv_heads) {
  return {.tiles = {.wide = {64, 64, 16}, .narrow = {16, 64, 16}},
          .group = query_heads / kv_heads,
          .kv_heads = kv_heads,
          .slots = h200_slots};
}

}  // namespace fasttree::bench
