// SPDX-License-Identifier: Apache-2.0
// Which shards ranks have: all of them once, blocks of the tree of shards, none much more than
// others.

#include <fasttree/tree/fixed_shards.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using namespace fasttree;

/// What is merged with what, in postfix: the numbers of shards, and `merge`.
using Formula = std::vector<int>;
constexpr int merge = -1;

/// How the shards [begin, end) merge, by the tree of all of them.
void append_merged(int begin, int end, Formula& formula) {
  if (end - begin == 1) return formula.push_back(begin);
  int const middle = begin + first_half(end - begin);
  append_merged(begin, middle, formula);
  append_merged(middle, end, formula);
  formula.push_back(merge);
}

/// How those of the ranks [first, last) do: within ranks, and then by the tree over ranks.
void append_merged_by_ranks(int count, int first, int last, int ranks, Formula& formula) {
  if (last - first == 1) {
    ShardRange const own = shards_of_rank(count, {first, ranks});
    return append_merged(own.begin, own.end, formula);
  }
  int const middle = first + first_half(last - first);
  append_merged_by_ranks(count, first, middle, ranks, formula);
  append_merged_by_ranks(count, middle, last, ranks, formula);
  formula.push_back(merge);
}

static_assert(shards_of_rank(8, {2, 4}) == ShardRange{4, 6, 8});
static_assert(shards_of_rank(5, {0, 1}) == ShardRange{0, 5, 5});
static_assert(first_half(1) == 1 && first_half(7) == 4);

}  // namespace

TEST_CASE("whatever the number of ranks, shards merge by one tree, and ranks have their share") {
  for (int count = 1; count <= 70; ++count)
    for (int ranks = 1; ranks <= count; ++ranks) {
      CAPTURE(count);
      CAPTURE(ranks);
      Formula expected, found;
      append_merged(0, count, expected);
      append_merged_by_ranks(count, 0, ranks, ranks, found);
      CHECK(found == expected);
      for (int rank = 0; rank < ranks; ++rank) {
        ShardRange const range = shards_of_rank(count, {rank, ranks});
        CHECK(range.count == count);
        CHECK(range.size() >= 1);
        CHECK((range.size() - 1) * ranks < 2 * count);
      }
    }
}

TEST_CASE("trees are the shards of their number, of any number of ranks") {
  int const parents[] = {-1, 0, 0}, lengths[] = {50, 7, 0};
  Request const requests[] = {{1}, {2}};
  PrefixTree const tree(parents, lengths, requests);
  InterleavedShards const policy{4};
  for (int const ranks : {1, 3, 6}) {
    int next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const shards = fixed_shards(tree, policy, 6, {rank, ranks});
      CHECK(shards.range.begin == next);
      for (PrefixTree const& found : shards.trees) {
        PrefixTree const expected = shard_tree(tree, policy, {next++, 6});
        for (int node = 0; node < 3; ++node) {
          CHECK(found.length(node) == expected.length(node));
          CHECK(found.slot_begin(node) == expected.slot_begin(node));
        }
      }
    }
    CHECK(next == 6);
  }
}

TEST_CASE("what is refused") {
  CHECK_THROWS_WITH_AS(shards_of_rank(3, {0, 4}),
                       "fasttree::shards_of_rank: count: expected as many as there are ranks, 4, "
                       "found 3",
                       Error);
  CHECK_THROWS_WITH_AS(shards_of_rank(3, {2, 2}),
                       "fasttree::shards_of_rank: of.rank: expected 0 or more, below 2, found 2",
                       Error);
  CHECK_THROWS_WITH_AS(shards_of_rank(3, {0, 0}),
                       "fasttree::shards_of_rank: of.ranks: expected a positive number, found 0",
                       Error);
}
