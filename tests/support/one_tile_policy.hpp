// SPDX-License-Identifier: Apache-2.0
#pragma once
// A policy that gives up one of the two tiles, and with it one of the two arithmetics: what an item
// computes for a request then depends on the keys of its path alone.

#include <algorithm>

#include <fasttree/planner/policies.hpp>
#include "subtree_policy.hpp"

namespace fasttree::test {

/// Items of up to `queries_per_item` queries, each with all keys of their paths, for one tile.
struct OneTilePolicy {
  bool wide = true;
  int queries_per_item = 1 << 30;

  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    SubtreePolicy{}.group(tree, target, grouping);
    TilePolicy const& tile = wide ? target.tiles.wide : target.tiles.narrow;
    grouping.tiles = {.wide = tile, .narrow = tile};
    for (KeyGroup& group : grouping.groups)
      group.queries_per_item = std::min(queries_per_item, target.queries(tile));
  }
};

}  // namespace fasttree::test
