// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a plan will take, whoever made it: the work of each item, counted from the plan's tables,
// and the time that a machine of some costs needs for all of them. Predictions, not measurements.

#include <algorithm>
#include <cstdint>

#include <fasttree/core/integers.hpp>
#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/plan/schedule.hpp>

namespace fasttree {

/// What an item does for one KV head. Keys are read for the first time by the item that has the
/// first of the queries that see them; the wide tile multiplies them with the rows that see them,
/// the narrow one with all of its rows.
constexpr ItemWork work_of(PlanTables const& tables, WorkItem const& item) {
  PlanTarget const& target = tables.target;
  std::int64_t const group = target.group;
  int const queries = item.query_end - item.query_begin;
  bool const narrow = queries <= tables.narrow_queries;
  std::int64_t const step = (narrow ? tables.tiles.narrow : tables.tiles.wide).row_step;
  ItemWork work;
  for (KeyRange const& range : tables.ranges_of(item)) {
    int const begin = std::max(range.query_begin, item.query_begin) - item.query_begin;
    int const end = std::min(range.query_end, item.query_end) - item.query_begin;
    if (begin >= end) continue;
    double const keys = range.length;
    (range.query_begin >= item.query_begin ? work.new_keys : work.more_keys) += keys;
    if (narrow) {
      work.narrow_rows += keys * static_cast<double>(round_up(queries * group, step));
    } else {
      work.wide_rows +=
          keys * static_cast<double>(round_up(end * group, step) - begin * group / step * step);
    }
  }
  work.rows = static_cast<double>(group * queries);
  if (item.partial_begin != WorkItem::direct) work.partial_rows = work.rows;
  return work;
}

/// Microseconds that no plan can do without: each key read once, each pair of a key and a row
/// multiplied once in the faster tile, no slot at rest.
constexpr double predict_floor(PlanTables const& tables, MachineCosts const& costs) {
  PlanTarget const& target = tables.target;
  double const rows = static_cast<double>(tables.query_order.size()) * target.group;
  double const read = static_cast<double>(tables.unique_keys) * target.key_bytes / costs.memory +
                      rows * target.row_bytes / costs.results;
  double const multiply = static_cast<double>(tables.path_keys) * target.group * target.flops /
                          std::max(costs.wide, costs.narrow);
  double const both = std::max(read, multiply) + costs.in_turn * std::min(read, multiply);
  return costs.launch + both * target.kv_heads / target.slots;
}

/// Microseconds until the slots have done all items. Time: linear in the items and their ranges.
template <class Costs>
constexpr double predict_items(PlanTables const& tables, Costs const& costs) {
  Schedule schedule;
  for (WorkItem const& item : tables.items)
    schedule.add(costs.item_time(tables.target, work_of(tables, item)), tables.target.kv_heads);
  return schedule.time(tables.target.slots, costs.alone);
}

/// Microseconds of a call.
constexpr double predict(PlanTables const& tables, MachineCosts const& costs) {
  return costs.launch + predict_items(tables, costs);
}

}  // namespace fasttree
