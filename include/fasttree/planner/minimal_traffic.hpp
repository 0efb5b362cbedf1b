// SPDX-License-Identifier: Apache-2.0
#pragma once
// The planner that prices every byte. Its items carry whole subtrees: a block of neighbouring
// queries in depth-first order with all keys on their paths, each for the queries that see it, so
// that no query needs a partial result. A cut between two blocks costs an item and the keys that
// both sides share, read once more; cut_into_blocks finds the cuts of least price for any height.
// From the height of a tile down to one query, each with its longest blocks unsplit or in pieces of
// several lengths (which cost partial results, and are taken to be a quarter dearer than they
// seem), the plan of least predicted time is taken, a later one if it gains half a percent. Blocks
// whose keys come faster in pieces, by more than partial results cost, are cut in any case. Where
// the narrow tile saves more than partial results cost, nodes of few queries are read apart. The
// plan is compared with one that shares nothing, and the faster is taken.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/predict.hpp>
#include <fasttree/plan/schedule.hpp>
#include <fasttree/planner/block_search.hpp>
#include <fasttree/planner/path_parts.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/planner/split_keys.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// What MinimalTraffic asks of a cost model: the time of a slot (microseconds, or whatever is to be
/// least) for an item of some work, and how much faster a slot is while the others rest. It is asked
/// about items of a million keys as well, by which a key is priced. Where the work of some items
/// takes longer divided evenly among as many, it may miss the best of the plans that it knows.
template <class Costs>
concept CostModel = requires(Costs const& costs, PlanTarget const& target, ItemWork const& work) {
  { costs.item_time(target, work) } -> std::convertible_to<double>;
  { costs.alone } -> std::convertible_to<double>;
};

/// Looks for the plan of blocks that takes the least time by `Costs`; plans in pieces count a
/// quarter more, but for pieces that take less than the whole.
///
/// `fixed_piece`: if positive, long paths are cut every so many keys, counted from their beginning,
/// nothing is read apart and one tile serves all: then every decision about a query depends on its
/// own path alone, and, with a backend whose arithmetic does not depend on its tiles' contents, so
/// do the bits of its result; as long as no piece of a block has 2^31 keys.
///
/// Errors: `Error` where `Costs` gives times that are not finite, or negative in sum. Time: linear
/// in nodes + queries, for each height that is tried; then in the nodes above each block.
template <CostModel Costs = MachineCosts>
struct MinimalTraffic {
  Costs costs{};
  int fixed_piece = 0;

  constexpr void group(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping) const {
    require(fixed_piece >= 0, "MinimalTraffic", "fixed_piece", "0 or more", fixed_piece);
    order_requests(tree, grouping);
    if (tree.queries() == 0) return;
    if (fixed_piece > 0) grouping.tiles.narrow = grouping.tiles.wide;
    BlockSearch<Costs> search(costs, tree, target, fixed_piece > 0, grouping);
    search.run();
    if (fixed_piece > 0) {
      search.append_fixed_pieces(fixed_piece);
    } else {
      search.append_groups();
    }
  }

  /// See build_plan: takes the groups of NoSharing where that plan is predicted to be faster.
  constexpr bool regroup(PrefixTree const& tree, PlanTables const& tables,
                         Grouping& grouping) const {
    if (fixed_piece > 0 || tables.items.empty()) return false;
    double const time = predict_items(tables, costs);
    if (least_time_of_no_sharing(tables, grouping) >= time ||
        time_of_no_sharing(tree, tables.target, grouping) >= time)
      return false;
    grouping.groups.clear();
    grouping.ranges.clear();
    NoSharing{}.group(tree, tables.target, grouping);
    return true;
  }

 private:
  /// A bound that is cheap: an item for each request, all with equal work, each key read as new once
  /// and then again, no slot at rest.
  constexpr double least_time_of_no_sharing(PlanTables const& tables,
                                            Grouping const& grouping) const {
    std::int64_t keys = 0, items = 0;
    int begin = 0;
    for (int const end : grouping.query_begin) {
      int const path = begin < end ? tables.visible_keys[end - 1] : 0;  // the last query sees all
      keys += path;
      items += path > 0 ? 1 : 0;
      begin = end;
    }
    PlanTarget const& target = tables.target;
    auto const unique_keys = static_cast<double>(tables.unique_keys);
    ItemWork const work{.new_keys = unique_keys,
                        .more_keys = static_cast<double>(keys) - unique_keys};
    return least_time_of_items(costs, target, work, static_cast<double>(items)) * target.kv_heads /
           target.slots;
  }

  /// What a plan of NoSharing takes, without making it: its paths may have far more nodes than the
  /// tree.
  constexpr double time_of_no_sharing(PrefixTree const& tree, PlanTarget const& target,
                                      Grouping& grouping) const {
    PathParts const paths(tree, target, {}, grouping);
    int const most = target.queries(target.tiles.wide);
    int const narrow = target.narrow_queries(target.tiles);
    std::int64_t all_keys = 0;
    paths.each_path([&](int queries, int keys, int) {
      all_keys += std::int64_t{keys} * ceil_div(queries, most);
    });
    int const piece = even_piece(target, all_keys);
    Schedule schedule;
    bool any_partial = false;
    paths.each_path([&](int queries, int keys, int shared) {
      for (int begin = 0; begin < queries; begin += most) {
        int const in_item = std::min(most, queries - begin);
        bool const is_narrow = in_item <= narrow;
        TilePolicy const& tile = is_narrow ? target.tiles.narrow : target.tiles.wide;
        std::int64_t const rows = std::int64_t{in_item} * target.group;
        auto const padded = static_cast<double>(round_up<std::int64_t>(rows, tile.row_step));
        for (int from = 0, taken = 0; from < keys; from += taken) {
          taken = std::min(piece, keys - from);
          double const more_keys = begin > 0 ? taken : std::clamp(shared - from, 0, taken);
          ItemWork work{.new_keys = taken - more_keys, .more_keys = more_keys};
          (is_narrow ? work.narrow_rows : work.wide_rows) = taken * padded;
          work.rows = static_cast<double>(rows);
          if (taken < keys) {
            any_partial = true;
            work.partial_rows = work.rows;
            work.merged_rows = work.rows / static_cast<double>(ceil_div<std::int64_t>(keys, piece));
          }
          schedule.add(costs.item_time(target, work), target.kv_heads);
        }
      }
    });
    return time_of_all(schedule, target, costs, any_partial);
  }
};

}  // namespace fasttree
