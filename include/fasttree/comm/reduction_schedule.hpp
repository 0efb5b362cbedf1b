// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who sends which part of the rows to whom, in which round, and what is merged when it arrives:
// plain data for one rank, the same for every transport and any number of rows. Every schedule
// merges in an order that depends on the number of ranks alone, so that all ranks get the same
// bits. All but the ring share theirs: ranks [0, p) are halved, the lower half being the larger,
// down to single ranks; halves merge in rank order. So no number of ranks is a special case, and
// nothing is asked of what merges but to be associative. A ring merges each row in rank order from
// a rank of the row's own on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/comm/reduction_algorithm.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree {

/// A part of the rows from, or to, a peer; the slot is one of the receiver's window.
struct ScheduledMessage {
  int peer, slot, part;
};

/// into := merge(left, right), each the number of a slot or `own`; left is of lower ranks.
struct ScheduledMerge {
  int into, left, right;

  static constexpr int own = -1;
};

/// Sends first, of the rank's own rows; then messages arrive; then those, all of one part, are
/// merged, in this order, or (`replaces`: their rows are final) take the place of the rank's own.
struct ScheduledRound {
  std::vector<ScheduledMessage> sends, receives;
  std::vector<ScheduledMerge> merges;
  bool replaces = false;
};

/// An interval of rows.
struct RowRange {
  std::int64_t begin, end;

  constexpr std::int64_t size() const { return end - begin; }
};

/// The rows of a reduction; those of a head follow each other.
struct ReducedRows {
  std::int64_t heads, queries;

  constexpr std::int64_t count() const { return heads * queries; }
};

/// What one rank does; slot numbers are below `slots`, those of parts below `parts`. No rank sends
/// more than `sends` messages. In the end the rank has the result of the parts [kept_begin,
/// kept_end).
struct ReductionSchedule {
  std::vector<ScheduledRound> rounds;
  int slots = 0;
  int sends = 0;
  int parts = 1;
  int kept_begin = 0, kept_end = parts;
  bool whole_heads = false;  ///< no part has rows of a head of which others have some

  constexpr RowRange part(int i, ReducedRows const& rows) const {
    return {first(i, rows), first(i + 1, rows)};
  }
  constexpr RowRange kept(ReducedRows const& rows) const {
    return {first(kept_begin, rows), first(kept_end, rows)};
  }
  /// The rows of the largest part.
  constexpr std::int64_t part_size(ReducedRows const& rows) const {
    return ceil_div<std::int64_t>(whole_heads ? rows.heads : rows.count(), parts) *
           (whole_heads ? rows.queries : 1);
  }

 private:
  constexpr std::int64_t first(int i, ReducedRows const& rows) const {
    return whole_heads ? rows.heads * i / parts * rows.queries : rows.count() * i / parts;
  }
};

namespace detail {

constexpr int own_rows = ScheduledMerge::own;

/// A block of ranks and where its upper half begins.
struct Halved {
  int begin, middle, end;
};

constexpr Halved halve(int begin, int end) { return {begin, begin + (end - begin + 1) / 2, end}; }

/// The blocks that contain `rank`, from all ranks down to two.
constexpr std::vector<Halved> blocks_around(int rank, int ranks) {
  std::vector<Halved> blocks;
  for (int begin = 0, end = ranks; end - begin > 1;) {
    blocks.push_back(halve(begin, end));
    (rank < blocks.back().middle ? end : begin) = blocks.back().middle;
  }
  return blocks;
}

/// One exchange between the halves of a block. Where the lower half has a rank more, that one hears
/// from the last rank of the upper half, which so sends twice.
constexpr ScheduledRound exchange_halves(Halved const& block, int rank, int slot) {
  int const lower = block.middle - block.begin, upper = block.end - block.middle;
  ScheduledRound round;
  if (rank < block.middle) {
    int const i = rank - block.begin;
    if (i < upper) round.sends.push_back({block.middle + i, slot, 0});
    round.receives.push_back({block.middle + std::min(i, upper - 1), slot, 0});
    round.merges.push_back({own_rows, own_rows, slot});
  } else {
    int const i = rank - block.middle;
    round.sends.push_back({block.begin + i, slot, 0});
    if (i == upper - 1 && lower > upper) round.sends.push_back({block.middle - 1, slot, 0});
    round.receives.push_back({block.begin + i, slot, 0});
    round.merges.push_back({own_rows, slot, own_rows});
  }
  return round;
}

constexpr ReductionSchedule tree_schedule(int rank, int ranks) {
  int const levels = halvings(ranks);
  ReductionSchedule schedule{{}, levels, 2 * levels};
  schedule.rounds.resize(schedule.slots);
  int round = schedule.slots;  // a rank that comes to be alone early has nothing to do at first
  for (Halved const& block : blocks_around(rank, ranks)) {
    --round;
    schedule.rounds[round] = exchange_halves(block, rank, round);
  }
  return schedule;
}

/// The merges of the whole tree, on one rank: that of r lies in slot r, or is its own.
constexpr std::vector<ScheduledMerge> all_merges(int rank, int ranks) {
  std::vector<Halved> blocks;
  if (ranks > 1) blocks.push_back(halve(0, ranks));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Halved const block = blocks[i];
    if (block.middle - block.begin > 1) blocks.push_back(halve(block.begin, block.middle));
    if (block.end - block.middle > 1) blocks.push_back(halve(block.middle, block.end));
  }
  std::vector<ScheduledMerge> merges;
  auto const place = [&](int of) { return of == rank ? own_rows : of; };
  for (std::size_t i = blocks.size(); i-- > 0;)  // halves before what they are halves of
    merges.push_back({place(blocks[i].begin), place(blocks[i].begin), place(blocks[i].middle)});
  if (!merges.empty()) merges.back().into = own_rows;
  return merges;
}

