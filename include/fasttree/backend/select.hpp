// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which backend serves an execution space and heads: one line for each.

#include <type_traits>

#include <fasttree/backend/portable/portable.hpp>
#if FASTTREE_CUDA
#include <algorithm>

#include <fasttree/backend/cuda/sm80/sm80.hpp>
#include <fasttree/backend/cuda/stream.hpp>
#endif

namespace fasttree {

namespace detail {

template <class Space, class Shape>
struct BackendOf {
  using type = portable::Backend<Space>;
};

#if FASTTREE_CUDA
/// What the program is compiled for, in the numbers of nvcc.
inline constexpr int cuda_architectures[] = {__CUDA_ARCH_LIST__};

inline constexpr int cuda_warps =
    std::ranges::all_of(cuda_architectures, [](int of) { return of == 900; }) ? 8 : 4;

/// Not where some have 100 KB of shared memory.
inline constexpr bool holds_large_tiles = std::ranges::none_of(
    cuda_architectures, [](int of) { return of == 860 || of == 890 || of >= 1200; });

/// Heads that tensor cores take.
template <class Shape>
concept TensorCoreShape = cuda::sm80::supports<Shape> &&
    (holds_large_tiles || !cuda::sm80::is_large<Shape>);

template <class Shape>
using TensorCoreBackend = std::conditional_t<cuda::sm80::is_large<Shape>, cuda::sm80::Backend<4, 1>,
                                             cuda::sm80::Backend<cuda_warps>>;

template <class Shape>
struct BackendOf<CudaStream, Shape> {
  static_assert(TensorCoreShape<Shape>,
                "fasttree: a CudaStream has kernels for tensor cores alone: of half or bfloat16, "
                "with head_dim and value_dim 64, 96, 128, 192 or 256 (up to 128 if it is compiled "
                "for GPUs of 100 KB of shared memory)");
  using type = TensorCoreBackend<Shape>;
};
#ifdef KOKKOS_ENABLE_CUDA
template <TensorCoreShape Shape>
struct BackendOf<Kokkos::Cuda, Shape> {
  using type = TensorCoreBackend<Shape>;
};
#endif
#endif

}  // namespace detail

/// The backend of `Space` for heads of `Shape`; without one, that which serves all heads.
template <class Space, class Shape = void>
using DefaultBackend = typename detail::BackendOf<Space, Shape>::type;

}  // namespace fasttree
