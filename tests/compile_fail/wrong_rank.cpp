// expect: fasttree: this array has another number of dimensions than it should
// SPDX-License-Identifier: Apache-2.0

#include <fasttree/tree_attention.hpp>

#if defined(FASTTREE_CONTROL)
using Array = Kokkos::View<float***, Kokkos::HostSpace>;
#else
using Array = Kokkos::View<float****, Kokkos::HostSpace>;
#endif

void make(Array const& keys) {
  (void)fasttree::make_contiguous_cache(Kokkos::DefaultHostExecutionSpace{}, keys, keys);
}
