// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to .*merge_weights
// Merging a base-2 log-sum-exp with a natural one.

#include <fasttree/core/log_sum_exp.hpp>

float weight(fasttree::NaturalLogSumExp a, fasttree::BinaryLogSumExp b) {
#ifdef FASTTREE_CONTROL
  return fasttree::merge_weights(a, fasttree::convert<fasttree::LogBase::e>(b)).a;
#else
  return fasttree::merge_weights(a, b).a;
#endif
}
