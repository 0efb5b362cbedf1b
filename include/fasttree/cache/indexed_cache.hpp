// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cache of serving engines that allocate token by token (page size 1): a list says in which row
// each logical slot lies. Keys (rows, kv_heads, head_dim), values (rows, kv_heads, value_dim), any
// strides.

#include <fasttree/cache/kv_cache.hpp>

namespace fasttree {

/// A KV cache behind a list of rows; refers to arrays that the caller keeps.
template <Element ElementType, class Index>
class IndexedCache : public detail::KeyValueRows<ElementType> {
 public:
  IndexedCache(StridedArray<ElementType const, 3> keys, StridedArray<ElementType const, 3> values,
               StridedArray<Index const, 1> row_of_slot)
      : detail::KeyValueRows<ElementType>("IndexedCache", keys, values),
        row_of_slot_(row_of_slot) {}

  FASTTREE_FORCEINLINE_FUNCTION std::int64_t locate(std::int64_t slot) const {
    return row_of_slot_(slot);
  }
  std::int64_t slots() const { return row_of_slot_.extents[0]; }

 private:
  StridedArray<Index const, 1> row_of_slot_;
};

/// An indexed cache: `row_of_slot` (slots) of any integer type; logical slot s lies in row
/// row_of_slot(s), which must exist (it is read on the device and not checked here).
/// Errors: `Error` where the last stride is not 1 or the arrays disagree. Copies nothing.
template <class Space, class Keys, class Values, class RowOfSlot>
auto make_indexed_cache(Space const&, Keys const& keys, Values const& values,
                        RowOfSlot const& row_of_slot) {
  using Stored = std::remove_const_t<ElementOf<Keys>>;
  using Index = std::remove_const_t<ElementOf<RowOfSlot>>;
  return IndexedCache<Stored, Index>(as_const(strided<Space, 3>(keys)),
                                     as_const(strided<Space, 3>(values)),
                                     as_const(strided<Space, 1>(row_of_slot)));
}

}  // namespace fasttree