constexpr ReductionSchedule one_shot_schedule(int rank, int ranks) {
  ReductionSchedule schedule{{}, ranks, ranks - 1};
  if (ranks == 1) return schedule;
  ScheduledRound round;
  for (int i = 1; i < ranks; ++i) {  // each begins with its neighbour, not all with rank 0
    int const peer = (rank + i) % ranks;
    round.sends.push_back({peer, rank, 0});
    round.receives.push_back({peer, peer, 0});
  }
  round.merges = all_merges(rank, ranks);
  schedule.rounds.push_back(std::move(round));
  return schedule;
}

/// What the last round of all_to_all is about.
enum class Gathered { nowhere, on_rank_0, everywhere };

/// Each rank merges the part of its own number.
constexpr ReductionSchedule all_to_all_schedule(int rank, int ranks, Gathered gathered) {
  ReductionSchedule schedule{{}, 2 * ranks, 2 * (ranks - 1), ranks, 0, ranks};
  if (gathered == Gathered::nowhere) {
    schedule.kept_begin = rank;
    schedule.kept_end = rank + 1;
    schedule.whole_heads = true;
  } else if (gathered == Gathered::on_rank_0 && rank > 0) {
    schedule.kept_end = 0;
  }
  if (ranks == 1) return schedule;
  ScheduledRound exchange, result;
  result.replaces = true;
  for (int i = 1; i < ranks; ++i) {
    int const peer = (rank + i) % ranks;
    exchange.sends.push_back({peer, rank, peer});
    exchange.receives.push_back({peer, peer, rank});
    bool const all = gathered == Gathered::everywhere;
    if (all || peer == 0) result.sends.push_back({peer, ranks + rank, rank});
    if (all || rank == 0) result.receives.push_back({peer, ranks + peer, peer});
  }
  exchange.merges = all_merges(rank, ranks);
  schedule.rounds.push_back(std::move(exchange));
  if (gathered != Gathered::nowhere) schedule.rounds.push_back(std::move(result));
  return schedule;
}

constexpr ReductionSchedule ring_schedule(int rank, int ranks) {
  ReductionSchedule schedule{{}, 2 * (ranks - 1), 2 * (ranks - 1), ranks};
  int const next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  auto const part = [&](int i) { return (i + ranks) % ranks; };
  for (int i = 0; i < ranks - 1; ++i)
    schedule.rounds.push_back({{{next, i, part(rank - i)}},
                               {{previous, i, part(rank - i - 1)}},
                               {{own_rows, i, own_rows}},
                               false});
  for (int i = 0; i < ranks - 1; ++i) {
    int const slot = ranks - 1 + i;
    schedule.rounds.push_back(
        {{{next, slot, part(rank + 1 - i)}}, {{previous, slot, part(rank - i)}}, {}, true});
  }
  return schedule;
}

}  // namespace detail

/// What `rank` does to merge over all ranks; for several all-reduces, in each of them.
/// Errors: `Error` on a rank out of range. Time: linear in its messages.
constexpr ReductionSchedule make_reduction_schedule(ReductionAlgorithm algorithm, int rank,
                                                    int ranks) {
  constexpr char const* function = "make_reduction_schedule";
  require(ranks > 0, function, "ranks", "a positive number", ranks);
  if (rank < 0 || rank >= ranks)
    fail(function, "rank", "0 or more, below " + std::to_string(ranks), rank);
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
      return detail::one_shot_schedule(rank, ranks);
    case ReductionAlgorithm::ring:
      return detail::ring_schedule(rank, ranks);
    case ReductionAlgorithm::all_to_all:
      return detail::all_to_all_schedule(rank, ranks, detail::Gathered::everywhere);
    case ReductionAlgorithm::scatter:
      return detail::all_to_all_schedule(rank, ranks, detail::Gathered::nowhere);
    case ReductionAlgorithm::on_rank_0:
      return detail::all_to_all_schedule(rank, ranks, detail::Gathered::on_rank_0);
    case ReductionAlgorithm::tree:
    case ReductionAlgorithm::max_then_sum:
    case ReductionAlgorithm::three_all_reduces:
      break;
  }
  return detail::tree_schedule(rank, ranks);
}

}  // namespace fasttree
