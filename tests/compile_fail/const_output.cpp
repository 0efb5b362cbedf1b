// SPDX-License-Identifier: Apache-2.0
// expect: output must have float, half or bfloat16 elements that are not const
// An output that cannot be written.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Rows<fasttree::half>;
#else
using Chosen = Rows<fasttree::half const>;
#endif

void instance(Space const& space) {
  call(space, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Chosen{},
       Sums<fasttree::NaturalLogSumExp>{});
}
