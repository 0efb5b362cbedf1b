// SPDX-License-Identifier: Apache-2.0
// Heads: defaults, and what is refused about their numbers.

#include <fasttree/core/attention_shape.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace fasttree;

TEST_CASE(
    "the softmax scale is 1 / sqrt(head_dim) unless given, and head_dim may not be value_dim") {
  static_assert(AttentionShape<float, 64>{}.softmax_scale == 0.125f);
  static_assert(AttentionShape<half, 128, 64>::value_dim == 64);
  CHECK(AttentionShape<float, 24>{}.softmax_scale == static_cast<float>(1 / std::sqrt(24.0)));
  CHECK(AttentionShape<float, 8>{.softmax_scale = 1.f}.softmax_scale == 1.f);
}

TEST_CASE("numbers of heads that no attention has") {
  auto const refused = [](int query_heads, int kv_heads, char const* message) {
    AttentionShape<float, 64> const shape{.query_heads = query_heads, .kv_heads = kv_heads};
    CHECK_THROWS_WITH_AS(validate("make_plan", shape), message, Error);
  };
  refused(8, 0, "fasttree::make_plan: shape.kv_heads: expected a positive number, found 0");
  refused(8, -2, "fasttree::make_plan: shape.kv_heads: expected a positive number, found -2");
  refused(7, 2,
          "fasttree::make_plan: shape.query_heads: expected a positive multiple of kv_heads = 2, "
          "found 7");
  refused(0, 2,
          "fasttree::make_plan: shape.query_heads: expected a positive multiple of kv_heads = 2, "
          "found 0");
  refused(-4, 2,
          "fasttree::make_plan: shape.query_heads: expected a positive multiple of kv_heads = 2, "
          "found -4");
}
