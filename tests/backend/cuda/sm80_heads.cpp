// SPDX-License-Identifier: Apache-2.0
// The sm80 backend for heads of all lengths, keys and values of different ones too: in the blocks
// that they take on Hopper, and in those of other GPUs.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/agreement.hpp"
#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using fasttree::cuda::sm80::Backend;

template <class Shape, class Expected>
inline constexpr bool takes = std::is_same_v<DefaultBackend<Space, Shape>, Expected>;

using OfLarge =
    std::conditional_t<detail::holds_large_tiles, Backend<4, 1>, portable::Backend<Space>>;
static_assert(takes<AttentionShape<bfloat16, 96, 128>, Backend<detail::cuda_warps>>);
static_assert(takes<AttentionShape<fasttree::half, 192, 128>, OfLarge>);
static_assert(takes<AttentionShape<fasttree::half, 64, 256>, OfLarge>);
static_assert(takes<AttentionShape<fasttree::half, 80>, portable::Backend<Space>>);
static_assert(takes<AttentionShape<fasttree::half, 128, 120>, portable::Backend<Space>>);
static_assert(takes<AttentionShape<float, 128>, portable::Backend<Space>>);

auto const contiguous = [](auto const& problem, int, std::uint64_t seed) {
  return contiguous_cache(problem, seed % 2 == 1, static_cast<int>(seed) % 4 * 4);
};
auto const paged = [](auto const& problem, int page_size, std::uint64_t seed) {
  return paged_cache(problem, page_size, seed);
};
auto const indexed = [](auto const& problem, int, std::uint64_t seed) {
  return indexed_cache(problem, seed);
};

template <class Shape>
void agrees(auto const& cache_of, ForestSize const& size = {20, 90, 24, 3}) {
  agree_with_the_oracle<Shape, DefaultBackend<Space, Shape>>({1, 4, 33}, 3, size, cache_of);
}

}  // namespace

TEST_CASE("96 / 96") { agrees<AttentionShape<fasttree::half, 96>>(contiguous); }
TEST_CASE("64 / 96") { agrees<AttentionShape<bfloat16, 64, 96>>(contiguous, {6, 500, 40, 9}); }
TEST_CASE("96 / 64") { agrees<AttentionShape<fasttree::half, 96, 64>>(contiguous); }
TEST_CASE("192 / 192") { agrees<AttentionShape<bfloat16, 192>>(contiguous); }
TEST_CASE("256 / 256") { agrees<AttentionShape<fasttree::half, 256>>(indexed); }
TEST_CASE("192 / 128") { agrees<AttentionShape<bfloat16, 192, 128>>(paged, {6, 500, 40, 9}); }
TEST_CASE("64 / 256") { agrees<AttentionShape<fasttree::half, 64, 256>>(contiguous); }
TEST_CASE("96 / 192") { agrees<AttentionShape<bfloat16, 96, 192>>(contiguous); }

TEST_CASE("two blocks of four warps, as on GPUs without wgmma") {
  agree_with_the_oracle<AttentionShape<fasttree::half, 128>, Backend<4>>({1, 4, 16, 70}, 4,
                                                                         {30, 90, 70, 5}, paged);
  agree_with_the_oracle<AttentionShape<bfloat16, 96, 64>, Backend<4>>({1, 8}, 3, {20, 90, 24, 3},
                                                                      contiguous);
}

TEST_CASE("nan in shared memory beside rows that do not fill a panel does not matter") {
  using Whole = AttentionShape<fasttree::half, 128>;
  Problem<Whole> before(level_forest({300}, {400}), {.query_heads = 2, .kv_heads = 1});
  fasttree::half const nan(std::numeric_limits<float>::quiet_NaN());
  for (auto& key : before.keys) key = nan;
  for (auto& value : before.values) value = nan;
  attend(before, contiguous_cache(before), NoSharing{});  // in each place of each ring
  Problem<AttentionShape<fasttree::half, 96>> const problem(level_forest({1, 300}, {500, 70}),
                                                            {.query_heads = 2, .kv_heads = 1});
  auto const cache = contiguous_cache(problem);
  Answer const answer = problem.answer();
  CHECK(worst_error(attend(problem, cache, ShareEveryNode{}), answer, 96) <= 1);
  CHECK(worst_error(attend(problem, cache, SubtreePolicy{}), answer, 96) <= 1);
}
