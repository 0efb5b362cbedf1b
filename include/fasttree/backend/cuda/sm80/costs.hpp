// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is:
// fitted to times of plans of MinimalTraffic and NoSharing on the FastTree paper's trees and on
// batches of real servers, before the wide tile was multiplied by wgmma. How well they predict is
// in the README.

#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int h200_slots = 264;  ///< two blocks on each of 132 multiprocessors

inline constexpr MachineCosts h200_costs{.launch = 8.3,
                                         .item = 2,
                                         .memory = 4.5e6 / h200_slots,
                                         .cache = 5.2e6 / h200_slots,
                                         .results = 1.4e6 / h200_slots,
                                         .wide = 310e6 / h200_slots,
                                         .narrow = 470e6 / h200_slots,
                                         .in_turn = 0.33,
                                         .merge = 0.13 / 16,
                                         .alone = 1.08};

}  // namespace fasttree::cuda::sm80
