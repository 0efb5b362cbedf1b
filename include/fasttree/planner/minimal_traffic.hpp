// SPDX-License-Identifier: Apache-2.0
#pragma once
// The planner that prices every byte. Its items carry whole subtrees: a block of neighbouring
// queries in depth-first order with all keys on their paths, each for the queries that see it, so
// that no query needs a partial result. A cut between two blocks costs an item and the keys that
// both sides share, read once more; cut_into_blocks finds the cuts of least price for any height.
// From the height of a tile down to one query, each with its longest blocks unsplit or in pieces of
// several lengths (which cost partial results), the plan of least predicted time is taken. Where
// the narrow tile saves more than partial results cost, nodes of few queries are read apart. A plan
// that leaves slots at rest is compared with one that shares nothing.

#include <concepts>
#include <utility>

#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/predict.hpp>
#include <fasttree/planner/block_search.hpp>
#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// What MinimalTraffic asks of a cost model: the time of a slot (microseconds, or whatever is to be
/// least) for an item of some work, and how much faster a slot is while the others rest.
template <class Costs>
concept CostModel = requires(Costs const& costs, PlanTarget const& target, ItemWork const& work) {
  { costs.item_time(target, work) } -> std::convertible_to<double>;
  { costs.alone } -> std::convertible_to<double>;
};

/// Minimises the time that `Costs` predicts, over plans of blocks.
///
/// `fixed_piece`: if positive, long paths are cut every so many keys, counted from their beginning,
/// nothing is read apart and one tile serves all: then every decision about a query depends on its
/// own path alone, and, with a backend whose arithmetic does not depend on its tiles' contents, so
/// do the bits of its result. Time: linear in nodes + queries, for each height that is tried.
template <CostModel Costs = MachineCosts>
struct MinimalTraffic {
  Costs costs{};
  int fixed_piece = 0;

  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    require(fixed_piece >= 0, "MinimalTraffic", "fixed_piece", "0 or more", fixed_piece);
    order_requests(tree, grouping);
    if (tree.queries() == 0) return;
    if (fixed_piece > 0) grouping.tiles.narrow = grouping.tiles.wide;
    BlockSearch<Costs> search(costs, tree, target, grouping);
    search.run();
    if (fixed_piece > 0) {
      search.append_fixed_pieces(fixed_piece);
    } else {
      search.append_groups();
      if (search.may_lose_to_no_sharing()) take_no_sharing_if_faster(tree, target, grouping);
    }
  }

 private:
  constexpr void take_no_sharing_if_faster(PrefixTree const& tree, PlanTarget const& target,
                                           Grouping& grouping) const {
    auto const swap_groups = [&] {
      std::swap(grouping.groups, grouping.scratch.other_groups);
      std::swap(grouping.ranges, grouping.scratch.other_ranges);
    };
    double const time = predicted_time(tree, target, grouping);
    swap_groups();
    grouping.groups.clear();
    grouping.ranges.clear();
    NoSharing{}.group(tree, target, grouping);
    if (predicted_time(tree, target, grouping) >= time) swap_groups();
  }

  constexpr double predicted_time(PrefixTree const& tree, PlanTarget const& target,
                                  Grouping& grouping) const {
    detail::fill_tables(tree, target, grouping, grouping.scratch.tables);
    return predict_items(grouping.scratch.tables, costs);
  }
};

}  // namespace fasttree
