// SPDX-License-Identifier: Apache-2.0
#pragma once
// From groups to work items: cuts each group into query tiles and key pieces, decides which results
// go straight to the output, and lists for every other query the partial results to merge.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

namespace detail {

/// What a policy must keep to, whoever wrote it; its order of requests is checked first.
constexpr void validate_order(PrefixTree const& tree, Grouping& grouping) {
  constexpr char const* function = "build_plan";
  require(grouping.request_order.size() == static_cast<std::size_t>(tree.requests()), function,
          "Grouping::request_order.size()", tree.requests(), grouping.request_order.size());
  if (std::ranges::equal(grouping.request_order, tree.depth_first_requests())) return;
  auto& seen = grouping.items_of_query;
  seen.assign(tree.requests(), 0);
  for (int const request : grouping.request_order) {
    bool const is_new = request >= 0 && request < tree.requests() && seen[request]++ == 0;
    require(is_new, function, "Grouping::request_order", "each request once", request);
  }
}

template <class Integer>
[[noreturn]] void fail_within(char const* what, Integer begin, Integer end, Integer all) {
  constexpr char const* function = "build_plan";
  require(begin >= 0 && begin <= end, function, what, "an interval from 0 or more on", begin);
  fail_above(function, what, all, end);
}

/// Requires 0 <= begin <= end <= all.
template <class Integer>
constexpr void require_within(char const* what, Integer begin, Integer end, Integer all) {
  using Unsigned = std::make_unsigned_t<Integer>;
  if (static_cast<Unsigned>(begin) <= static_cast<Unsigned>(end) &&
      static_cast<Unsigned>(end) <= static_cast<Unsigned>(all))
    return;
  fail_within(what, begin, end, all);
}

constexpr void validate_groups(PrefixTree const& tree, PlanTarget const& target,
                               Grouping const& grouping) {
  constexpr char const* function = "build_plan";
  int const most = target.queries(target.tiles.wide);
  int const ranges = static_cast<int>(grouping.ranges.size());
  for (KeyGroup const& group : grouping.groups) {
    require(group.queries_per_item > 0, function, "KeyGroup::queries_per_item", "a positive number",
            group.queries_per_item);
    if (group.queries_per_item > most)
      fail_above(function, "KeyGroup::queries_per_item", most, group.queries_per_item);
    require(group.keys_per_item > 0, function, "KeyGroup::keys_per_item", "a positive number",
            group.keys_per_item);
    require_within("the queries of a KeyGroup", group.query_begin, group.query_end, tree.queries());
    require_within("the ranges of a KeyGroup", group.range_begin, group.range_end, ranges);
  }
}

constexpr void validate_range(PrefixTree const& tree, KeyRange const& range) {
  require_within("the queries of a KeyRange", range.query_begin, range.query_end, tree.queries());
  require_within<std::int64_t>("the slots of a KeyRange", range.slot_begin,
                               range.slot_begin + range.length, tree.slots());
  require(range.position >= 0, "build_plan", "KeyRange::position", "0 or more", range.position);
}

constexpr void number_queries(PrefixTree const& tree, Grouping const& grouping,
                              PlanTables& tables) {
  tables.query_order.resize(tree.queries());
  tables.visible_keys.resize(tree.queries());
  bool all_grow = tree.room() > 0;
  int row = 0, keys = 0;
  for (int query = 0, left = 0, place = 0; query < tree.queries(); ++query, --left) {
    while (left == 0) {
      int const request = grouping.request_order[place++];
      auto const [node, queries] = tree.request(request);
      left = queries;
      row = tree.first_query(request);
      keys = tree.request_keys(request) - left;
      if (all_grow && left > 0 && !(tree.length(node) > 0 && tree.grows(node))) all_grow = false;
    }
    int const visible = std::max(0, ++keys);
    tables.query_order[query] = row++;
    tables.visible_keys[query] = visible;
    tables.path_keys += visible;
  }
  tables.unique_keys = tree.unique_keys();
  tables.slots = tree.slots();
  tables.updates.room = tree.queries() == 0 ? std::numeric_limits<int>::max()
                        : all_grow          ? tree.room()
                                            : 0;
}

/// Teams count tasks by int: items x KV heads, and for a query of more rows than a tile, x tiles;
/// each asks for one more than there are.
constexpr void require_tasks(char const* function, std::size_t items, PlanTarget const& target) {
  int const tiles = ceil_div(target.group, target.tiles.wide.query_rows);
  std::int64_t const tasks =
      static_cast<std::int64_t>(items) * target.kv_heads * tiles + target.slots;
  require(tasks < std::numeric_limits<int>::max(), function, "items x KV heads", "less than 2^31",
          tasks);
}

/// Appends a group that needs no cuts, as most do that carry subtrees: one item. False if it does.
/// Validates its ranges.
constexpr bool add_whole_group(PrefixTree const& tree, KeyGroup const& group,
                               Grouping const& grouping, PlanTables& tables) {
  int const queries = group.query_end - group.query_begin;
  bool whole = queries > 0 && queries <= group.queries_per_item, has_keys = false;
  std::int64_t keys = 0;
  for (int i = group.range_begin; i < group.range_end; ++i) {
    KeyRange const& range = grouping.ranges[i];
    validate_range(tree, range);
    whole = whole && range.length > 0;
    keys += range.length;
    has_keys = has_keys || std::max(range.query_begin, group.query_begin) <
                               std::min(range.query_end, group.query_end);
  }
  if (!whole || !has_keys || keys > group.keys_per_item) return false;
  int const first = static_cast<int>(tables.ranges.size());
  tables.ranges.insert(tables.ranges.end(), grouping.ranges.begin() + group.range_begin,
                       grouping.ranges.begin() + group.range_end);
  tables.items.push_back({group.query_begin, group.query_end, first,
                          static_cast<int>(tables.ranges.size()), WorkItem::direct});
  tables.updates.longest_item = std::max(tables.updates.longest_item, static_cast<int>(keys));
  return true;
}

/// Appends the items of a group, one key piece after the other, its query tiles side by side:
/// neighbours read the same keys.
constexpr void cut_group(PrefixTree const& tree, KeyGroup const& group, Grouping const& grouping,
                         PlanTables& tables) {
  if (add_whole_group(tree, group, grouping, tables)) return;
  int range = group.range_begin, taken = 0;  // where the next piece begins
  while (range < group.range_end) {
    int const range_begin = static_cast<int>(tables.ranges.size());
    int room = group.keys_per_item;
    while (range < group.range_end && room > 0) {
      if (grouping.ranges[range].length == 0) {
        ++range;
        continue;
      }
      KeyRange piece = grouping.ranges[range];
      piece.slot_begin += taken;
      piece.position += taken;
      piece.length = std::min(piece.length - taken, room);
      tables.ranges.push_back(piece);
      room -= piece.length;
      taken += piece.length;
      if (taken == grouping.ranges[range].length) ++range, taken = 0;
    }
    int const range_end = static_cast<int>(tables.ranges.size());
    bool used = false;
    for (int begin = group.query_begin; begin < group.query_end; begin += group.queries_per_item) {
      int const end = std::min(begin + group.queries_per_item, group.query_end);
      bool const has_keys = std::any_of(
          tables.ranges.begin() + range_begin, tables.ranges.end(), [&](KeyRange const& piece) {
            return std::max(piece.query_begin, begin) < std::min(piece.query_end, end);
          });
      if (!has_keys) continue;
      tables.items.push_back({begin, end, range_begin, range_end, WorkItem::direct});
      used = true;
    }
    if (used) {
      tables.updates.longest_item =
          std::max(tables.updates.longest_item, group.keys_per_item - room);
    } else {
      tables.ranges.resize(range_begin);
    }
  }
}

/// Gives partial results to the items that need them, and lists them query by query.
constexpr void place_partials(std::vector<int>& items_of_query, PlanTables& tables) {
  auto const queries = tables.query_order.size();
  auto& count = items_of_query;
  count.assign(queries + 1, 0);  // first as differences, then summed
  for (WorkItem const& item : tables.items) {
    ++count[item.query_begin];
    --count[item.query_end];
  }
  int items = 0, most = 0;
  for (int& difference : count) {
    difference = items += difference;
    most = std::max(most, items);
  }
  tables.merge_begin.assign(queries + 1, 0);
  if (most <= 1) {  // there are no partial results
    for (std::size_t i = 0; i < queries; ++i)
      if (count[i] == 0) tables.merge_queries.push_back(static_cast<int>(i));
    return;
  }

  constexpr int written_directly = -1;
  std::int64_t partials = 0;
  for (WorkItem& item : tables.items) {
    auto const begin = count.begin() + item.query_begin, end = count.begin() + item.query_end;
    if (std::all_of(begin, end, [](int items) { return items == 1; })) {
      std::fill(begin, end, written_directly);
    } else {
      item.partial_begin = static_cast<int>(partials);
      partials += item.query_end - item.query_begin;
      require(partials < std::numeric_limits<int>::max(), "build_plan", "partial results",
              "less than 2^31 - 1", partials);
    }
  }
  tables.partials = static_cast<int>(partials);

  for (std::size_t i = 0; i < queries; ++i) {
    tables.merge_begin[i + 1] = tables.merge_begin[i] + std::max(count[i], 0);
    if (count[i] != written_directly) tables.merge_queries.push_back(static_cast<int>(i));
  }
  tables.merge_partials.resize(tables.merge_begin[queries]);
  for (WorkItem const& item : tables.items) {
    if (item.partial_begin == WorkItem::direct) continue;
    for (int i = item.query_begin; i < item.query_end; ++i)
      tables.merge_partials[tables.merge_begin[i + 1] - count[i]--] =
          item.partial_begin + i - item.query_begin;
  }
}

constexpr void fill_tables(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping,
                           PlanTables& tables) {
  tables.clear();
  tables.target = target;
  tables.tiles = grouping.tiles;
  tables.narrow_queries = target.narrow_queries(grouping.tiles);
  if (tables.narrow_queries == 0) tables.tiles.wide = target.tiles.wide;  // nothing else is left
  number_queries(tree, grouping, tables);
  for (KeyGroup const& group : grouping.groups) cut_group(tree, group, grouping, tables);
  require_tasks("build_plan", tables.items.size(), target);
  tables.updates.ranges_read = static_cast<int>(tables.ranges.size());
  place_partials(grouping.items_of_query, tables);
  tables.decisions.assign(grouping.decisions.begin(), grouping.decisions.end());
}

}  // namespace detail

/// Plans attention over `tree` for a machine, by a policy, into `tables`; what both held before is
/// overwritten and their memory reused. A policy with a member `regroup(tree, tables, grouping)` is
/// shown the plan that its groups made, and may replace them: then it returns true. Errors: `Error`
/// where a group does not fit tile or tree. Time: linear in what the policy yields and in the work
/// items.
template <PlannerPolicy Policy>
constexpr void build_plan(PrefixTree const& tree, PlanTarget const& target, Policy const& policy,
                          Grouping& grouping, PlanTables& tables) {
  grouping.clear();
  grouping.tiles = target.tiles;
  policy.group(tree, target, grouping);
  detail::validate_order(tree, grouping);
  detail::validate_groups(tree, target, grouping);
  try {
    detail::fill_tables(tree, target, grouping, tables);
    if constexpr (requires { policy.regroup(tree, tables, grouping); }) {
      if (!policy.regroup(tree, tables, grouping)) return;
      detail::validate_groups(tree, target, grouping);
      detail::fill_tables(tree, target, grouping, tables);
    }
  } catch (...) {
    tables.clear();
    throw;
  }
}

}  // namespace fasttree
