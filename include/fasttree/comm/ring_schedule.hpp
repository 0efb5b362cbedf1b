// SPDX-License-Identifier: Apache-2.0
#pragma once
// What rings of ranks move that pass on not partial results but what attention reads: the keys and
// values of each rank (pass-KV; Ring Attention, arXiv 2310.01889) or the queries (pass-Q; arXiv
// 2411.01783). Tree Attention (arXiv 2408.04093) compares itself with the former. Who passes on
// what in which round is here, and what it costs in closed form; ring_attention.hpp has the rings.

#include <cstdint>

#include <fasttree/comm/reduction_algorithm.hpp>

namespace fasttree {

/// A rank's part in a round: it sends `next` what was rank `sent`'s in the beginning, and gets from
/// `previous` what was rank `received`'s.
struct RingRound {
  int next, previous, sent, received;

  friend constexpr bool operator==(RingRound const&, RingRound const&) = default;
};

/// Of rounds 0 to ranks - 2, after which each rank has had what all have.
constexpr RingRound ring_round(int rank, int ranks, int i) {
  int const sent = (rank + ranks - i) % ranks;
  return {(rank + 1) % ranks, (rank + ranks - 1) % ranks, sent, (sent + ranks - 1) % ranks};
}

/// What goes around, of all ranks together: bytes of keys and values, each shard in so many
/// messages, and bytes of queries.
struct RingSize {
  std::int64_t kv_bytes = 0;
  std::int64_t query_bytes = 0;
  std::int64_t messages_per_shard = 1;
};

/// What a ring of K,V moves, all ranks together. Exact. Beside each message goes an empty one in
/// the other direction: that there is room for the next.
constexpr Traffic pass_kv_traffic(int ranks, RingSize const& size) {
  std::int64_t const p = ranks, messages = size.messages_per_shard * (p - 1);
  return {messages, 2 * p * messages, (p - 1) * size.kv_bytes};
}

/// What a ring of queries moves: these, around; then partial results, by `scatter`. Exact.
constexpr Traffic pass_q_traffic(int ranks, RingSize const& size, ReductionSize results) {
  std::int64_t const p = ranks;
  Traffic const scattered = traffic(ReductionAlgorithm::scatter, ranks, results);
  return {p - 1 + scattered.rounds, p * (p - 1) + scattered.messages,
          (p - 1) * size.query_bytes + scattered.bytes};
}

/// Microseconds of such traffic in nodes, as if every link were one between nodes where there are
/// several: a ring waits for its slowest link.
constexpr double price(Traffic const& moved, Topology const& topology) {
  return price(moved, topology.ranks, topology.nodes() > 1 ? topology.between : topology.within);
}

}  // namespace fasttree
