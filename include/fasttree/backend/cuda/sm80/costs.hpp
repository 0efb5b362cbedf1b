// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is.
// Set by hand after timings of single items, of two and of four for each multiprocessor, in each
// tile, whole and in pieces; not fitted.

#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

inline constexpr int h200_slots = 264;  ///< two blocks on each of 132 multiprocessors

inline constexpr MachineCosts h200_costs{.launch = 9,
                                         .item = 2.5,
                                         .memory = 4.4e6 / h200_slots,
                                         .cache = 6e6 / h200_slots,
                                         .results = 6e6 / h200_slots,
                                         .wide = 213e6 / h200_slots,
                                         .narrow = 115e6 / h200_slots,
                                         .merge = 0.22 / 16,
                                         .alone = 1.25};

}  // namespace fasttree::cuda::sm80
