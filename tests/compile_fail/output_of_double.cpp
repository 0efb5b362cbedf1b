// SPDX-License-Identifier: Apache-2.0
// expect: output must have float, half or bfloat16 elements
// An output of an element type that no kernel writes.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Rows<float>;
#else
using Chosen = Rows<double>;
#endif

void instance(Space const& space) {
  call(space, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Chosen{},
       Sums<fasttree::NaturalLogSumExp>{});
}
