// SPDX-License-Identifier: Apache-2.0
// expect: queries must have the plan.s element type
// Queries of float for a plan of half.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Rows<fasttree::half>;
#else
using Chosen = Rows<float>;
#endif

void instance(Space const& space) {
  call(space, Chosen{}, Rows<fasttree::half>{}, Rows<fasttree::half>{},
       Sums<fasttree::NaturalLogSumExp>{});
}
