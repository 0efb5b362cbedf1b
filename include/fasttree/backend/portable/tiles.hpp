// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry of the portable backend. Rows of queries lie in panels, `lanes` x 3 rows side by
// side, so that one SIMD instruction does the same for `lanes` rows; on a GPU a lane is a thread.

#include <fasttree/core/attention_shape.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/lanes.hpp>
#include <fasttree/plan/tile_policy.hpp>

namespace fasttree::portable {

/// Floats that a thread of `Space` computes with at once.
template <class Space>
inline constexpr int lanes = runs_on_host<Space> ? native_lanes : 1;

/// Threads of a team: each takes panels of its own.
template <class Space>
inline constexpr int team_size = runs_on_host<Space> ? 1 : 64;

/// SIMD registers side by side in a panel: with 4 keys, 12 accumulators of the 16 registers of
/// AVX2, enough independent sums to hide the latency of a fused multiply-add (2 a cycle, 4 to 5
/// cycles).
inline constexpr int panel_vectors = 3;

}  // namespace fasttree::portable
