// SPDX-License-Identifier: Apache-2.0
// Attention over random forests against the oracle: element types, head dimensions, ratios of
// heads, planners, caches. Not the full product: each pairing stands for a kernel of its own.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>

#include "support/agreement.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

/// A problem of `Shape` with cache(problem, page_size, seed), on random forests.
template <class Shape, class MakeCache>
void agrees_with_the_oracle(std::initializer_list<int> ratios, MakeCache const& cache_of) {
  agree_with_the_oracle<Shape, DefaultBackend<Space, Shape>>(ratios, 6, {10, 90, 14, 5}, cache_of);
}

auto const contiguous = [](auto const& problem, int, std::uint64_t seed) {
  return contiguous_cache(problem, seed % 2 == 1, static_cast<int>(seed) % 3);
};
auto const indexed = [](auto const& problem, int, std::uint64_t seed) {
  return indexed_cache(problem, seed);
};
auto const paged = [](auto const& problem, int page_size, std::uint64_t seed) {
  return paged_cache(problem, page_size, seed);
};

}  // namespace

TEST_CASE("float, head_dim 64: contiguous, indexed and paged caches; any ratio of heads") {
  using Shape = AttentionShape<float, 64>;
  agrees_with_the_oracle<Shape>({1, 3, 4, 5, 8}, contiguous);
  agrees_with_the_oracle<Shape>({1, 16}, indexed);
  agrees_with_the_oracle<Shape>({2, 7}, paged);
}

TEST_CASE("half, head_dim 128, paged") {
  agrees_with_the_oracle<AttentionShape<fasttree::half, 128>>({1, 4, 8}, paged);
}

TEST_CASE("bfloat16, head_dim 96, values of 256, indexed") {
  agrees_with_the_oracle<AttentionShape<bfloat16, 96, 256>>({1, 5}, indexed);
}

TEST_CASE("half, head_dim 24, values of 8, contiguous, as many as 128 query heads for a KV head") {
  agrees_with_the_oracle<AttentionShape<fasttree::half, 24, 8>>({3, 128}, contiguous);
}

TEST_CASE("float, head_dim 8, values of 24, contiguous, as many as 128 query heads for a KV head") {
  agrees_with_the_oracle<AttentionShape<float, 8, 24>>({1, 6, 128}, contiguous);
}

TEST_CASE("bfloat16, head_dim 256, paged") {
  agrees_with_the_oracle<AttentionShape<bfloat16, 256>>({1, 16}, paged);
}
