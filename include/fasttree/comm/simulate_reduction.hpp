// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are not there: the schedules of all of them carried out by a virtual clock for each,
// message by message, on the links of a topology. Rounds, messages and bytes are exact; time is
// that of the links alone, without merging, and without links that several ranks share.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fasttree/comm/reduction_schedule.hpp>

namespace fasttree {

/// What a reduction moved within nodes and between them, and the microseconds until the last rank
/// had its result. A round is one between nodes if any message in it is.
struct SimulatedReduction {
  double time = 0;
  Traffic within, between;

  constexpr Traffic all() const {
    return {within.rounds + between.rounds, within.messages + between.messages,
            within.bytes + between.bytes};
  }
};

namespace detail {

/// All ranks of one reduction, and the time at which each has come to.
class SimulatedRanks {
 public:
  SimulatedRanks(ReductionAlgorithm algorithm, Topology const& topology)
      : algorithm_(algorithm),
        topology_(topology),
        clocks_(topology.ranks),
        ready_(topology.ranks),
        frames_(topology.ranks) {
    for (int rank = 0; rank < topology.ranks; ++rank)
      frames_[rank] =
          make_reduction_frame(algorithm, rank, topology.ranks, topology.ranks_per_node);
  }

  /// One exchange of so many rows, of so many floats each.
  void exchange(std::int64_t rows, int width) {
    for (int i = 0; i < frames_[0].rounds; ++i) {
      std::int64_t const before = moved_.between.messages;
      for (int rank = 0; rank < topology_.ranks; ++rank) send(rank, i, rows, width);
      ++(moved_.between.messages > before ? moved_.between : moved_.within).rounds;
      for (int rank = 0; rank < topology_.ranks; ++rank)
        clocks_[rank] = std::max(clocks_[rank], ready_[rank]);
    }
  }

  SimulatedReduction result() const {
    SimulatedReduction result = moved_;
    result.time = *std::ranges::max_element(clocks_);
    return result;
  }

 private:
  void send(int rank, int i, std::int64_t rows, int width) {
    fill_reduction_round(algorithm_, rank, topology_.ranks, topology_.ranks_per_node, i, round_);
    for (ScheduledMessage const& message : round_.sends) {
      std::int64_t const part = frames_[rank].schedule.part(message.part, {rows, 1}).size();
      std::int64_t const bytes = part * width * static_cast<std::int64_t>(sizeof(float));
      bool const crosses = topology_.crosses(rank, message.peer);
      LinkCosts const& link = crosses ? topology_.between : topology_.within;
      Traffic& moved = crosses ? moved_.between : moved_.within;
      ++moved.messages;
      moved.bytes += bytes;
      clocks_[rank] += link.message + static_cast<double>(bytes) / link.rate;
      ready_[message.peer] = std::max(ready_[message.peer], clocks_[rank] + link.latency);
    }
  }

  ReductionAlgorithm algorithm_;
  Topology topology_;
  std::vector<double> clocks_, ready_;
  std::vector<ReductionFrame> frames_;
  ScheduledRound round_;
  SimulatedReduction moved_;
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
  for (int const width : exchanged_floats(algorithm, size.value_dim))
    if (width > 0) ranks.exchange(size.rows, width);
  return ranks.result();
}

}  // namespace fasttree
