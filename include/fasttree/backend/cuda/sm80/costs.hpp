// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on an H200, for plans of the sm80 backend and for predictions where no GPU is:
// fitted to times of plans of MinimalTraffic and NoSharing on the FastTree paper's trees and on
// batches of real servers, of blocks of eight warps. How well they predict is in the README. One
// block of four warps to a multiprocessor was seen to read as fast, and to multiply at two thirds
// of the rate; to that nothing was fitted.

#include <fasttree/backend/cuda/sm80/block.hpp>
#include <fasttree/plan/machine_costs.hpp>

namespace fasttree::cuda::sm80 {

/// Blocks that run at once on 132 multiprocessors.
template <int Warps, int Blocks = 8 / Warps>
inline constexpr int h200_slots = 132 * Blocks;

/// How fast the warps of a multiprocessor multiply, by that of eight.
template <int Warps>
inline constexpr double multiply_rate = Warps == 8 ? 1 : 2. / 3;

template <int Warps, int Blocks = 8 / Warps>
inline constexpr MachineCosts h200_costs{
    .launch = 7.6,
    .item = 2.5,
    .memory = 4.42e6 / h200_slots<Warps, Blocks>,
    .cache = 5.4e6 / h200_slots<Warps, Blocks>,
    .results = 1.54e6 / h200_slots<Warps, Blocks>,
    .wide = 500e6 * multiply_rate<Warps * Blocks> / h200_slots<Warps, Blocks>,
    .narrow = 900e6 * multiply_rate<Warps * Blocks> / h200_slots<Warps, Blocks>,
    .in_turn = 0.15,
    .merge = 0.1 / 16,
    .alone = 1.16};

}  // namespace fasttree::cuda::sm80
