// SPDX-License-Identifier: Apache-2.0
#pragma once
// An H200 as planners see it: what is computed with its costs is a prediction.

#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::bench {

inline constexpr MachineCosts modelled_h200 = cuda::sm80::h200_costs<8>;

/// Attention of 16-bit elements with head_dim 128.
constexpr PlanTarget h200_target(int query_heads, int kv_heads) {
  return {.tiles = {.wide = cuda::sm80::wide_tile<8>, .narrow = cuda::sm80::narrow_tile<8>},
          .group = query_heads / kv_heads,
          .kv_heads = kv_heads,
          .slots = cuda::sm80::h200_slots<8>};
}

}  // namespace fasttree::bench
