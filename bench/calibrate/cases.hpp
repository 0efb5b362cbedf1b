// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tree with its heads by which a machine is calibrated, and what all machines do with it.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../support/forests.hpp"
#include "../support/heads.hpp"
#include "timed_plan.hpp"

namespace fasttree::bench {

struct CalibrationCase {
  NamedForest tree;
  Heads heads;

  /// The point of a plan, not yet timed.
  TimedPlan point(char const* element, std::string planner, PlanWork work) const {
    return {tree.name, heads.name(), element, std::move(planner), std::move(work), 0};
  }
};

/// Whether one of the points from `begin` on, all of one case, has the same work: it would take the
/// same time.
inline bool has_same_work(std::vector<TimedPlan> const& points, std::size_t begin,
                          PlanWork const& work) {
  return std::any_of(points.begin() + static_cast<std::ptrdiff_t>(begin), points.end(),
                     [&](TimedPlan const& point) { return point.work.same_items(work); });
}

}  // namespace fasttree::bench
