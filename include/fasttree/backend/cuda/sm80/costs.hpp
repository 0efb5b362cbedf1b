// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is,
// of blocks of eight warps. Rates were fitted to times of plans of MinimalTraffic and NoSharing
// on the FastTree paper's trees and on batches from request traces, and all but the launch scaled
// by 0.95 since, as predictions were too long; but for ties plans stay as they were. What opens
// and closes an item hides behind memory but for the first and the last of a block: most of it is
// moved into the launch, and `item`, `partial` and `drift` are what made the fastest plans: heads
// that have drifted apart were seen to read 4 to 7 % slower, and are priced at twice that and
// more. Constants that bench/calibrate.cpp fitted predict plans of all kinds better, and chose
// slower ones: bench/results/h200_versions.json has all of this. One block of four warps to a
// multiprocessor was seen to read as fast, and to multiply at two thirds of the rate; to that
// nothing was fitted.

#include <fasttree/backend/cuda/sm80/block.hpp>
#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

/// Of blocks of eight multiplying warps, one to a multiprocessor.
inline constexpr MachineCosts h200_costs_of_eight_warps{.launch = 7.6,
                                                        .item = 0.95,
                                                        .partial = 0.95,
                                                        .memory = 4.65e6 / 132,
                                                        .cache = 5.68e6 / 132,
                                                        .drift = 0.2,
                                                        .results = 1.62e6 / 132,
                                                        .wide = 526e6 / 132,
                                                        .narrow = 947e6 / 132,
                                                        .in_turn = 0.15,
                                                        .merge = 0.0057,
                                                        .alone = 1.16};

/// Blocks that run at once on 132 multiprocessors.
template <int Warps, int Blocks = 8 / Warps>
inline constexpr int h200_slots = 132 * Blocks;

/// How fast the warps of a multiprocessor multiply, by that of eight.
template <int Warps>
inline constexpr double multiply_rate = Warps == 8 ? 1 : 2. / 3;

template <int Warps, int Blocks = 8 / Warps>
inline constexpr MachineCosts h200_costs = [] {
  MachineCosts costs = h200_costs_of_eight_warps;
  for (auto const rate : {&MachineCosts::memory, &MachineCosts::cache, &MachineCosts::results})
    costs.*rate /= Blocks;
  for (auto const rate : {&MachineCosts::wide, &MachineCosts::narrow})
    costs.*rate *= multiply_rate<Warps * Blocks> / Blocks;
  return costs;
}();

}  // namespace fasttree::cuda::sm80
