// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model fixes about its attention: the element type and the head dimensions, at compile
// time, and the numbers of heads, at run time. Query head h attends to KV head h / (query_heads /
// kv_heads).

#include <string>

#include <fasttree/core/element.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

namespace detail {

/// 1 / sqrt(n) by Newton's iteration: std::sqrt is not constexpr in C++20.
constexpr float reciprocal_sqrt(int n) {
  double root = n;
  for (int i = 0; i < 64; ++i) root = 0.5 * (root + n / root);
  return static_cast<float>(1.0 / root);
}

}  // namespace detail

/// Heads of an attention layer. `HeadDim` and `ValueDim` are multiples of 8, at most 256.
/// Logits are `softmax_scale` times the products of queries and keys; 1 / sqrt(HeadDim) by default.
template <Element ElementType, int HeadDim, int ValueDim = HeadDim>
struct AttentionShape {
  static_assert(HeadDim >= 8 && HeadDim <= 256 && HeadDim % 8 == 0,
                "fasttree::AttentionShape: HeadDim must be a multiple of 8, at most 256");
  static_assert(ValueDim >= 8 && ValueDim <= 256 && ValueDim % 8 == 0,
                "fasttree::AttentionShape: ValueDim must be a multiple of 8, at most 256");

  using element_type = ElementType;
  static constexpr int head_dim = HeadDim;
  static constexpr int value_dim = ValueDim;

  int query_heads = 1;
  int kv_heads = 1;
  float softmax_scale = detail::reciprocal_sqrt(HeadDim);

  /// Query heads that share one KV head.
  FASTTREE_INLINE_FUNCTION constexpr int group() const { return query_heads / kv_heads; }

  friend constexpr bool operator==(AttentionShape const&, AttentionShape const&) = default;
};

/// Throws an `Error` unless the numbers of heads are positive and query_heads is a multiple of
/// kv_heads.
template <Element E, int HeadDim, int ValueDim>
constexpr void validate(char const* function, AttentionShape<E, HeadDim, ValueDim> const& shape) {
  require(shape.kv_heads > 0, function, "shape.kv_heads", "a positive number", shape.kv_heads);
  if (shape.query_heads <= 0 || shape.query_heads % shape.kv_heads != 0)
    fail(function, "shape.query_heads",
         "a positive multiple of kv_heads = " + std::to_string(shape.kv_heads), shape.query_heads);
}

}  // namespace fasttree
