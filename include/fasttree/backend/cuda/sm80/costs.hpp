// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is:
// fitted to times of plans of MinimalTraffic and NoSharing on the FastTree paper's trees and on
// batches of real servers, before the wide tile was multiplied by wgmma. How well they predict is
// in the README.

#include <fasttree/backend/cuda/sm80/block.hpp>
#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

/// Blocks that run at once on 132 multiprocessors.
template <int Warps>
inline constexpr int h200_slots = 132 * 8 / Warps;

template <int Warps>
inline constexpr MachineCosts h200_costs{.launch = 7.6,
                                         .item = 2.5,
                                         .memory = 4.42e6 / h200_slots<Warps>,
                                         .cache = 5.4e6 / h200_slots<Warps>,
                                         .results = 1.54e6 / h200_slots<Warps>,
                                         .wide = 500e6 / h200_slots<Warps>,
                                         .narrow = 900e6 / h200_slots<Warps>,
                                         .in_turn = 0.15,
                                         .merge = 0.1 / 16,
                                         .alone = 1.16};

}  // namespace fasttree::cuda::sm80
