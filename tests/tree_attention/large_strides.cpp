// SPDX-License-Identifier: Apache-2.0
// Attention where offsets go beyond 32 bits: page index x stride, slot x stride, rows of queries
// and of outputs, in address space of which only the pages that are touched take memory.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cstddef>

#include "support/problem.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<fasttree::half, 16>;
constexpr std::int64_t giant =
    (std::int64_t{1} << 32) + 16;  // elements from one row or page to the next

/// Zeros for as many elements as fit 56 GiB of address space; null where there is no such space.
class SparseMemory {
 public:
  SparseMemory()
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseMemory() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes);
  }
  SparseMemory(SparseMemory const&) = delete;
  SparseMemory& operator=(SparseMemory const&) = delete;

  fasttree::half* data() const {
    return memory_ == MAP_FAILED ? nullptr : static_cast<fasttree::half*>(memory_);
  }

 private:
  static constexpr std::size_t bytes = std::size_t{56} << 30;
  void* memory_;
};

/// An array in memory that a SparseMemory keeps.
template <int Rank>
Array<fasttree::half, Rank> array_at(fasttree::half* memory, std::array<std::int64_t, Rank> extents,
                                     std::array<std::int64_t, Rank> strides) {
  std::size_t const elements = std::size_t{55} << 29;
  return {Kokkos::View<fasttree::half*, Space>(memory, elements), extents, strides};
}

}  // namespace

TEST_CASE("page index x stride, slot x stride and row x stride go beyond 32 bits") {
  if constexpr (runs_on_host<Space>) {
    // Pages of 4 tokens and rows of queries and outputs, one after the other in steps of 8 GiB.
    SparseMemory const memory;
    if (memory.data() == nullptr) {
      MESSAGE("skipped: no 56 GiB of address space");
      return;
    }
    Problem<Shape> const problem(Forest{{-1, 0}, {7, 3}, {{1}, {1, 2}, {0}}},
                                 {.query_heads = 2, .kv_heads = 1}, 1, 4);
    fasttree::half* const at = memory.data();
    int table[] = {5, 0, 4};
    auto const keys = array_at<4>(at, {6, 4, 1, 16}, {giant, 64, 16, 1});
    auto const values = array_at<4>(at + 1024, {6, 4, 1, 16}, {giant, 64, 16, 1});
    auto const queries = array_at<3>(at + 2048, {4, 2, 16}, {giant, 64, 1});
    auto const outputs = array_at<3>(at + 4096, {4, 2, 16}, {giant, 16, 1});
    for (std::int64_t slot = 0; slot < problem.tree.slots(); ++slot)
      for (int d = 0; d < 16; ++d) {
        std::int64_t const to = table[slot / 4] * giant + slot % 4 * 64 + d;
        at[to] = problem.keys[slot * 16 + d];
        at[1024 + to] = problem.values[slot * 16 + d];
      }
    for (int row = 0; row < 4; ++row)
      for (int head = 0; head < 2; ++head)
        for (int d = 0; d < 16; ++d)
          at[2048 + row * giant + head * 64 + d] = problem.queries[(row * 2 + head) * 16 + d];

    Space const space{};
    auto const cache = make_paged_cache(space, keys, values, Kokkos::View<int*, Space>(table, 3));
    auto const plan = make_plan(space, problem.tree, problem.shape);
    auto const workspace = make_workspace(space, plan);
    auto const sums = make_array<NaturalLogSumExp>(std::array<std::int64_t, 2>{4, 2});
    tree_attention(space, plan, queries, cache, outputs, sums, workspace);
    space.fence();

    Result<fasttree::half> result;
    for (int row = 0; row < 4; ++row)
      for (int head = 0; head < 2; ++head)
        for (int d = 0; d < 16; ++d)
          result.outputs.push_back(at[4096 + row * giant + head * 16 + d]);
    for (auto const sum : sums.read()) result.log_sum_exps.push_back(sum.value);
    CHECK(worst_error(problem, result) <= 1);
  }
}
