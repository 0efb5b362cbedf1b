// SPDX-License-Identifier: Apache-2.0
// The three caches: where a slot lies, given strides honoured, 64-bit offsets, and what is refused.

#include <fasttree/cache/contiguous_cache.hpp>
#include <fasttree/cache/indexed_cache.hpp>
#include <fasttree/cache/paged_cache.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "support/space.hpp"

namespace {

using namespace fasttree;
using fasttree::test::Space;

/// Something mdspan-like whose elements nobody touches: strides may be of any size.
template <class T, int Rank>
struct Strides {
  using element_type = T;
  T* memory;
  std::array<std::int64_t, Rank> extents, strides;
  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return memory; }
  std::int64_t extent(int i) const { return extents[i]; }
  std::int64_t stride(int i) const { return strides[i]; }
};

fasttree::half some_keys[1], some_values[1];

/// Elements between the first and the one that `at` points to.
std::int64_t offset(fasttree::half const* at, fasttree::half const* first) {
  return (reinterpret_cast<std::intptr_t>(at) - reinterpret_cast<std::intptr_t>(first)) / 2;
}

}  // namespace

TEST_CASE("contiguous: keys and values by their own strides, tokens or heads first") {
  auto const cache = make_contiguous_cache(
      Space{}, Strides<fasttree::half const, 3>{some_keys, {100, 4, 64}, {1000, 70, 1}},
      Strides<fasttree::half, 3>{some_values, {100, 4, 32}, {33, 5000, 1}});
  static_assert(KVCache<decltype(cache)>);
  CHECK(cache.slots() == 100);
  CHECK(cache.kv_heads() == 4);
  CHECK(cache.head_dim() == 64);
  CHECK(cache.value_dim() == 32);
  CHECK(offset(cache.key(cache.locate(7), 3), some_keys) == 7 * 1000 + 3 * 70);
  CHECK(offset(cache.value(cache.locate(7), 3), some_values) == 7 * 33 + 3 * 5000);
}

TEST_CASE("indexed: the row that the list names, by an index of any integer type") {
  auto const check = [](auto index) {
    using Index = decltype(index);
    Index rows[] = {9, 200, 4};
    auto const cache =
        make_indexed_cache(Space{}, Strides<fasttree::half, 3>{some_keys, {255, 2, 8}, {16, 8, 1}},
                           Strides<fasttree::half, 3>{some_values, {255, 2, 24}, {50, 25, 1}},
                           Strides<Index const, 1>{rows, {3}, {1}});
    CHECK(cache.slots() == 3);
    CHECK(offset(cache.key(cache.locate(1), 1), some_keys) == 200 * 16 + 8);
    CHECK(offset(cache.value(cache.locate(2), 0), some_values) == 4 * 50);
  };
  check(std::uint8_t{});
  check(int{});
  check(std::uint32_t{});
  check(std::int64_t{});
  check(std::size_t{});
}

TEST_CASE("indexed: a strided list of rows") {
  int rows[] = {5, -1, 6, -1, 7, -1};
  auto const cache =
      make_indexed_cache(Space{}, Strides<fasttree::half, 3>{some_keys, {9, 1, 8}, {8, 8, 1}},
                         Strides<fasttree::half, 3>{some_values, {9, 1, 8}, {8, 8, 1}},
                         Strides<int, 1>{rows, {3}, {2}});
  CHECK(cache.locate(2) == 7);
}

TEST_CASE("paged: any page size, heads before tokens, block strides as given") {
  int table[] = {3, 0, 2};
  // Pages 5000 elements apart: more than page_size x token stride.
  auto const cache = make_paged_cache(
      Space{}, Strides<fasttree::half, 4>{some_keys, {4, 7, 2, 64}, {5000, 64, 450, 1}},
      Strides<fasttree::half, 4>{some_values, {4, 7, 2, 64}, {1111, 128, 64, 1}},
      Strides<int, 1>{table, {3}, {1}});
  static_assert(KVCache<decltype(cache)>);
  CHECK(cache.page_size() == 7);
  CHECK(cache.slots() == 21);
  CHECK(offset(cache.key(cache.locate(6), 1), some_keys) == 3 * 5000 + 6 * 64 + 450);
  CHECK(offset(cache.key(cache.locate(7), 0), some_keys) == 0);
  CHECK(offset(cache.value(cache.locate(20), 1), some_values) == 2 * 1111 + 6 * 128 + 64);
}

