// SPDX-License-Identifier: Apache-2.0
#pragma once
// The FastTree paper's planner (algorithm 1): from the roots down, each edge is decided greedily.
// Kept apart, a child's queries read the parent's keys together with all others and pay a merge;
// together, they leave the parent's group and read its keys with their own, in a tile of their own.
// Then long contexts are split, and a tile size that leaves the machine idle is given up, by the
// rules of the paper's artifact. What it ignores: the bytes of partial results, and keys read once
// per tile.

#include <array>
#include <cstdint>

#include <fasttree/plan/grouping.hpp>
#include <fasttree/planner/cost_model.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// Greedy edge assignment by `Costs` (see PaperCosts for what they are). Time: nodes + requests +
/// the paths of groups.
template <class Costs = PaperCosts>
struct GreedyEdges {
  Costs costs{};
  int long_piece = 1024;  ///< keys of an item where the machine is full
  int short_piece = 128;  ///< keys of an item where it is not

  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    require(long_piece > 0, "GreedyEdges", "long_piece", "a positive number", long_piece);
    require(short_piece > 0, "GreedyEdges", "short_piece", "a positive number", short_piece);
    std::array<int, 2> pieces{long_piece, long_piece};  // of wide and of narrow groups
    decide_edges(tree, target, grouping);
    std::array<std::int64_t, 2> items = count_items(tree, target, pieces, grouping);
    bool const split_wide = idle(items[0], target.slots);
    bool const split_narrow = idle(items[1], 4 * target.slots);
    if (split_wide) pieces[0] = short_piece;
    if (split_narrow) pieces[1] = short_piece;
    if (split_wide || split_narrow) {
      items = count_items(tree, target, pieces, grouping);
      Tiles const both = grouping.tiles;
      if (idle(items[0], target.slots)) {
        grouping.tiles.wide = both.narrow;
      } else if (idle(items[1], target.slots)) {
        grouping.tiles.narrow = both.wide;
      }
      if (grouping.tiles != both) decide_edges(tree, target, grouping);
    }
    append_groups(tree, target, pieces, grouping);
  }

 private:
  static constexpr bool idle(std::int64_t items, std::int64_t slots) {
    return items > 0 && items < slots;
  }

  constexpr double padding(PlanTarget const& target, Tiles const& tiles, int queries,
                           int keys) const {
    TilePolicy const& tile = queries > target.queries(tiles.narrow) ? tiles.wide : tiles.narrow;
    return costs.padding(target.queries(tile), tile.key_rows, target.group, queries, keys);
  }

  /// Decides every edge; decisions[node].queries becomes the size of the node's group.
  constexpr void decide_edges(PrefixTree const& tree, PlanTarget const& target,
                              Grouping& grouping) const {
    Tiles const& tiles = grouping.tiles;
    auto& decisions = grouping.decisions;
    decisions.resize(tree.nodes());
    for (int const node : tree.parents_first())
      if (tree.parent(node) == PrefixTree::no_parent)
        decisions[node] = {node, tree.queries_under(node), tree.length(node), 0, 0, 0, false};
    for (int const node : tree.parents_first()) {
      EdgeDecision& above = decisions[node];
      for (int const child : tree.children(node)) {
        int const queries = tree.queries_under(child), keys = tree.length(child);
        double const apart = padding(target, tiles, above.queries, above.keys) +
                             padding(target, tiles, queries, keys) + costs.reduction(queries);
        double const together = padding(target, tiles, above.queries - queries, above.keys) +
                                padding(target, tiles, queries, keys + above.keys);
        bool const join = apart > together;
        decisions[child] = {child,    queries, join ? keys + above.keys : keys, above.keys, apart,
                            together, join};
        if (join) above.queries -= queries;
      }
    }
  }

  /// Items of wide and of narrow groups, over all KV heads.
  static constexpr std::array<std::int64_t, 2> count_items(PrefixTree const& tree,
                                                           PlanTarget const& target,
                                                           std::array<int, 2> const& pieces,
                                                           Grouping const& grouping) {
    std::array<std::int64_t, 2> items{};
    for (int node = 0; node < tree.nodes(); ++node) {
      EdgeDecision const& group = grouping.decisions[node];
      if (group.queries == 0) continue;
      bool const narrow = group.queries <= target.queries(grouping.tiles.narrow);
      TilePolicy const& tile = narrow ? grouping.tiles.narrow : grouping.tiles.wide;
      items[narrow] += static_cast<std::int64_t>(ceil_div(group.queries, target.queries(tile))) *
                       ceil_div<std::int64_t>(group.keys, pieces[narrow]) * target.kv_heads;
    }
    return items;
  }

  static constexpr void append_groups(PrefixTree const& tree, PlanTarget const& target,
                                      std::array<int, 2> const& pieces, Grouping& grouping) {
    auto const& decisions = grouping.decisions;
    order_requests(
        tree, [&](int child) { return decisions[child].together; }, grouping);
    for (bool const wide : {true, false}) {
      for (int node = 0; node < tree.nodes(); ++node) {
        int const queries = decisions[node].queries;
        if (queries == 0 || (queries > target.queries(grouping.tiles.narrow)) != wide) continue;
        int top = node;
        while (decisions[top].together) top = tree.parent(top);
        int const begin = grouping.query_begin[grouping.node_begin[node]];
        open_group(begin, begin + queries, target.queries(grouping.tiles.wide), pieces[!wide],
                   grouping);
        append_keys(tree, tree.parent(top), node, grouping);
      }
    }
  }
};

}  // namespace fasttree
