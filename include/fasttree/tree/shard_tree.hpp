// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's shard of a tree: the same nodes and requests, with only those keys of each node that lie
// on the rank, in slots of its own. Law: over all ranks, each key of a node is in one shard. Keys
// keep their order, and a query that sees its whole path sees all of a shard's keys on it: so a
// shard is a tree like any other for planner and kernels. Queries of a causal tail do not see the
// whole path, and which of a shard's keys they see the tree alone cannot say: they are refused.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// One of `ranks` ranks.
struct ShardOf {
  int rank = 0;
  int ranks = 1;
};

/// How the keys of a node are dealt out: how many a rank has, and which token of the node the i-th
/// of them is, in ascending order. May also have slot_begin(tree, node, shard): the slot, in the
/// rank's own cache, of the first; else slots are given out node after node.
template <class Candidate>
concept ShardPolicy = requires(Candidate const& policy, PrefixTree const& tree, int node,
                               ShardOf shard, int i) {
  { policy.length(tree, node, shard) } -> std::same_as<int>;
  { policy.token(tree, node, shard, i) } -> std::same_as<int>;
};

/// Each rank has one piece of each node, in rank order: equal ones, or by `shares`, one for each
/// rank, 0 for a rank that has no keys. What does not divide goes to this rank or that, by the
/// node's slot, so that the keys of short nodes spread as well.
struct ContiguousShards {
  std::span<int const> shares = {};

  constexpr int length(PrefixTree const& tree, int node, ShardOf shard) const {
    return cut(tree, node, shard, shard.rank + 1) - cut(tree, node, shard, shard.rank);
  }
  constexpr int token(PrefixTree const& tree, int node, ShardOf shard, int i) const {
    return cut(tree, node, shard, shard.rank) + i;
  }

 private:
  constexpr std::int64_t sum(ShardOf shard, int ranks) const {
    if (shares.empty()) return ranks;
    require(shares.size() == static_cast<std::size_t>(shard.ranks), "ContiguousShards",
            "shares.size()", shard.ranks, shares.size());
    std::int64_t all = 0;
    for (int i = 0; i < ranks; ++i) {
      require(shares[i] >= 0, "ContiguousShards", "shares", "0 or more", shares[i]);
      all += shares[i];
    }
    return all;
  }

  /// Where the piece of `rank` begins.
  constexpr int cut(PrefixTree const& tree, int node, ShardOf shard, int rank) const {
    std::int64_t const all = sum(shard, shard.ranks);
    require(all > 0, "ContiguousShards", "shares", "one that is positive", all);
    std::int64_t const rest = all - 1 - tree.slot_begin(node) % all;
    return static_cast<int>((tree.length(node) * sum(shard, rank) + rest) / all);
  }
};

/// Blocks of `block` slots of the whole tree in turn: slot s lies on rank s / block % ranks, in
/// whatever node. It stays there while the tree is edited and keeps its slots, growth is even, and
/// pages of a paged cache stay whole where `block` is a multiple of theirs. In its rank's cache a
/// key lies where the slots of that rank, put together, have it.
struct InterleavedShards {
  int block = 1;

  constexpr int length(PrefixTree const& tree, int node, ShardOf shard) const {
    std::int64_t const begin = tree.slot_begin(node);
    return static_cast<int>(slots_below(begin + tree.length(node), shard) -
                            slots_below(begin, shard));
  }
  constexpr int token(PrefixTree const& tree, int node, ShardOf shard, int i) const {
    std::int64_t const at = slot_begin(tree, node, shard) + i;
    std::int64_t const slot = (at / block * shard.ranks + shard.rank) * block + at % block;
    return static_cast<int>(slot - tree.slot_begin(node));
  }
  constexpr std::int64_t slot_begin(PrefixTree const& tree, int node, ShardOf shard) const {
    return slots_below(tree.slot_begin(node), shard);
  }

 private:
  /// How many slots of the rank come before this one.
  constexpr std::int64_t slots_below(std::int64_t slot, ShardOf shard) const {
    require(block > 0, "InterleavedShards", "block", "a positive number", block);
    std::int64_t const turn = std::int64_t{1} * block * shard.ranks;
    std::int64_t const in_turn = slot % turn - std::int64_t{1} * block * shard.rank;
    return slot / turn * block + std::clamp<std::int64_t>(in_turn, 0, block);
  }
};

/// The shard of `tree` on one rank.
///
/// \param policy  ContiguousShards, InterleavedShards, or a type of your own
/// \param shard   which of how many; those of a communicator: {rank(), size()}
///
/// Token i of node n in the shard is token policy.token(tree, n, shard, i) of the node.
/// Errors: `Error` where a request asks more than one query, the rank is none of the ranks, or the
/// policy is wrong. Time: that of PrefixTree, with ContiguousShards times the ranks where they have
/// shares.
template <ShardPolicy Policy>
constexpr PrefixTree shard_tree(PrefixTree const& tree, Policy const& policy, ShardOf shard) {
  constexpr char const* function = "shard_tree";
  require(shard.ranks > 0, function, "shard.ranks", "a positive number", shard.ranks);
  if (shard.rank < 0 || shard.rank >= shard.ranks)
    fail(function, "shard.rank", "0 or more, below " + std::to_string(shard.ranks), shard.rank);
  std::vector<int> parents, lengths;
  std::vector<std::int64_t> slot_begins;
  std::vector<Request> requests;
  constexpr bool has_slots = requires { policy.slot_begin(tree, 0, shard); };
  for (int node = 0; node < tree.nodes(); ++node) {
    parents.push_back(tree.parent(node));
    lengths.push_back(policy.length(tree, node, shard));
    if constexpr (has_slots) slot_begins.push_back(policy.slot_begin(tree, node, shard));
  }
  for (int i = 0; i < tree.requests(); ++i) {
    if (tree.request(i).query_length > 1)
      fail(function, "requests[" + std::to_string(i) + "].query_length",
           "at most 1 (causal tails are not sharded)", tree.request(i).query_length);
    requests.push_back(tree.request(i));
  }
  if constexpr (has_slots) return PrefixTree(parents, lengths, requests, slot_begins);
  return PrefixTree(parents, lengths, requests);
}

}  // namespace fasttree
