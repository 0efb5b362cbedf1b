// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which backend serves an execution space and heads: one line for each.

#include <fasttree/backend/portable/portable.hpp>
#if FASTTREE_CUDA
#include <fasttree/backend/cuda/sm80/sm80.hpp>
#endif

namespace fasttree {

namespace detail {

template <class Space, class Shape>
struct BackendOf {
  using type = portable::Backend<Space>;
};

#if FASTTREE_CUDA
template <class Shape>
requires(cuda::sm80::supports<Shape>) struct BackendOf<Kokkos::Cuda, Shape> {
#ifdef KOKKOS_ARCH_HOPPER90
  using type = cuda::sm80::Backend<8>;
#else
  using type = cuda::sm80::Backend<4>;
#endif
};
#endif

}  // namespace detail

/// The backend of `Space` for heads of `Shape`; without one, that which serves all heads.
template <class Space, class Shape = void>
using DefaultBackend = typename detail::BackendOf<Space, Shape>::type;

}  // namespace fasttree
