// SPDX-License-Identifier: Apache-2.0
// expect: fasttree::tree_attention: log_sum_exps
// Log-sum-exps that cannot be written.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Sums<fasttree::NaturalLogSumExp>;
#else
using Chosen = Sums<fasttree::NaturalLogSumExp const>;
#endif

void instance(Space const& space) {
  call(space, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Chosen{});
}
