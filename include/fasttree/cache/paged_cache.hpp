// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cache of serving engines that allocate pages: keys (pages, page_size, kv_heads, head_dim),
// values (pages, page_size, kv_heads, value_dim), with any strides (so tokens and heads in any
// order), and a table: logical slots [i * page_size, (i + 1) * page_size) lie in page
// page_table(i). Every node begins on a page of its own: make the PrefixTree with
// SlotLayout::alignment = page size. How many tokens of a page count is what the tree says; no
// length is derived from pages, and entries of pages without any (SlotLayout::room) are not read.

#include <fasttree/cache/kv_cache.hpp>

namespace fasttree {

/// A paged KV cache; refers to arrays that the caller keeps.
template <Element ElementType, class Index>
class PagedCache {
 public:
  using element_type = ElementType;

  /// A page and the token in it.
  struct Location {
    std::int64_t page, token;
  };

  PagedCache(StridedArray<ElementType const, 4> keys, StridedArray<ElementType const, 4> values,
             StridedArray<Index const, 1> page_table)
      : keys_(keys), values_(values), page_table_(page_table) {
    detail::validate_cache("PagedCache", keys_, values_);
    require(keys_.extents[1] > 0, "PagedCache", "keys.extent(1)", "a positive page size",
            keys_.extents[1]);
  }

  FASTTREE_FORCEINLINE_FUNCTION Location locate(std::int64_t slot) const {
    std::int64_t const entry = slot / page_size();
    return {page_table_(entry), slot - entry * page_size()};
  }
  FASTTREE_FORCEINLINE_FUNCTION ElementType const* key(Location at, int head) const {
    return &keys_(at.page, at.token, head, 0);
  }
  FASTTREE_FORCEINLINE_FUNCTION ElementType const* value(Location at, int head) const {
    return &values_(at.page, at.token, head, 0);
  }

  FASTTREE_FORCEINLINE_FUNCTION std::int64_t page_size() const { return keys_.extents[1]; }
  std::int64_t slots() const { return page_table_.extents[0] * page_size(); }
  int kv_heads() const { return static_cast<int>(keys_.extents[2]); }
  int head_dim() const { return static_cast<int>(keys_.extents[3]); }
  int value_dim() const { return static_cast<int>(values_.extents[3]); }

 private:
  StridedArray<ElementType const, 4> keys_, values_;
  StridedArray<Index const, 1> page_table_;
};

/// A paged cache: `page_table` (table entries) of any integer type, whose pages must exist (they
/// are read on the device and not checked here).
/// Errors: `Error` where the last stride is not 1 or the arrays disagree. Copies nothing.
template <class Space, class Keys, class Values, class PageTable>
auto make_paged_cache(Space const&, Keys const& keys, Values const& values,
                      PageTable const& page_table) {
  using Stored = std::remove_const_t<ElementOf<Keys>>;
  using Index = std::remove_const_t<ElementOf<PageTable>>;
  return PagedCache<Stored, Index>(as_const(strided<Space, 4>(keys)),
                                   as_const(strided<Space, 4>(values)),
                                   as_const(strided<Space, 1>(page_table)));
}

}  // namespace fasttree
