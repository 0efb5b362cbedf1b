// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that kernels of a space reach, as bytes: what plans and workspaces lie in. A space is one of
// Kokkos', with memory in a View, or has such memory itself, as CudaStream does.

#include <cstddef>
#include <string>
#include <utility>

#include <fasttree/core/kokkos.hpp>

namespace fasttree {

namespace detail {

template <class Space>
struct MemoryOf {
  using type = typename Space::Memory;
};
template <KokkosSpace Space>
struct MemoryOf<Space> {
  using type = Kokkos::View<std::byte*, Space>;
};

}  // namespace detail

/// A block of memory of `Space`, with `data()` and `size()`, in bytes: copies share it.
template <class Space>
using Memory = typename detail::MemoryOf<Space>::type;

/// Allocates memory of `space`, whose contents are undefined until written.
template <class Space>
Memory<Space> allocate(Space const& space, std::string const& label, std::size_t bytes) {
  if constexpr (KokkosSpace<Space>) {
    return Memory<Space>(Kokkos::view_alloc(space, Kokkos::WithoutInitializing, label), bytes);
  } else {
    return space.allocate(bytes);
  }
}

/// Enqueues a copy of so many bytes of the host, which may change once this returns, to the
/// beginning of `to`.
template <class Space>
void upload(Space const& space, Memory<Space> const& to, std::byte const* from, std::size_t bytes) {
  if constexpr (KokkosSpace<Space>) {
    using Bytes =
        Kokkos::View<std::byte const*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Kokkos::deep_copy(space, Kokkos::subview(to, std::make_pair(std::size_t{0}, bytes)),
                      Bytes(from, bytes));
  } else {
    space.upload(to.data(), from, bytes);
  }
}

}  // namespace fasttree
