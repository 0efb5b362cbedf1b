// SPDX-License-Identifier: Apache-2.0
// expect: the cache must have the plan.s element type
// A cache of bfloat16 for a plan of half.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Rows<fasttree::half>;
#else
using Chosen = Rows<fasttree::bfloat16>;
#endif

void instance(Space const& space) {
  call(space, Rows<fasttree::half>{}, Chosen{}, Rows<fasttree::half>{},
       Sums<fasttree::NaturalLogSumExp>{});
}