TEST_CASE("offsets have 64 bits: page index x stride beyond 2^32") {
  constexpr std::int64_t page_stride = 2'000'000;
  int table[] = {123'456};
  auto const paged = make_paged_cache(
      Space{},
      Strides<fasttree::half, 4>{some_keys, {200'000, 16, 8, 128}, {page_stride, 1024, 128, 1}},
      Strides<fasttree::half, 4>{some_values, {200'000, 16, 8, 128}, {page_stride, 1024, 128, 1}},
      Strides<int, 1>{table, {1}, {1}});
  CHECK(offset(paged.key(paged.locate(5), 7), some_keys) ==
        123'456 * page_stride + 5 * 1024 + 7 * 128);
  int rows[] = {2'000'000'000};
  auto const indexed = make_indexed_cache(
      Space{}, Strides<fasttree::half, 3>{some_keys, {2'000'000'001, 8, 128}, {1024, 128, 1}},
      Strides<fasttree::half, 3>{some_values, {2'000'000'001, 8, 128}, {1024, 128, 1}},
      Strides<int, 1>{rows, {1}, {1}});
  CHECK(offset(indexed.value(indexed.locate(0), 1), some_values) == 2'000'000'000LL * 1024 + 128);
  auto const contiguous = make_contiguous_cache(
      Space{},
      Strides<fasttree::half, 3>{some_keys, {5'000'000'000, 8, 128}, {128, 640'000'000'000, 1}},
      Strides<fasttree::half, 3>{some_values, {5'000'000'000, 8, 128}, {1024, 128, 1}});
  CHECK(offset(contiguous.key(contiguous.locate(4'999'999'999), 2), some_keys) ==
        4'999'999'999LL * 128 + 2 * 640'000'000'000LL);
  CHECK(contiguous.slots() == 5'000'000'000);
}

TEST_CASE("a cache of no slots is a cache") {
  auto const cache =
      make_contiguous_cache(Space{}, Strides<fasttree::half, 3>{nullptr, {0, 2, 8}, {16, 8, 1}},
                            Strides<fasttree::half, 3>{nullptr, {0, 2, 8}, {16, 8, 1}});
  CHECK(cache.slots() == 0);
}

TEST_CASE("refused: a last dimension that is not contiguous") {
  Strides<fasttree::half, 3> const right{some_keys, {9, 2, 8}, {16, 8, 1}},
      wrong{some_keys, {9, 2, 8}, {1, 9, 18}};
  CHECK_THROWS_WITH_AS(make_contiguous_cache(Space{}, wrong, right),
                       "fasttree::ContiguousCache: keys.stride(2): expected 1, found 18", Error);
  int rows[] = {0};
  CHECK_THROWS_WITH_AS(make_indexed_cache(Space{}, right, wrong, Strides<int, 1>{rows, {1}, {1}}),
                       "fasttree::IndexedCache: values.stride(2): expected 1, found 18", Error);
  Strides<fasttree::half, 4> const right4{some_keys, {9, 4, 2, 8}, {64, 16, 8, 1}};
  Strides<fasttree::half, 4> const wrong4{some_keys, {9, 4, 2, 8}, {64, 1, 4, 8}};
  CHECK_THROWS_WITH_AS(make_paged_cache(Space{}, wrong4, right4, Strides<int, 1>{rows, {1}, {1}}),
                       "fasttree::PagedCache: keys.stride(3): expected 1, found 8", Error);
}

TEST_CASE("refused: keys and values that disagree, and pages of no tokens") {
  Strides<fasttree::half, 3> const keys{some_keys, {9, 2, 8}, {16, 8, 1}};
  CHECK_THROWS_WITH_AS(
      make_contiguous_cache(Space{}, keys,
                            Strides<fasttree::half, 3>{some_values, {8, 2, 8}, {16, 8, 1}}),
      "fasttree::ContiguousCache: values.extent(0): expected 9, found 8", Error);
  CHECK_THROWS_WITH_AS(
      make_contiguous_cache(Space{}, keys,
                            Strides<fasttree::half, 3>{some_values, {9, 1, 8}, {16, 8, 1}}),
      "fasttree::ContiguousCache: values.extent(1): expected 2, found 1", Error);
  int table[] = {0};
  Strides<int, 1> const one{table, {1}, {1}};
  Strides<fasttree::half, 4> const pages{some_keys, {9, 4, 2, 8}, {64, 16, 8, 1}};
  CHECK_THROWS_WITH_AS(
      make_paged_cache(Space{}, pages,
                       Strides<fasttree::half, 4>{some_values, {9, 8, 2, 8}, {64, 16, 8, 1}}, one),
      "fasttree::PagedCache: values.extent(1): expected 4, found 8", Error);
  Strides<fasttree::half, 4> const empty{some_keys, {9, 0, 2, 8}, {64, 16, 8, 1}};
  CHECK_THROWS_WITH_AS(
      make_paged_cache(Space{}, empty, empty, one),
      "fasttree::PagedCache: keys.extent(1): expected a positive page size, found 0", Error);
}
