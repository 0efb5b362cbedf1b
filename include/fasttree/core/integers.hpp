// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer arithmetic that plans, tiles and workspaces share.

#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// The smallest integer not below a / b; a >= 0, b > 0.
template <class Integer>
FASTTREE_INLINE_FUNCTION constexpr Integer ceil_div(Integer a, Integer b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of b not below a; a >= 0, b > 0.
template <class Integer>
FASTTREE_INLINE_FUNCTION constexpr Integer round_up(Integer a, Integer b) {
  return ceil_div(a, b) * b;
}

/// Of `count` things in two halves those of the first, which is the larger.
constexpr int first_half(int count) { return ceil_div(count, 2); }

}  // namespace fasttree
