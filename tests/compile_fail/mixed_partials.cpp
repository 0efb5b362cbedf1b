// SPDX-License-Identifier: Apache-2.0
// expect: no matching function for call to .*merge
// Merging partial results whose log-sum-exps have different bases.

#include <fasttree/core/partials.hpp>

using Space = Kokkos::DefaultHostExecutionSpace;
#ifdef FASTTREE_CONTROL
using Other = fasttree::Partials<Space, fasttree::LogBase::e>;
#else
using Other = fasttree::Partials<Space, fasttree::LogBase::two>;
#endif

void fold(Space const& space, fasttree::Partials<Space> const& a, Other const& b) {
  fasttree::merge(space, a, b);
}
