// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays in the memory of the space under test with any strides, filled with nan first: what a test
// does not write, no result may depend on. They look like std::mdspan, not like Kokkos::View.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <fasttree/core/element.hpp>
#include <fasttree/core/kokkos.hpp>
#include "space.hpp"

namespace fasttree::test {

/// A nan of a floating-point type or of a log-sum-exp; an integer that no index can be.
template <class T>
T poison() {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::max();
  } else {
    return T{nan};
  }
}

template <class T, int Rank>
struct Array {
  using element_type = T;
  using memory_space = typename Space::memory_space;
  using Extents = std::array<std::int64_t, Rank>;

  Kokkos::View<T*, Space> memory;
  Extents extents{}, strides{};

  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return memory.data(); }
  std::int64_t extent(int i) const { return extents[i]; }
  std::int64_t stride(int i) const { return strides[i]; }

  /// Calls body(indices, offset) for every element, the last dimension fastest.
  template <class Body>
  void each(Body const& body) const {
    Extents at{};
    for (std::int64_t extent : extents)
      if (extent == 0) return;
    for (;;) {
      std::int64_t offset = 0;
      for (int i = 0; i < Rank; ++i) offset += at[i] * strides[i];
      body(at, offset);
      int i = Rank - 1;
      while (i >= 0 && ++at[i] == extents[i]) at[i--] = 0;
      if (i < 0) return;
    }
  }

  /// Gives every element the value that value_of(indices) returns.
  template <class ValueOf>
  void write(ValueOf const& value_of) const {
    auto const mirror = Kokkos::create_mirror_view(memory);
    Kokkos::deep_copy(mirror, memory);
    each([&](Extents const& at, std::int64_t offset) { mirror(offset) = value_of(at); });
    Kokkos::deep_copy(memory, mirror);
  }

  /// All elements, the last dimension fastest.
  std::vector<T> read() const {
    auto const mirror = Kokkos::create_mirror_view(memory);
    Kokkos::deep_copy(mirror, memory);
    std::vector<T> all;
    each([&](Extents const&, std::int64_t offset) { all.push_back(mirror(offset)); });
    return all;
  }
};

/// How the dimensions of an array lie in memory.
template <int Rank>
struct Layout {
  std::array<int, Rank> order{};  ///< dimensions, the slowest first; all 0: as they come
  int padding = 0;                ///< unused elements after each run of a dimension but the fastest
};

/// A new array, all nan.
template <class T, std::size_t Rank>
Array<T, static_cast<int>(Rank)> make_array(std::array<std::int64_t, Rank> extents,
                                            Layout<static_cast<int>(Rank)> layout = {}) {
  Array<T, static_cast<int>(Rank)> array;
  array.extents = extents;
  bool const given = Rank > 1 && layout.order != decltype(layout.order){};
  std::int64_t stride = 1;
  for (std::size_t i = Rank; i-- > 0;) {
    std::size_t const dimension = given ? layout.order[i] : i;
    array.strides[dimension] = stride;
    stride = stride * extents[dimension] + layout.padding;
  }
  array.memory = Kokkos::View<T*, Space>("fasttree::test::array", stride);
  auto const mirror = Kokkos::create_mirror_view(array.memory);
  for (std::size_t i = 0; i < mirror.extent(0); ++i) mirror(i) = poison<T>();
  Kokkos::deep_copy(array.memory, mirror);
  return array;
}

}  // namespace fasttree::test
