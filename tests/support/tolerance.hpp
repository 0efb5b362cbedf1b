// SPDX-License-Identifier: Apache-2.0
#pragma once
// By how much float arithmetic may differ from the oracle: a bound to first order in the unit
// roundoff u = 2^-24, computed per row from its number of keys and the magnitudes of its inputs.
// The inputs are exact (the oracle reads the stored elements), so that only arithmetic and the
// final rounding count.
//
// A logit is softmax_scale * sum_d q_d k_d. Folding the scale and log2(e) into q rounds 3 times,
// and a sum of head_dim products in any order adds head_dim u: with A = softmax_scale * sum_d |q_d
// k_d|,
//     |logit error| <= (head_dim + 3) u A.
// A weight is 2^(logit - maximum); the maximum cancels in the quotient. The difference, of at most
// 2 A, rounds once here and once more where log-sum-exps (A and the log of the number of keys) are
// merged; each power is wrong by 4 u, two on the way:
//     weight error (relative) <= (head_dim + 3 + 4) u A + (8 + 2 log(keys)) u.
// Weights, and weights times values, are summed over the keys. Each key costs an addition and a
// product, and at worst (each key in a tile and a partial result of its own) one correction of what
// was summed before, 6 u, and one weight of a merge, likewise:
//     sum error (relative to the sum of absolute values) <= 14 keys u.
// The output is a quotient of two such sums, of values of at most V:
//     |output error| <= 2 V (weight error + sum error) + 3 u V, then rounded to the stored element.
// A backend may round weights to the elements of the values before it multiplies them (not in their
// sum): by weight_roundoff, relative to each; halves below 2^-14 have no relative precision, so that
// each key may add as much of 2^-14:
//     V weight_roundoff (1 + 2^-14 keys).
// The log-sum-exp is the maximum + log(sum): it is wrong by the errors of a logit and of the sum,
// and rounds 4 times at its own size of at most A + log(keys).

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fasttree/core/element.hpp>
#include "oracle.hpp"

namespace fasttree::test {

/// Relative error of the sum of the weights of a row.
inline double sum_error(RowFacts const& row, int head_dim) {
  constexpr double u = unit_roundoff<float>;
  double const weight =
      (head_dim + 7) * u * row.logit_size + (8 + 2 * std::log(std::max(row.keys, 1))) * u;
  return weight + 14 * u * row.keys;
}

/// Most by which an output component may differ from `exact`, stored as `Written`.
template <class Written>
double output_tolerance(RowFacts const& row, int head_dim, double exact,
                        double weight_roundoff = 0) {
  constexpr double u = unit_roundoff<float>;
  double const computed = row.value_size * (2 * sum_error(row, head_dim) + 3 * u +
                                            weight_roundoff * (1 + 0x1p-14 * row.keys));
  // Half the distance of subnormal numbers: the error of rounding to zero.
  constexpr double least = std::is_same_v<Written, fasttree::half> ? 0x1p-25 : 0x1p-134;
  double const stored = std::is_same_v<Written, float> ? 0 : unit_roundoff<Written>;
  return computed + stored * (std::abs(exact) + computed) + least;
}

/// Most by which a natural log-sum-exp may differ.
inline double log_sum_exp_tolerance(RowFacts const& row, int head_dim) {
  constexpr double u = unit_roundoff<float>;
  double const size = row.logit_size + std::log(std::max(row.keys, 1));
  return sum_error(row, head_dim) + 4 * u * size;
}

/// |found - exact| in units of `tolerance`; infinite where one is nan or infinite and the other is
/// not.
inline double error_in(double tolerance, double found, double exact) {
  if (found == exact || (std::isnan(found) && std::isnan(exact))) return 0;
  double const error = std::abs(found - exact) / tolerance;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace fasttree::test
