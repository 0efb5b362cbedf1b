// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cache whose rows lie in slot order: keys (slots, kv_heads, head_dim), values (slots,
// kv_heads, value_dim), with any strides of slots and heads. Logical slot s is row s.

#include <fasttree/cache/kv_cache.hpp>

namespace fasttree {

/// A contiguous KV cache; refers to arrays that the caller keeps.
template <Element ElementType>
class ContiguousCache : public detail::KeyValueRows<ElementType> {
 public:
  ContiguousCache(StridedArray<ElementType const, 3> keys,
                  StridedArray<ElementType const, 3> values)
      : detail::KeyValueRows<ElementType>("ContiguousCache", keys, values) {}

  FASTTREE_FORCEINLINE_FUNCTION std::int64_t locate(std::int64_t slot) const { return slot; }
  std::int64_t slots() const { return this->rows(); }
};

/// A contiguous cache over two arrays (Kokkos::View or mdspan-like) that code of `Space` can reach.
/// Errors: `Error` where the last stride is not 1 or the arrays disagree. Copies nothing.
template <class Space, class Keys, class Values>
auto make_contiguous_cache(Space const&, Keys const& keys, Values const& values) {
  using Stored = std::remove_const_t<ElementOf<Keys>>;
  return ContiguousCache<Stored>(as_const(strided<Space, 3>(keys)),
                                 as_const(strided<Space, 3>(values)));
}

}  // namespace fasttree
