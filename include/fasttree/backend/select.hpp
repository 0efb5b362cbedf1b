// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which backend serves an execution space and heads: one line for each.

#include <type_traits>

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
#ifdef KOKKOS_ARCH_HOPPER90
inline constexpr int cuda_warps = 8;
#else
inline constexpr int cuda_warps = 4;
#endif
#if defined(KOKKOS_ARCH_AMPERE86) || defined(KOKKOS_ARCH_ADA89) || defined(KOKKOS_ARCH_BLACKWELL120)
inline constexpr bool holds_large_tiles = false;  // 100 KB of shared memory: not all of them
#else
inline constexpr bool holds_large_tiles = true;
#endif

/// Heads that tensor cores take.
template <class Shape>
concept TensorCoreShape = cuda::sm80::supports<Shape> &&
    (holds_large_tiles || !cuda::sm80::is_large<Shape>);

template <TensorCoreShape Shape>
struct BackendOf<Kokkos::Cuda, Shape> {
  using type = std::conditional_t<cuda::sm80::is_large<Shape>, cuda::sm80::Backend<4, 1>,
                                  cuda::sm80::Backend<cuda_warps>>;
};
#endif

}  // namespace detail

/// The backend of `Space` for heads of `Shape`; without one, that which serves all heads.
template <class Space, class Shape = void>
using DefaultBackend = typename detail::BackendOf<Space, Shape>::type;

}  // namespace fasttree
