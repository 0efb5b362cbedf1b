// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by backends against the oracle, for one type of heads and cache: ratios of heads,
// random forests, planners that cut keys, share subtrees, or neither.

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include <doctest/doctest.h>

#include <fasttree/tree_attention.hpp>
#include "one_tile_policy.hpp"
#include "problem.hpp"
#include "random_forest.hpp"
#include "subtree_policy.hpp"

namespace fasttree::test {

/// `Backend` by all planners, `Others` by the default one, on so many forests for each ratio;
/// `cache_of(problem, page_size, seed)` makes a cache.
template <class Shape, class Backend, class... Others, class MakeCache>
void agree_with_the_oracle(std::initializer_list<int> ratios, int forests, ForestSize const& size,
                           MakeCache const& cache_of) {
  std::uint64_t seed = 0;
  for (int const ratio : ratios)
    for (int i = 0; i < forests; ++i) {
      ++seed;
      CAPTURE(seed);
      CAPTURE(ratio);
      int const page_size = static_cast<int>(seed) % 3 * 7 + 1;
      int const kv_heads = 1 + static_cast<int>(seed) % 3;
      Shape const shape{.query_heads = ratio * kv_heads, .kv_heads = kv_heads};
      Problem<Shape> const problem(random_forest(seed, size), shape, seed, page_size);
      auto const cache = cache_of(problem, page_size, seed);
      Answer const answer = problem.answer();
      auto const error = [&](auto const& policy) {
        return worst_error(attend_by<Backend>(problem, cache, policy), answer, Shape::head_dim);
      };
      CHECK(error(MinimalTraffic<>{Backend::costs}) <= 1);
      CHECK(error(MinimalTraffic<>{{.item = 0.01, .wide = 1e3, .narrow = 4e3}}) <= 1);
      CHECK(error(MinimalTraffic<>{.fixed_piece = 20}) <= 1);
      CHECK(error(GreedyEdges<>{}) <= 1);
      CHECK(error(GreedyEdges<>{.long_piece = 33, .short_piece = 10}) <= 1);
      CHECK(error(ShareEveryNode{}) <= 1);
      CHECK(error(NoSharing{}) <= 1);
      CHECK(error(SubtreePolicy{}) <= 1);
      CHECK(error(SubtreePolicy{.keys_per_item = 70}) <= 1);
      CHECK(error(OneTilePolicy{.wide = true, .queries_per_item = 1}) <= 1);
      double const of_others = std::max(
          {0.0, worst_error(attend_by<Others>(problem, cache), answer, Shape::head_dim)...});
      CHECK(of_others <= 1);
    }
}

}  // namespace fasttree::test
