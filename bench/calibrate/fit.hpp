// SPDX-License-Identifier: Apache-2.0
#pragma once
// The constants of MachineCosts whose predictions come nearest to measured times: the mean of the
// absolute logarithm of predicted over measured time is least, so that a few plans that the model
// does not describe hardly count. `predict` has kinks and steps, so the search needs values alone:
// that of Nelder and Mead (1965), by the coefficients of Gao and Han (2012), begun anew from the
// best point with simplices that shrink. The same points give the same constants.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/plan/machine_costs.hpp>
#include "timed_plan.hpp"

namespace fasttree::bench {

/// A constant of MachineCosts, and between what it is searched.
struct Constant {
  char const* name;
  double MachineCosts::*value;
  double least, most;
  bool is_rate = false;  ///< of a slot
};

inline constexpr Constant constants[] = {{"launch", &MachineCosts::launch, 1e-2, 1e3},
                                         {"item", &MachineCosts::item, 1e-3, 1e2},
                                         {"memory", &MachineCosts::memory, 1e2, 1e7, true},
                                         {"cache", &MachineCosts::cache, 1e2, 1e7, true},
                                         {"results", &MachineCosts::results, 1e2, 1e7, true},
                                         {"wide", &MachineCosts::wide, 1e3, 1e9, true},
                                         {"narrow", &MachineCosts::narrow, 1e3, 1e9, true},
                                         {"in_turn", &MachineCosts::in_turn, 1e-3, 1},
                                         {"merge", &MachineCosts::merge, 1e-5, 1},
                                         {"alone", &MachineCosts::alone, 1, 10}};

/// Mean of |log(predicted / measured)| of the points that are not left out.
inline double misfit(std::vector<TimedPlan> const& points, MachineCosts const& costs) {
  double sum = 0;
  int count = 0;
  for (TimedPlan const& point : points) {
    if (point.left_out) continue;
    sum += std::abs(std::log(point.work.predict(costs) / point.microseconds));
    ++count;
  }
  return sum / std::max(count, 1);
}

/// The least of some function of several numbers.
template <class Function>
class NelderMead {
 public:
  using Place = std::vector<double>;

  NelderMead(Function const& function, Place const& from, double size) : function_(function) {
    corners_.push_back({function(from), from});
    for (std::size_t i = 0; i < from.size(); ++i) {
      Place place = from;
      place[i] += size;
      corners_.push_back({function(place), place});
    }
  }

  /// Evaluates the function about so often. Returns the least that was found, and where.
  std::pair<double, Place> run(int evaluations) {
    auto const n = static_cast<double>(corners_.size() - 1);
    double const expand = 1 + 2 / n, contract = 0.75 - 1 / (2 * n), shrink = 1 - 1 / n;
    for (evaluations_ = 0; evaluations_ < evaluations;) {
      std::stable_sort(corners_.begin(), corners_.end(),
                       [](Corner const& a, Corner const& b) { return a.value < b.value; });
      Corner& worst = corners_.back();
      double const best = corners_.front().value, second = corners_[corners_.size() - 2].value;
      Corner const reflected = beyond_centre(1);
      if (reflected.value < best) {
        Corner const expanded = beyond_centre(expand);
        worst = expanded.value < reflected.value ? expanded : reflected;
      } else if (reflected.value < second) {
        worst = reflected;
      } else {
        bool const outside = reflected.value < worst.value;
        Corner const contracted = beyond_centre(outside ? contract : -contract);
        if (contracted.value < std::min(reflected.value, worst.value)) {
          worst = contracted;
        } else {
          shrink_by(shrink);
        }
      }
    }
    auto const found =
        std::min_element(corners_.begin(), corners_.end(),
                         [](Corner const& a, Corner const& b) { return a.value < b.value; });
    return {found->value, found->place};
  }

 private:
  struct Corner {
    double value;
    Place place;
  };

  Corner evaluated(Place place) {
    ++evaluations_;
    return {function_(place), place};
  }

