// SPDX-License-Identifier: Apache-2.0
#pragma once
// The monoid that everything here folds. A partial result is an output vector o and a log-sum-exp
// s; two of them over disjoint keys merge by
//     s = log(exp(s_a) + exp(s_b)),   o = exp(s_a - s) o_a + exp(s_b - s) o_b;
// the identity is (0, -inf). FastTree section 4.3; Tree Attention (arXiv 2408.04093) section 5.
// The base of the logarithm is part of the type: values of different bases do not mix.

#include <cmath>
#include <limits>

#include <fasttree/core/kokkos.hpp>

namespace fasttree {

namespace detail {

/// As a variable: device code may not call functions of std::numeric_limits.
inline constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace detail

/// The bases in which systems exchange log-sum-exps: e (FlashAttention, PyTorch), 2 (FlashInfer).
enum class LogBase { e, two };

/// log_Base of the sum of Base^logit over some keys; -inf where there is no key. The layout of a
/// float.
template <LogBase Base>
struct LogSumExp {
  static constexpr LogBase base = Base;
  float value = -detail::infinity;
};

using NaturalLogSumExp = LogSumExp<LogBase::e>;
using BinaryLogSumExp = LogSumExp<LogBase::two>;

/// The same log-sum-exp in another base. Between equal bases it changes no bit.
template <LogBase To, LogBase From>
FASTTREE_INLINE_FUNCTION constexpr LogSumExp<To> convert(LogSumExp<From> from) {
  if constexpr (To == From) return from;
  constexpr float ln2 = 0.693147180559945f;
  constexpr float factor = To == LogBase::e ? ln2 : 1 / ln2;
  return {from.value * factor};
}

/// Weights that combine two partial results over disjoint keys, and the log-sum-exp of their union.
template <LogBase Base>
struct MergeWeights {
  float a, b;
  LogSumExp<Base> log_sum_exp;
};

/// The weights of two partial results. Swapping a and b swaps the weights and changes no bit; nan
/// on either side makes all of it nan. Both weights are 0 where neither side has keys; a side whose
/// weight is 0 need not be read.
template <LogBase Base>
FASTTREE_INLINE_FUNCTION MergeWeights<Base> merge_weights(LogSumExp<Base> a, LogSumExp<Base> b) {
  if (b.value != b.value) return {b.value, b.value, b};
  bool const a_is_top = !(a.value < b.value);
  float const top = a_is_top ? a.value : b.value;
  float const low = a_is_top ? b.value : a.value;
  if (top == -detail::infinity) return {0.f, 0.f, {top}};
  float const rest = Base == LogBase::e ? std::exp(low - top) : std::exp2(low - top);
  float const more = Base == LogBase::e ? std::log1p(rest) : std::log2(1.f + rest);
  float const top_weight = 1.f / (1.f + rest), low_weight = rest / (1.f + rest);
  float const all = rest == 0.f ? top : top + more;  // the identity keeps the sign of -0
  return {a_is_top ? top_weight : low_weight, a_is_top ? low_weight : top_weight, {all}};
}

/// weights.a * a + weights.b * b, without reading a side that has no keys (garbage there cannot
/// leak). Ordered by weight, so that swapping the sides changes no bit, with fused multiply-adds
/// too: where the weights are equal both are 1/2, and products with 1/2 are exact.
template <LogBase Base>
FASTTREE_INLINE_FUNCTION float merge_outputs(MergeWeights<Base> const& weights, float const& a,
                                             float const& b) {
  bool const b_is_top = weights.a < weights.b;
  float const top = b_is_top ? weights.b : weights.a;
  float const low = b_is_top ? weights.a : weights.b;
  if (top == 0.f) return 0.f;
  float const& top_output = b_is_top ? b : a;
  if (low == 0.f) return top_output;
  float const& low_output = b_is_top ? a : b;
  return top * top_output + low * low_output;
}

}  // namespace fasttree
