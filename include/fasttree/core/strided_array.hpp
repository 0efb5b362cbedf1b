// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays as kernels see them: a pointer and strides of 64 bits, taken from a Kokkos::View of any
// layout, from anything mdspan-like, or from a pointer. Refers to memory that the caller keeps.

#include <cstdint>
#include <string>
#include <type_traits>

#include <fasttree/core/error.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// A Rank-dimensional array in memory that the caller keeps.
template <class T, int Rank>
struct StridedArray {
  T* data = nullptr;
  std::int64_t extents[Rank] = {};
  std::int64_t strides[Rank] = {};

  template <class... Indices>
  requires(sizeof...(Indices) == Rank) FASTTREE_FORCEINLINE_FUNCTION T& operator()(
      Indices... indices) const {
    std::int64_t const all[] = {static_cast<std::int64_t>(indices)...};
    std::int64_t offset = 0;
    for (int i = 0; i < Rank; ++i) offset += all[i] * strides[i];
    return data[offset];
  }
};

/// The array of these extents at `data`, elements in row-major order without gaps:
/// row_major(queries, {requests, query_heads, head_dim}). For other strides name them:
/// StridedArray<T, 3>{data, {extents...}, {strides...}}, in elements.
template <class T, int Rank>
StridedArray<T, Rank> row_major(T* data, std::int64_t const (&extents)[Rank]) {
  StridedArray<T, Rank> array{data};
  std::int64_t stride = 1;
  for (int i = Rank - 1; i >= 0; --i) {
    array.extents[i] = extents[i];
    array.strides[i] = stride;
    stride *= extents[i];
  }
  return array;
}

namespace detail {

template <class Array>
struct ArrayElement {  // a Kokkos::View before 5.0
  using type = typename Array::value_type;
};
template <class Array>
requires requires { typename Array::element_type; }
struct ArrayElement<Array> {
  using type = typename Array::element_type;
};
template <class T, int Rank>
struct ArrayElement<StridedArray<T, Rank>> {
  using type = T;
};

template <class Array>
constexpr int rank_of() {
  if constexpr (requires { Array::rank(); }) {
    return static_cast<int>(Array::rank());
  } else {
    return static_cast<int>(Array::rank);  // a Kokkos::View before 4.1
  }
}

}  // namespace detail

/// The element type of an array, const where its elements are.
template <class Array>
using ElementOf = typename detail::ArrayElement<Array>::type;

/// The array's memory as a StridedArray. An array whose memory `Space` cannot reach does not
/// compile.
template <class Space, int Rank, class Array>
StridedArray<ElementOf<Array>, Rank> strided(Array const& array) {
  if constexpr (requires { typename Array::memory_space; })
    static_assert(reaches<Space, typename Array::memory_space>,
                  "fasttree: this array lies in memory that the execution space cannot reach");
  static_assert(detail::rank_of<Array>() == Rank,
                "fasttree: this array has another number of dimensions than it should");
  StridedArray<ElementOf<Array>, Rank> result;
  if constexpr (requires { array.data(); }) {
    result.data = array.data();  // of a View: in Kokkos 5 its data_handle() is no pointer
  } else {
    result.data = array.data_handle();
  }
  for (int i = 0; i < Rank; ++i) {
    result.extents[i] = static_cast<std::int64_t>(array.extent(i));
    result.strides[i] = static_cast<std::int64_t>(array.stride(i));
  }
  return result;
}

template <class Space, int Rank, class T, int ArrayRank>
StridedArray<T, Rank> strided(StridedArray<T, ArrayRank> const& array) {
  static_assert(ArrayRank == Rank,
                "fasttree: this array has another number of dimensions than it should");
  return array;
}

/// The same array, read only.
template <class T, int Rank>
StridedArray<T const, Rank> as_const(StridedArray<T, Rank> const& array) {
  StridedArray<T const, Rank> result;
  result.data = array.data;
  for (int i = 0; i < Rank; ++i) {
    result.extents[i] = array.extents[i];
    result.strides[i] = array.strides[i];
  }
  return result;
}

/// Throws an `Error` unless extent `dimension` of the array is `expected`.
template <class T, int Rank>
void require_extent(StridedArray<T, Rank> const& array, int dimension, std::int64_t expected,
                    char const* function, char const* argument) {
  if (array.extents[dimension] != expected)
    fail(function, std::string(argument) + ".extent(" + std::to_string(dimension) + ")", expected,
         array.extents[dimension]);
}

}  // namespace fasttree
