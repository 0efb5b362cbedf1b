// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scratch memory of one team of the portable backend: where each part lies in it.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/portable/panel.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree::portable {

/// Scratch for items of up to `query_rows` rows and tiles of `key_rows` keys, from `base` on. See
/// Panel, NarrowPanel and KeyRows for what the parts hold.
template <class Shape, int N, int TeamSize>
class Scratch {
 public:
  KOKKOS_INLINE_FUNCTION constexpr Scratch(float* base, int query_rows, int key_rows)
      : base_(base), rows_(round_up(query_rows, Panel<N>::width)), key_rows_(key_rows) {}

  /// Pointers to the keys and, behind them, the values of a tile; two tiles are in use at a time.
  template <class Stored>
  KOKKOS_INLINE_FUNCTION Stored const** rows(int buffer) const {
    return reinterpret_cast<Stored const**>(base_) + buffer * 2 * key_rows_;
  }
  KOKKOS_INLINE_FUNCTION float* queries() const { return base_ + pointers(); }
  KOKKOS_INLINE_FUNCTION float* outputs() const { return queries() + rows_ * Shape::head_dim; }
  KOKKOS_INLINE_FUNCTION float* maxima() const { return outputs() + rows_ * Shape::value_dim; }
  KOKKOS_INLINE_FUNCTION float* sums() const { return maxima() + rows_; }
  KOKKOS_INLINE_FUNCTION float* scores(int team_rank) const {
    return sums() + rows_ + team_rank * key_rows_ * Panel<N>::width;
  }
  KOKKOS_INLINE_FUNCTION float* keys() const { return scores(TeamSize); }
  KOKKOS_INLINE_FUNCTION float* values() const { return keys() + key_rows_ * Shape::head_dim; }

  /// Per row: the keys of a tile that it sees, the keys of its path that it sees, its query.
  KOKKOS_INLINE_FUNCTION std::int32_t* limits() const { return integers(0); }
  KOKKOS_INLINE_FUNCTION std::int32_t* visible() const { return integers(1); }
  KOKKOS_INLINE_FUNCTION std::int32_t* row_queries() const { return integers(2); }

  /// Floats of all parts.
  constexpr std::size_t floats() const {
    return pointers() + rows_ * (Shape::head_dim + Shape::value_dim + 5) +
           key_rows_ * (TeamSize * Panel<N>::width + Shape::head_dim + Shape::value_dim);
  }

 private:
  KOKKOS_INLINE_FUNCTION constexpr std::size_t pointers() const {
    return 4 * key_rows_ * (sizeof(void*) / sizeof(float));
  }
  KOKKOS_INLINE_FUNCTION std::int32_t* integers(int part) const {
    return reinterpret_cast<std::int32_t*>(values() + key_rows_ * Shape::value_dim) + part * rows_;
  }

  float* base_;
  std::size_t rows_;  ///< in whole panels
  std::size_t key_rows_;
};

}  // namespace fasttree::portable
