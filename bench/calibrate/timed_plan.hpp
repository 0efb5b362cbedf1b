// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a fit of MachineCosts goes by: the work of a plan's items, without the plan, and how long
// attention by it was measured to take.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fasttree/plan/predict.hpp>
#include <fasttree/plan/schedule.hpp>

namespace fasttree::bench {

/// Items of a plan, for one KV head, that do the same work.
struct EqualItems {
  ItemWork work;
  std::int64_t count = 0;
};

/// Numbers of an ItemWork, as files have them.
inline constexpr double ItemWork::*work_numbers[] = {
    &ItemWork::new_keys, &ItemWork::more_keys,    &ItemWork::wide_rows,  &ItemWork::narrow_rows,
    &ItemWork::rows,     &ItemWork::partial_rows, &ItemWork::merged_rows};

struct PlanWork {
  PlanTarget target;  ///< tiles and group do not matter any more
  std::vector<EqualItems> items;

  static PlanWork of(PlanTables const& tables) {
    std::map<std::array<double, std::size(work_numbers)>, EqualItems> all;
    for (WorkItem const& item : tables.items) {
      ItemWork const work = work_of(tables, item);
      std::array<double, std::size(work_numbers)> key;
      for (std::size_t i = 0; i < key.size(); ++i) key[i] = work.*work_numbers[i];
      EqualItems& equal = all[key];
      equal.work = work;
      ++equal.count;
    }
    PlanWork plan{tables.target, {}};
    for (auto const& [key, equal] : all) plan.items.push_back(equal);
    return plan;
  }

  /// As fasttree::predict of the plan, but for rounding.
  double predict(MachineCosts const& costs) const {
    Schedule schedule;
    bool any_partial = false;
    for (EqualItems const& equal : items) {
      schedule.add(costs.item_time(target, equal.work), equal.count * target.kv_heads);
      any_partial = any_partial || equal.work.partial_rows > 0;
    }
    return costs.launch + time_of_all(schedule, target, costs, any_partial);
  }

  /// Whether two plans for one target have the same items.
  bool same_items(PlanWork const& other) const {
    if (items.size() != other.items.size()) return false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].count != other.items[i].count) return false;
      for (auto const number : work_numbers)
        if (items[i].work.*number != other.items[i].work.*number) return false;
    }
    return true;
  }
};

/// A plan, and the time of attention by it in microseconds.
struct TimedPlan {
  std::string tree, heads, element, planner;
  PlanWork work;
  double microseconds = 0;

  std::string name() const { return tree + "/" + element + "/" + heads + "/" + planner; }
};

}  // namespace fasttree::bench
