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
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/plan/machine_costs.hpp>
#include "timed_plan.hpp"

namespace fasttree::bench {

/// A constant of MachineCosts, and between what it is searched: rates, which are those of a slot, by
/// what they are multiplied.
struct Constant {
  char const* name;
  double MachineCosts::*value;
  double least, most;
  bool is_rate = false;

  constexpr double bound(double end, MachineCosts const& from) const {
    return is_rate ? from.*value * end : end;
  }
  constexpr double clamped(double x, MachineCosts const& from) const {
    return std::clamp(x, bound(least, from), bound(most, from));
  }
};

inline constexpr Constant constants[] = {{"launch", &MachineCosts::launch, 1e-2, 1e3},
                                         {"item", &MachineCosts::item, 1e-3, 1e2},
                                         {"partial", &MachineCosts::partial, 1e-3, 1e2},
                                         {"memory", &MachineCosts::memory, 0.05, 20, true},
                                         {"drift", &MachineCosts::drift, 1e-3, 1},
                                         {"cache", &MachineCosts::cache, 0.05, 20, true},
                                         {"results", &MachineCosts::results, 0.05, 20, true},
                                         {"wide", &MachineCosts::wide, 0.05, 20, true},
                                         {"narrow", &MachineCosts::narrow, 0.05, 20, true},
                                         {"in_turn", &MachineCosts::in_turn, 1e-3, 1},
                                         {"merge", &MachineCosts::merge, 1e-5, 1},
                                         {"alone", &MachineCosts::alone, 1, 10}};

/// Mean of |log(predicted / measured)|.
inline double misfit(std::vector<TimedPlan> const& points, MachineCosts const& costs) {
  double sum = 0;
  for (TimedPlan const& point : points)
    sum += std::abs(std::log(point.work.predict(costs) / point.microseconds));
  return sum / std::max(static_cast<double>(points.size()), 1.0);
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

/// The search for the constants that fit, in their logarithms.
class CostSearch {
 public:
  using Place = std::vector<double>;

  CostSearch(std::vector<TimedPlan> const& points, MachineCosts const& from)
      : points_(points), from_(from) {
    for (Constant const& constant : constants) {
      double const value = constant.clamped(from.*constant.value, from);
      auto const matters = [&](double end) {
        MachineCosts changed = from;
        changed.*constant.value = std::sqrt(value * constant.bound(end, from));
        return misfit(points, changed) != misfit(points, from);
      };
      if (matters(constant.least) || matters(constant.most)) {
        searched_.push_back(constant);
        begin_.push_back(std::log(value));
      } else {
        undetermined_.emplace_back(constant.name);
      }
    }
  }

  /// From what the constants were, and from other values of those that are no rates: what reads and
  /// multiplies in turn looks much like what does both at slower rates, items that are dear like such
  /// whose partial results are, and the way from one to the other leads uphill.
  Fit run() {
    Place place;
    if (!searched_.empty()) {
      constexpr MachineCosts others{.partial = 1, .in_turn = 0.1, .merge = 0.1, .alone = 1.2};
      Place other = begin_;
      for (std::size_t i = 0; i < other.size(); ++i)
        for (auto const value : {&MachineCosts::partial, &MachineCosts::in_turn,
                                 &MachineCosts::merge, &MachineCosts::alone})
          if (searched_[i].value == value) other[i] = std::log(others.*value);
      place = std::min(searched_from(begin_), searched_from(other)).second;
    }
    MachineCosts costs = costs_at(place);
    for (Constant const& constant : searched_)
      costs.*constant.value = rounded(costs.*constant.value);
    return {costs, undetermined_};
  }

 private:
  static constexpr int evaluations = 800, looks = 16;
  static constexpr double price_of_move = 1e-3;  ///< by a factor of e

  /// With a little more for each constant that is moved, so that those stay about which the points
  /// say next to nothing.
  double misfit_at(Place const& place) const {
    double moved = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      if (from_.*searched_[i].value > 0) moved += std::abs(place[i] - begin_[i]);
    return misfit(points_, costs_at(place)) + price_of_move * moved;
  }

  /// In turn looks far, to leave a valley that is not the deepest, and near. Returns the misfit, and
  /// where it is found.
  std::pair<double, Place> searched_from(Place const& place) const {
    auto const function = [this](Place const& at) { return misfit_at(at); };
    std::pair<double, Place> best{misfit_at(place), place};
    for (double const size :
         {0.7, -0.5, 0.35, -0.25, 0.15, -0.08, 0.5, -0.35, 0.25, -0.15, 0.08, -0.04, 0.02})
      best = NelderMead(function, looked_far(best), size).run(evaluations);
    return best;
  }

  MachineCosts costs_at(Place const& place) const {
    MachineCosts costs = from_;
    for (std::size_t i = 0; i < place.size(); ++i)
      costs.*searched_[i].value = searched_[i].clamped(std::exp(place[i]), from_);
    return costs;
  }

  /// Tries one constant after the other between its bounds.
  Place looked_far(std::pair<double, Place> best) const {
    for (std::size_t i = 0; i < searched_.size(); ++i) {
      double const begin = std::log(searched_[i].bound(searched_[i].least, from_));
      double const end = std::log(searched_[i].bound(searched_[i].most, from_));
      for (int look = 0; look <= looks; ++look) {
        Place place = best.second;
        place[i] = begin + (end - begin) * look / looks;
        best = std::min(best, std::pair(misfit_at(place), place));
      }
    }
    return best.second;
  }

  std::vector<TimedPlan> const& points_;
  MachineCosts const& from_;
  std::vector<Constant> searched_;
  Place begin_;
  std::vector<std::string> undetermined_;
};

/// The constants that fit, rounded to three digits.
inline Fit fit(std::vector<TimedPlan> const& points, MachineCosts const& from) {
  return CostSearch(points, from).run();
}

/// Microseconds of each point, by constants that were fitted without any point of its tree: trees
/// are dealt out to three parts in turn, each of which the points of the two others predict.
inline std::vector<double> predictions_of_left_out(std::vector<TimedPlan> const& points,
                                                   MachineCosts const& from) {
  constexpr int parts = 3;
  std::map<std::string, int> number_of_tree;
  std::vector<TimedPlan> others[parts];
  std::vector<int> part_of;
  for (TimedPlan const& point : points) {
    int const next = static_cast<int>(number_of_tree.size());
    part_of.push_back(number_of_tree.try_emplace(point.tree, next).first->second % parts);
    for (int part = 0; part < parts; ++part)
      if (part != part_of.back()) others[part].push_back(point);
  }
  std::future<Fit> fits[parts];
  for (int part = 0; part < parts; ++part)
    fits[part] = std::async(std::launch::async, [&, part] { return fit(others[part], from); });
  MachineCosts costs[parts];
  for (int part = 0; part < parts; ++part) costs[part] = fits[part].get().costs;
  std::vector<double> predictions;
  for (std::size_t i = 0; i < points.size(); ++i)
    predictions.push_back(points[i].work.predict(costs[part_of[i]]));
  return predictions;
}

inline std::vector<double> predictions(std::vector<TimedPlan> const& points,
                                       MachineCosts const& costs) {
  std::vector<double> all;
  for (TimedPlan const& point : points) all.push_back(point.work.predict(costs));
  return all;
}

/// How far predictions are from measured times: |predicted / measured - 1|.
struct PredictionError {
  int points = 0;
  double median = 0, worst = 0;
};

/// Of the points of a planner; without a name, of all.
inline PredictionError prediction_error(std::vector<TimedPlan> const& points,
                                        std::vector<double> const& predictions,
                                        std::string const& planner = "") {
  std::vector<double> each;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (planner.empty() || points[i].planner == planner)
      each.push_back(std::abs(predictions[i] / points[i].microseconds - 1));
  if (each.empty()) return {};
  std::sort(each.begin(), each.end());
  return {static_cast<int>(each.size()), each[each.size() / 2], each.back()};
}

/// How far a constant alone can be changed before the misfit grows by a twentieth.
inline std::pair<double, double> range_of(Constant const& constant,
                                          std::vector<TimedPlan> const& points,
                                          MachineCosts const& costs) {
  double const allowed = 1.05 * misfit(points, costs);
  auto const end = [&](double factor) {
    MachineCosts changed = costs;
    double& value = changed.*constant.value;
    for (double next = value; misfit(points, changed) <= allowed; value = next) {
      next = constant.clamped(value * factor, costs);
      if (next == value) break;
    }
    return rounded(value);
  };
  return {end(1 / 1.05), end(1.05)};
}

}  // namespace fasttree::bench
