// SPDX-License-Identifier: Apache-2.0
// expect: the base is part of the type
// Log-sum-exps as plain floats, whose base nobody knows.

#include "call.hpp"

#ifdef FASTTREE_CONTROL
using Chosen = Sums<fasttree::BinaryLogSumExp>;
#else
using Chosen = Sums<float>;
#endif

void instance(Space const& space) {
  call(space, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Rows<fasttree::half>{}, Chosen{});
}
