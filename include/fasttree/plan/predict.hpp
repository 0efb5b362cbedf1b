// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a plan will take, whoever made it: the work of each item, counted from the plan's tables,
// and the time that a machine of some costs needs for all of them. Predictions, not measurements.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/plan/schedule.hpp>

namespace fasttree {

/// What an item does for one KV head. Keys are read for the first time by the item that has the
/// first of the queries that see them; the wide tile multiplies them with the rows that see them,
/// the narrow one with all of its rows.
constexpr ItemWork work_of(PlanTables const& tables, WorkItem const& item) {
  // An item's rows fit a tile or are those of one query: they are counted by int, and rounded up
  // without a sign.
  auto const group = static_cast<std::uint32_t>(tables.target.group);
  auto const queries = static_cast<std::uint32_t>(item.query_end - item.query_begin);
  bool const narrow = item.query_end - item.query_begin <= tables.narrow_queries;
  TilePolicy const& tile = narrow ? tables.tiles.narrow : tables.tiles.wide;
  auto const step = static_cast<std::uint32_t>(tile.row_step);
  // Steps are powers of two but for a tile of one's own; divisions would be most of this function.
  int const shift = std::has_single_bit(step) ? std::countr_zero(step) : -1;
  auto const steps = [&](std::uint32_t rows) { return shift < 0 ? rows / step : rows >> shift; };
  std::uint32_t const all_steps = steps(queries * group + step - 1);
  std::uint32_t const teams = narrow ? 1 : tile.teams_of(all_steps);
  std::int64_t keys = 0, more_keys = 0, keys_of_all = 0;
  std::int64_t products = 0;              // of a key and a step of rows
  std::array<std::int64_t, 8> of_team{};  // those with rows of one team alone
  for (KeyRange const& range : tables.ranges_of(item)) {
    std::int64_t const length = range.length;
    bool const from_first = range.query_begin <= item.query_begin;
    bool const to_last = range.query_end >= item.query_end;
    if (!(from_first && to_last)) {
      int const begin = from_first ? 0 : range.query_begin - item.query_begin;
      int const end = (to_last ? item.query_end : range.query_end) - item.query_begin;
      if (begin >= end) continue;
      std::uint32_t const first = steps(static_cast<std::uint32_t>(begin) * group);
      std::uint32_t const last = steps(static_cast<std::uint32_t>(end) * group + step - 1);
      std::uint32_t team = first;
      while (team >= teams) team -= teams;
      bool const one_team = last - first == 1;
      of_team[team] += one_team ? length : 0;
      products += one_team ? 0 : length * (last - first);
    } else {
      keys_of_all += length;
    }
    keys += length;
    if (range.query_begin < item.query_begin) more_keys += length;
  }
  products += keys_of_all * all_steps + teams * *std::max_element(of_team.begin(), of_team.end());
  if (narrow) products = keys * all_steps;
  ItemWork work{.new_keys = static_cast<double>(keys - more_keys),
                .more_keys = static_cast<double>(more_keys)};
  (narrow ? work.narrow_rows : work.wide_rows) = static_cast<double>(products) * step;
  work.rows = static_cast<double>(queries) * group;
  if (item.partial_begin != WorkItem::direct) {
    work.partial_rows = work.rows;
    double merged = 0;  // queries
    for (int query = item.query_begin; query < item.query_end; ++query)
      merged += 1.0 / (tables.merge_begin[query + 1] - tables.merge_begin[query]);
    work.merged_rows = merged * group;
  }
  return work;
}

/// Microseconds that no plan can do without: each key read once, each pair of a key and a row
/// multiplied once in the faster tile, no slot at rest. For plans as they were made: updates may
/// leave `unique_keys` too large.
constexpr double predict_floor(PlanTables const& tables, MachineCosts const& costs) {
  PlanTarget const& target = tables.target;
  auto const have_keys = std::count_if(tables.visible_keys.begin(), tables.visible_keys.end(),
                                       [](int keys) { return keys > 0; });
  double const rows = static_cast<double>(have_keys) * target.group;
  double const read = static_cast<double>(tables.unique_keys) * target.key_bytes / costs.memory +
                      rows * target.row_bytes / costs.results;
  double const multiply = static_cast<double>(tables.path_keys) * target.group * target.flops /
                          std::max(costs.wide, costs.narrow);
  double const both = std::max(read, multiply) + costs.in_turn * std::min(read, multiply);
  return costs.launch + both * target.kv_heads / target.slots;
}

/// Microseconds until the slots have done all items of a schedule. Where there are partial results
/// the last item takes more at its end, when no keys come any more.
template <class Costs>
constexpr double time_of_all(Schedule const& schedule, PlanTarget const& target, Costs const& costs,
                             bool any_partial) {
  double const time = schedule.time(target.slots, costs.alone);
  if (!any_partial) return time;
  return time + costs.item_time(target, {.partial_rows = 1}) - costs.item_time(target, {});
}

/// Microseconds until the slots have done all items. Time: linear in the items and their ranges.
template <class Costs>
constexpr double predict_items(PlanTables const& tables, Costs const& costs) {
  Schedule schedule;
  for (WorkItem const& item : tables.items)
    schedule.add(costs.item_time(tables.target, work_of(tables, item)), tables.target.kv_heads);
  return time_of_all(schedule, tables.target, costs, tables.partials > 0);
}

/// Microseconds of a call.
constexpr double predict(PlanTables const& tables, MachineCosts const& costs) {
  return costs.launch + predict_items(tables, costs);
}

}  // namespace fasttree
