// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is.
// Assumed, but for memory, which a kernel that only reads has yielded: 4.2 us + bytes / 4.54 TB/s.

#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int h200_slots = 264;  ///< two blocks on each of 132 multiprocessors

inline constexpr MachineCosts h200_costs{.launch = 4.2,
                                         .item = 6,
                                         .memory = 4.54e6 / h200_slots,
                                         .cache = 6e6 / h200_slots,
                                         .results = 6e6 / h200_slots,
                                         .wide = 300e6 / h200_slots,
                                         .narrow = 200e6 / h200_slots,
                                         .alone = 2};

}  // namespace fasttree::cuda::sm80
