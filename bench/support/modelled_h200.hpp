// SPDX-License-Identifier: Apache-2.0
#pragma once
// An H200 as planners see it: what is computed with its costs is a prediction.

#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::bench {

inline constexpr MachineCosts modelled_h200 = cuda::sm80::h200_costs;

/// Attention of 16-bit elements with head_dim 128, in tiles of 64 and of 16 rows.
constexpr PlanTarget h200_target(int query_heads, int kv_heads) {
  return {.tiles = {.wide = {64, 64, 16, 4}, .narrow = {16, 64, 16}},
          .group = query_heads / kv_heads,
          .kv_heads = kv_heads,
          .slots = cuda::sm80::h200_slots};
}

}  // namespace fasttree::bench
