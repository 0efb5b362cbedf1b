// SPDX-License-Identifier: Apache-2.0
// Shards of random forests: each key of each node is on one rank, in its order; balance; slots that
// stay when the tree grows; what is refused.

#include <fasttree/tree/shard_tree.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

/// A random forest of decoding requests.
Forest decoding_forest(std::uint64_t seed) {
  Forest forest = random_forest(seed);
  for (Request& request : forest.requests) request.query_length = std::min(1, request.query_length);
  return forest;
}

/// How often each token of each node is in a shard, and whether everything else is as in the tree.
template <class Policy>
bool shards_partition(PrefixTree const& tree, Policy const& policy, int ranks) {
  std::vector<std::vector<int>> found(tree.nodes());
  for (int node = 0; node < tree.nodes(); ++node) found[node].assign(tree.length(node), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    ShardOf const of{rank, ranks};
    PrefixTree const shard = shard_tree(tree, policy, of);
    if (shard.nodes() != tree.nodes() || shard.requests() != tree.requests()) return false;
    for (int i = 0; i < tree.requests(); ++i)
      if (shard.request(i).node != tree.request(i).node ||
          shard.request(i).query_length != tree.request(i).query_length)
        return false;
    for (int node = 0; node < tree.nodes(); ++node) {
      if (shard.parent(node) != tree.parent(node)) return false;
      for (int i = 0, before = -1; i < shard.length(node); ++i) {
        int const token = policy.token(tree, node, of, i);
        if (token <= before || token >= tree.length(node)) return false;
        ++found[node][token];
        before = token;
      }
    }
  }
  for (auto const& node : found)
    if (!std::ranges::all_of(node, [](int times) { return times == 1; })) return false;
  return true;
}

constexpr int one_parent[] = {-1}, ten_tokens[] = {10};

static_assert([] {
  PrefixTree const tree(one_parent, ten_tokens, {});
  return shard_tree(tree, InterleavedShards{4}, {0, 2}).length(0) == 6 &&
         shard_tree(tree, InterleavedShards{4}, {1, 2}).length(0) == 4 &&
         shard_tree(tree, ContiguousShards{}, {0, 3}).length(0) == 4;
}());

}  // namespace

TEST_CASE("each key of a node is on one rank, and keys keep their order") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    PrefixTree const tree = decoding_forest(seed).tree(static_cast<int>(seed) % 4 + 1);
    for (int const ranks : {1, 2, 3, 5, 8, 64}) {
      CAPTURE(ranks);
      CHECK(shards_partition(tree, ContiguousShards{}, ranks));
      for (int const block : {1, 3, 16})
        CHECK(shards_partition(tree, InterleavedShards{block}, ranks));
      std::vector<int> shares(ranks, 0);
      shares[ranks / 2] = 3;
      shares[ranks - 1] += 2;
      CHECK(shards_partition(tree, ContiguousShards{shares}, ranks));
    }
  }
}

TEST_CASE("shares say how much of each node a rank has") {
  int const lengths[] = {70}, shares[] = {0, 5, 2};
  PrefixTree const tree(one_parent, lengths, {});
  auto const length = [&](int rank) {
    return shard_tree(tree, ContiguousShards{shares}, {rank, 3}).length(0);
  };
  CHECK(length(0) == 0);
  CHECK(length(1) == 50);
  CHECK(length(2) == 20);
}

TEST_CASE("short nodes spread over the ranks") {
  std::vector<int> const parents(400, -1), lengths(400, 1);
  PrefixTree const tree(parents, lengths, {});
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(shard_tree(tree, ContiguousShards{}, {rank, 8}).slots() == 50);
    CHECK(shard_tree(tree, InterleavedShards{5}, {rank, 8}).slots() == 50);
  }
}

TEST_CASE("interleaved: tokens that are appended move no key, and shards grow in turn") {
  int const parents[] = {-1, 0, 0};
  std::int64_t const slots[] = {0, 1000, 2000};
  for (int rank = 0; rank < 3; ++rank) {
    auto const shard_at = [&](int length) {
      int const lengths[] = {100, length, 30};
      return shard_tree(PrefixTree(parents, lengths, {}, slots), InterleavedShards{4}, {rank, 3});
    };
    PrefixTree const first = shard_at(1);
    int most = 0, before = 0;
    for (int length = 1; length < 200; ++length) {
      PrefixTree const shard = shard_at(length);
      for (int node = 0; node < 3; ++node) CHECK(shard.slot_begin(node) == first.slot_begin(node));
      CHECK(shard.length(1) >= before);
      most = std::max(most, std::abs(3 * shard.length(1) - length));
      before = shard.length(1);
    }
    CHECK(most <= 3 * 4);
  }
}

TEST_CASE("interleaved: whole pages stay whole") {
  int const parents[] = {-1, 0, 0}, lengths[] = {33, 7, 100};
  PrefixTree const tree(parents, lengths, {}, SlotLayout{16});
  for (int rank = 0; rank < 3; ++rank) {
    PrefixTree const shard = shard_tree(tree, InterleavedShards{16}, {rank, 3});
    for (int node = 0; node < 3; ++node) CHECK(shard.slot_begin(node) % 16 == 0);
  }
}

TEST_CASE("what is refused") {
  Request const several[] = {{0, 1}, {0, 2}};
  PrefixTree const tail(one_parent, ten_tokens, several);
  PrefixTree const tree(one_parent, ten_tokens, {});
  int const negative[] = {1, -1}, none[] = {0, 0};
  CHECK_THROWS_WITH_AS(shard_tree(tail, ContiguousShards{}, {0, 2}),
                       "fasttree::shard_tree: requests[1].query_length: expected at most 1 (causal "
                       "tails are not sharded), found 2",
                       Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, ContiguousShards{}, {2, 2}),
                       "fasttree::shard_tree: shard.rank: expected 0 or more, below 2, found 2",
                       Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, ContiguousShards{}, {0, 0}),
                       "fasttree::shard_tree: shard.ranks: expected a positive number, found 0",
                       Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, ContiguousShards{negative}, {0, 2}),
                       "fasttree::ContiguousShards: shares: expected 0 or more, found -1", Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, ContiguousShards{none}, {0, 2}),
                       "fasttree::ContiguousShards: shares: expected one that is positive, found 0",
                       Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, ContiguousShards{none}, {0, 3}),
                       "fasttree::ContiguousShards: shares.size(): expected 3, found 2", Error);
  CHECK_THROWS_WITH_AS(shard_tree(tree, InterleavedShards{0}, {0, 2}),
                       "fasttree::InterleavedShards: block: expected a positive number, found 0",
                       Error);
}
