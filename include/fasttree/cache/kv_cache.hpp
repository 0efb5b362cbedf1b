// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a kernel asks of a KV cache: where the key and the value of a logical slot lie. Slots are
// those of PrefixTree; the caches beside this file map them to memory. A new layout is one such
// type. Offsets have 64 bits, keys and values have strides of their own, and a slot that no node
// owns is never read: what lies there cannot influence a result.

#include <concepts>
#include <cstdint>

#include <fasttree/core/element.hpp>
#include <fasttree/core/strided_array.hpp>

namespace fasttree {

/// A cache maps a logical slot to a location, once for all heads, and a location and a KV head to
/// the head_dim (value_dim) contiguous elements of the key (value). Copied by value into kernels.
template <class Cache>
concept KVCache = Element<typename Cache::element_type> &&
    requires(Cache const& cache, std::int64_t slot, int head) {
  { cache.key(cache.locate(slot), head) } -> std::same_as<typename Cache::element_type const*>;
  { cache.value(cache.locate(slot), head) } -> std::same_as<typename Cache::element_type const*>;
  { cache.slots() } -> std::same_as<std::int64_t>;
  { cache.kv_heads() } -> std::same_as<int>;
  { cache.head_dim() } -> std::same_as<int>;
  { cache.value_dim() } -> std::same_as<int>;
};

namespace detail {

/// Checks that the last dimension of a cache array is contiguous and that keys and values agree in
/// the dimensions before it.
template <class T, int Rank>
void validate_cache(char const* function, StridedArray<T, Rank> const& keys,
                    StridedArray<T, Rank> const& values) {
  for (auto const* array : {&keys, &values})
    if (array->strides[Rank - 1] != 1 && array->extents[Rank - 1] > 1)
      fail(function,
           (array == &keys ? "keys.stride(" : "values.stride(") + std::to_string(Rank - 1) + ")", 1,
           array->strides[Rank - 1]);
  for (int i = 0; i < Rank - 1; ++i) require_extent(values, i, keys.extents[i], function, "values");
}

/// Rows of keys (rows, kv_heads, head_dim) and of values (rows, kv_heads, value_dim), located by
/// their number: what the contiguous and the indexed cache have in common.
template <Element ElementType>
class KeyValueRows {
 public:
  using element_type = ElementType;

  KeyValueRows(char const* function, StridedArray<ElementType const, 3> keys,
               StridedArray<ElementType const, 3> values)
      : keys_(keys), values_(values) {
    validate_cache(function, keys_, values_);
  }

  FASTTREE_FORCEINLINE_FUNCTION ElementType const* key(std::int64_t row, int head) const {
    return &keys_(row, head, 0);
  }
  FASTTREE_FORCEINLINE_FUNCTION ElementType const* value(std::int64_t row, int head) const {
    return &values_(row, head, 0);
  }

  std::int64_t rows() const { return keys_.extents[0]; }
  int kv_heads() const { return static_cast<int>(keys_.extents[1]); }
  int head_dim() const { return static_cast<int>(keys_.extents[2]); }
  int value_dim() const { return static_cast<int>(values_.extents[2]); }

 private:
  StridedArray<ElementType const, 3> keys_, values_;
};

}  // namespace detail

}  // namespace fasttree