  /// On the line from the worst corner through the centre of the others, `by` times as far behind it.
  Corner beyond_centre(double by) {
    Place const& worst = corners_.back().place;
    Place place(worst.size());
    for (std::size_t i = 0; i < place.size(); ++i) {
      double centre = 0;
      for (std::size_t k = 0; k + 1 < corners_.size(); ++k) centre += corners_[k].place[i];
      centre /= static_cast<double>(corners_.size() - 1);
      place[i] = centre + by * (centre - worst[i]);
    }
    return evaluated(place);
  }

  void shrink_by(double factor) {
    Place const best = corners_.front().place;
    for (std::size_t k = 1; k < corners_.size(); ++k) {
      Place place = corners_[k].place;
      for (std::size_t i = 0; i < place.size(); ++i)
        place[i] = best[i] + factor * (place[i] - best[i]);
      corners_[k] = evaluated(place);
    }
  }

  Function const& function_;
  std::vector<Corner> corners_;
  int evaluations_ = 0;
};

/// A number as it is printed, with three digits.
inline double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", value);
  return std::strtod(text, nullptr);
}

/// Constants that are fitted, and those that no point says anything about: they stay what they were.
struct Fit {
  MachineCosts costs;
  std::vector<std::string> undetermined;
};

/// The constants that fit the points that are not left out, rounded to three digits. The search
/// begins at `from`.
inline Fit fit(std::vector<TimedPlan> const& points, MachineCosts const& from) {
  Fit result{from, {}};
  std::vector<Constant> searched;
  std::vector<double> place;
  for (Constant const& constant : constants) {
    double const value = std::clamp(from.*constant.value, constant.least, constant.most);
    auto const matters = [&](double end) {
      MachineCosts changed = from;
      changed.*constant.value = std::sqrt(value * end);
      return misfit(points, changed) != misfit(points, from);
    };
    if (matters(constant.least) || matters(constant.most)) {
      searched.push_back(constant);
      place.push_back(std::log(value));
    } else {
      result.undetermined.emplace_back(constant.name);
    }
  }
  if (searched.empty()) return result;
  auto const costs_at = [&](std::vector<double> const& logarithms) {
    MachineCosts costs = from;
    for (std::size_t i = 0; i < searched.size(); ++i)
      costs.*searched[i].value =
          std::clamp(std::exp(logarithms[i]), searched[i].least, searched[i].most);
    return costs;
  };
  auto const misfit_at = [&](std::vector<double> const& at) {
    return misfit(points, costs_at(at));
  };
  constexpr int evaluations = 600;
  for (double const size : {1.0, -0.7, 0.5, -0.35, 0.25, -0.18, 0.12, -0.09, 0.06, -0.04, 0.02})
    place = NelderMead(misfit_at, place, size).run(evaluations).second;
  result.costs = costs_at(place);
  for (Constant const& constant : searched)
    result.costs.*constant.value = rounded(result.costs.*constant.value);
  return result;
}

/// How far predictions are from measured times: |predicted / measured - 1|.
struct PredictionError {
  int points = 0;
  double median = 0, worst = 0;
};

/// Of the points for which `counts` is true.
template <class Counts>
PredictionError prediction_error(std::vector<TimedPlan> const& points, MachineCosts const& costs,
                                 Counts const& counts) {
  std::vector<double> each;
  for (TimedPlan const& point : points)
    if (counts(point)) each.push_back(std::abs(point.work.predict(costs) / point.microseconds - 1));
  if (each.empty()) return {};
  std::sort(each.begin(), each.end());
  return {static_cast<int>(each.size()), each[each.size() / 2], each.back()};
}

/// How far each constant alone can be changed before the misfit grows by a twentieth.
inline std::pair<double, double> range_of(Constant const& constant,
                                          std::vector<TimedPlan> const& points,
                                          MachineCosts const& costs) {
  double const allowed = 1.05 * misfit(points, costs);
  auto const end = [&](double factor) {
    MachineCosts changed = costs;
    double& value = changed.*constant.value;
    while (value > constant.least && value < constant.most && misfit(points, changed) <= allowed)
      value *= factor;
    return rounded(value);
  };
  return {end(1 / 1.05), end(1.05)};
}

}  // namespace fasttree::bench
