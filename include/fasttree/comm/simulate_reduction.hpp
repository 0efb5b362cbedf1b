// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are not there: what all of them do, by the schedules that real ranks carry out, with a
// virtual clock for each, message by message, on the links of a topology. Rounds, messages and
// bytes are exact; time is that of the links and of what ranks do in between as it is given.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fasttree/comm/reduction_schedule.hpp>
#include <fasttree/comm/ring_schedule.hpp>

namespace fasttree {

/// What ranks moved within nodes and between them, and the microseconds until the last had its
/// result. A round is one between nodes if any message in it is.
struct SimulatedReduction {
  double time = 0;
  Traffic within, between;

  constexpr Traffic all() const {
    return {within.rounds + between.rounds, within.messages + between.messages,
            within.bytes + between.bytes};
  }
};

namespace detail {

/// The time at which each rank has come to, until when it sends, and when what was sent to it
/// arrives. Sending keeps a rank, or its node's one link, from nothing but sending more.
class VirtualClocks {
 public:
  explicit VirtualClocks(Topology const& topology)
      : topology_(topology),
        clocks_(topology.ranks),
        sending_(topology.ranks),
        ready_(topology.ranks),
        node_sending_(topology.nodes()) {}

  void send(int from, int to, std::int64_t bytes) {
    bool const crosses = topology_.crosses(from, to);
    LinkCosts const& link = crosses ? topology_.between : topology_.within;
    Traffic& moved = crosses ? moved_.between : moved_.within;
    ++moved.messages;
    moved.bytes += bytes;
    double const bytes_time = static_cast<double>(bytes) / link.rate;
    sending_[from] = std::max(sending_[from], clocks_[from]) + link.message;
    double* busy = &sending_[from];
    if (crosses && topology_.one_link_per_node) {
      busy = &node_sending_[from / topology_.ranks_per_node];
      *busy = std::max(*busy, sending_[from]);
    }
    *busy += bytes_time;
    ready_[to] = std::max(ready_[to], *busy + link.latency);
  }

  /// A rank does something else, as long as this.
  void work(int rank, double time) { clocks_[rank] += time; }

  /// All ranks wait for what was sent to them.
  void end_round() {
    bool const crossed = moved_.between.messages > crossed_;
    crossed_ = moved_.between.messages;
    ++(crossed ? moved_.between : moved_.within).rounds;
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank)
      clocks_[rank] = std::max(clocks_[rank], ready_[rank]);
  }

  SimulatedReduction result() const {
    SimulatedReduction result = moved_;
    result.time = *std::ranges::max_element(clocks_);
    return result;
  }

 private:
  Topology topology_;
  std::vector<double> clocks_, sending_, ready_, node_sending_;
  std::int64_t crossed_ = 0;  ///< messages between nodes, when the last round ended
  SimulatedReduction moved_;
};

/// All ranks of one reduction.
class SimulatedRanks {
 public:
  SimulatedRanks(ReductionAlgorithm algorithm, Topology const& topology)
      : algorithm_(algorithm), topology_(topology), clocks_(topology), frames_(topology.ranks) {
    for (int rank = 0; rank < topology.ranks; ++rank)
      frames_[rank] =
          make_reduction_frame(algorithm, rank, topology.ranks, topology.ranks_per_node);
  }

  /// One exchange of so many rows, of so many floats each.
  void exchange(std::int64_t rows, int width) {
    for (int i = 0; i < frames_[0].rounds; ++i) {
      for (int rank = 0; rank < topology_.ranks; ++rank) send(rank, i, rows, width);
      clocks_.end_round();
    }
  }

  VirtualClocks& clocks() { return clocks_; }

 private:
  void send(int rank, int i, std::int64_t rows, int width) {
    fill_reduction_round(algorithm_, rank, topology_.ranks, topology_.ranks_per_node, i, round_);
    for (ScheduledMessage const& message : round_.sends) {
      std::int64_t const part = frames_[rank].schedule.part(message.part, {rows, 1}).size();
      clocks_.send(rank, message.peer, part * width * static_cast<std::int64_t>(sizeof(float)));
    }
  }

  ReductionAlgorithm algorithm_;
  Topology topology_;
  VirtualClocks clocks_;
  std::vector<ReductionFrame> frames_;
  ScheduledRound round_;
};

}  // namespace detail

/// What a reduction takes where all ranks begin at once. A rank sends one message after the other,
/// each in link.message us and its bytes / link.rate; it arrives link.latency us later.
///
/// Errors: those of make_reduction_schedule. Time: linear in the messages of all ranks; memory in
/// ranks.
inline SimulatedReduction simulate_reduction(ReductionAlgorithm algorithm, Topology const& topology,
                                             ReductionSize size) {
  detail::SimulatedRanks ranks(algorithm, topology);
  for (int const width : exchanged_floats(algorithm, size))
    if (width > 0) ranks.exchange(size.rows, width);
  return ranks.clocks().result();
}

/// What a ring of K,V takes, with equal shards, each of which a rank attends to in `attention` us
/// while the first message of the shard is on its way. Exact as simulate_reduction.
inline SimulatedReduction simulate_pass_kv(Topology const& topology, RingSize const& size,
                                           double attention = 0) {
  int const ranks = topology.ranks;
  detail::VirtualClocks clocks(topology);
  auto const message = [&](std::int64_t i) {  // of a shard's bytes
    std::int64_t const shard = size.kv_bytes / ranks, of = size.messages_per_shard;
    return shard * (i + 1) / of - shard * i / of;
  };
  auto const attend = [&] {
    for (int rank = 0; rank < ranks; ++rank) clocks.work(rank, attention);
  };
  for (int i = 0; i < ranks - 1; ++i)
    for (std::int64_t j = 0; j < size.messages_per_shard; ++j) {
      for (int rank = 0; rank < ranks; ++rank) {
        RingRound const round = ring_round(rank, ranks, i);
        clocks.send(rank, round.next, message(j));
        clocks.send(rank, round.previous, 0);
      }
      if (j == 0) attend();
      clocks.end_round();
    }
  attend();
  return clocks.result();
}

/// What a ring of queries takes; a rank attends to its keys in `attention` us. As above.
inline SimulatedReduction simulate_pass_q(Topology const& topology, RingSize const& size,
                                          ReductionSize results, double attention = 0) {
  int const ranks = topology.ranks;
  detail::SimulatedRanks scatter(ReductionAlgorithm::scatter, topology);
  auto const part = [&](int rank) {
    return size.query_bytes * (rank + 1) / ranks - size.query_bytes * rank / ranks;
  };
  for (int i = 0; i < ranks - 1; ++i) {
    for (int rank = 0; rank < ranks; ++rank) {
      RingRound const round = ring_round(rank, ranks, i);
      scatter.clocks().send(rank, round.next, part(round.sent));
    }
    scatter.clocks().end_round();
  }
  for (int rank = 0; rank < ranks; ++rank) scatter.clocks().work(rank, attention);
  scatter.exchange(results.rows, results.record_floats());
  return scatter.clocks().result();
}

}  // namespace fasttree
