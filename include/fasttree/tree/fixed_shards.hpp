// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shards whose number does not depend on that of ranks, of which a rank has several that follow each
// other. Each is attended to apart, and its partial result has the same bits on whatever rank; they
// merge by the tree of the shards [0, count), halved down to single ones, the first half being the
// larger. Ranks are halved with them: so what a rank has is a block of that tree, of which it sends
// the merged result, and results do not depend on the number of ranks.

#include <string>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/tree/shard_tree.hpp>

namespace fasttree {

/// The shards [begin, end) of so many.
struct ShardRange {
  int begin = 0, end = 1, count = 1;

  constexpr int size() const { return end - begin; }
  friend constexpr bool operator==(ShardRange const&, ShardRange const&) = default;
};

/// Those of one rank. Of numbers of ranks and shards that are powers of two all have equally many;
/// of others one has less than twice its share, and one shard more.
///
/// Errors: `Error` where the rank is none of the ranks, or there are fewer shards than ranks.
constexpr ShardRange shards_of_rank(int count, ShardOf of) {
  constexpr char const* function = "shards_of_rank";
  require(of.ranks > 0, function, "of.ranks", "a positive number", of.ranks);
  if (of.rank < 0 || of.rank >= of.ranks)
    fail(function, "of.rank", "0 or more, below " + std::to_string(of.ranks), of.rank);
  if (count < of.ranks)
    fail(function, "count", "as many as there are ranks, " + std::to_string(of.ranks), count);
  ShardRange range{0, count, count};
  while (of.ranks > 1) {
    int const lower_ranks = first_half(of.ranks), lower_shards = first_half(range.size());
    if (of.rank < lower_ranks) {
      range.end = range.begin + lower_shards;
      of.ranks = lower_ranks;
    } else {
      range.begin += lower_shards;
      of = {of.rank - lower_ranks, of.ranks - lower_ranks};
    }
  }
  return range;
}

/// A rank's shards: trees[i] is number range.begin + i, with slots in a cache of its own.
struct FixedShards {
  ShardRange range;
  std::vector<PrefixTree> trees;
};

/// The shards of `tree` on one rank, of `count` whatever the number of ranks.
///
/// \param policy  as for shard_tree
/// \param of      the rank: {communicator.rank(), communicator.size()}
///
/// trees[i] is shard_tree(tree, policy, {range.begin + i, count}). Errors and time: those of
/// shards_of_rank, and for each of the rank's shards of shard_tree.
template <ShardPolicy Policy>
constexpr FixedShards fixed_shards(PrefixTree const& tree, Policy const& policy, int count,
                                   ShardOf of) {
  FixedShards shards{shards_of_rank(count, of), {}};
  for (int shard = shards.range.begin; shard < shards.range.end; ++shard)
    shards.trees.push_back(shard_tree(tree, policy, {shard, count}));
  return shards;
}

}  // namespace fasttree
