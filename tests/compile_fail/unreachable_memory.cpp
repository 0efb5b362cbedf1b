// SPDX-License-Identifier: Apache-2.0
// expect: this array lies in memory that the execution space cannot reach
// Keys in a memory space that the execution space cannot reach.

#include <fasttree/cache/contiguous_cache.hpp>

/// The memory of a machine that this one cannot reach: what Kokkos knows nothing about.
struct Elsewhere {
  using memory_space = Elsewhere;
};

template <class MemorySpace>
struct Keys {
  using element_type = fasttree::half;
  using memory_space = MemorySpace;
  static constexpr int rank() { return 3; }
  fasttree::half* data_handle() const { return nullptr; }
  long extent(int) const { return 0; }
  long stride(int) const { return 1; }
};

namespace Kokkos {
template <>
struct SpaceAccessibility<DefaultHostExecutionSpace, Elsewhere> {
  static constexpr bool accessible = false;
};
}  // namespace Kokkos

#ifdef FASTTREE_CONTROL
using Chosen = Keys<Kokkos::HostSpace>;
#else
using Chosen = Keys<Elsewhere>;
#endif

auto cache() {
  return fasttree::make_contiguous_cache(Kokkos::DefaultHostExecutionSpace{}, Chosen{}, Chosen{});
}
