// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the keys and values of a tile lie in the cache. While one tile is computed with, the rows
// of the next are asked for, a few at a time: a cache in token order has each key of a head on
// another page, which no hardware prefetcher follows.

#include <cstddef>

#include <fasttree/core/lanes.hpp>

namespace fasttree::portable {

/// Pointers to `count` keys and to as many values.
template <class Stored>
struct KeyRows {
  Stored const* const* keys;
  Stored const* const* values;
  int count;
};

/// Asks for the share [begin, end) of `whole` of `count` rows of Dim elements.
template <int Dim, class Stored>
KOKKOS_FORCEINLINE_FUNCTION void prefetch_part(Stored const* const* rows, int count, int begin,
                                               int end, int whole) {
  int const last = end < whole ? count * end / whole : count;
  for (int i = count * begin / whole; i < last; ++i)
    for (std::size_t byte = 0; byte < Dim * sizeof(Stored); byte += 64)
      prefetch(reinterpret_cast<char const*>(rows[i]) + byte);
}

}  // namespace fasttree::portable
