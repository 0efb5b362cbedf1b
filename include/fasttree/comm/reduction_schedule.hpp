// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who sends which part of the rows to whom, in which round, and what is merged when it arrives:
// plain data for one rank, the same for every transport and any number of rows. Every schedule
// merges in an order that depends on the number of ranks alone, so that all ranks get the same
// bits. All but the ring and those in two levels share theirs: ranks [0, p) are halved, the lower
// half being the larger, down to single ranks; halves merge in rank order. So no number of ranks is
// a special case, and nothing is asked of what merges but to be associative. A ring merges each row
// in rank order from a rank of the row's own on; in two levels the ranks of a node merge, then the
// nodes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
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

constexpr Halved halve(int begin, int end) { return {begin, begin + first_half(end - begin), end}; }

/// Some ranks, this one among them: `first`, first + distance, ..., `count` of them.
struct Members {
  int first, distance, count, self;

  constexpr int rank(int i) const { return first + i * distance; }
};

/// One exchange of a part between the halves of a block of members. Where the lower half has one
/// more, that one hears from the last of the upper half, which so sends twice.
constexpr void exchange_halves(Members const& members, Halved const& block, int slot, int part,
                               ScheduledRound& round) {
  int const lower = block.middle - block.begin, upper = block.end - block.middle;
  auto const send = [&](int to) { round.sends.push_back({members.rank(to), slot, part}); };
  auto const receive = [&](int from) {
    round.receives.push_back({members.rank(from), slot, part});
  };
  if (members.self < block.middle) {
    int const i = members.self - block.begin;
    if (i < upper) send(block.middle + i);
    receive(block.middle + std::min(i, upper - 1));
    round.merges.push_back({own_rows, own_rows, slot});
  } else {
    int const i = members.self - block.middle;
    send(block.begin + i);
    if (i == upper - 1 && lower > upper) send(block.middle - 1);
    receive(block.begin + i);
    round.merges.push_back({own_rows, slot, own_rows});
  }
}

/// The block around a member after so many halvings from all on; the rounds are in the other
/// direction, and one that comes to be alone early has nothing to do at first.
constexpr void fill_tree_round(Members const& members, int i, int first_slot, int part,
                               ScheduledRound& round) {
  int begin = 0, end = members.count;
  for (int depth = halvings(end) - 1 - i; depth > 0 && end - begin > 1; --depth) {
    int const middle = halve(begin, end).middle;
    (members.self < middle ? end : begin) = middle;
  }
  if (end - begin > 1) exchange_halves(members, halve(begin, end), first_slot + i, part, round);
}

/// The merges of the whole tree of `count` records, on the rank that has the record `own`: that of
/// r lies in slot first_slot + r, or is its own.
constexpr void append_all_merges(int own, int count, int first_slot,
                                 std::vector<ScheduledMerge>& merges) {
  std::vector<Halved> blocks;
  if (count > 1) blocks.push_back(halve(0, count));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Halved const block = blocks[i];
    if (block.middle - block.begin > 1) blocks.push_back(halve(block.begin, block.middle));
    if (block.end - block.middle > 1) blocks.push_back(halve(block.middle, block.end));
  }
  auto const place = [&](int of) { return of == own ? own_rows : first_slot + of; };
  for (std::size_t i = blocks.size(); i-- > 0;)  // halves before what they are halves of
    merges.push_back({place(blocks[i].begin), place(blocks[i].begin), place(blocks[i].middle)});
  if (!merges.empty()) merges.back().into = own_rows;
}

/// Each member sends each other one the part of that one's number, or part `whole` unless that is
/// negative, and merges what it gets. Each begins with its neighbour, not all with the first.
constexpr void fill_exchange_round(Members const& members, int first_slot, int whole,
                                   ScheduledRound& round) {
  for (int i = 1; i < members.count; ++i) {
    int const peer = (members.self + i) % members.count;
    bool const parts = whole < 0;
    round.sends.push_back({members.rank(peer), first_slot + members.self, parts ? peer : whole});
    round.receives.push_back({members.rank(peer), first_slot + peer, parts ? members.self : whole});
  }
  append_all_merges(members.self, members.count, first_slot, round.merges);
}

/// Each member sends the part of its own number to all others, or to the first alone.
constexpr void fill_gather_round(Members const& members, int first_slot, bool to_all,
                                 ScheduledRound& round) {
  round.replaces = true;
  for (int i = 1; i < members.count; ++i) {
    int const peer = (members.self + i) % members.count;
    if (to_all || peer == 0)
      round.sends.push_back({members.rank(peer), first_slot + members.self, members.self});
    if (to_all || members.self == 0)
      round.receives.push_back({members.rank(peer), first_slot + peer, peer});
  }
}

constexpr void fill_ring_round(int rank, int ranks, int i, ScheduledRound& round) {
  int const next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  auto const part = [&](int of) { return (of + 2 * ranks) % ranks; };
  round.replaces = i >= ranks - 1;
  int const sent = round.replaces ? rank + 1 - (i - (ranks - 1)) : rank - i;
  round.sends.push_back({next, i, part(sent)});
  round.receives.push_back({previous, i, part(sent - 1)});
  if (!round.replaces) round.merges.push_back({own_rows, i, own_rows});
}

/// Within the node, then among those of one number in all nodes, then within the node again.
constexpr void fill_two_level_round(int rank, int ranks, int ranks_per_node, bool tree, int i,
                                    ScheduledRound& round) {
  int const node = rank / ranks_per_node, number = rank % ranks_per_node;
  int const nodes = ranks / ranks_per_node, first_between = ranks_per_node > 1 ? 1 : 0;
  int const rounds_between = tree ? halvings(nodes) : nodes > 1;
  Members const own_node{node * ranks_per_node, 1, ranks_per_node, number};
  Members const alike{number, ranks_per_node, nodes, node};
  if (i < first_between) return fill_exchange_round(own_node, 0, -1, round);
  if (i >= first_between + rounds_between)
    return fill_gather_round(own_node, ranks_per_node + nodes, true, round);
  if (!tree) return fill_exchange_round(alike, ranks_per_node, number, round);
  fill_tree_round(alike, i - first_between, ranks_per_node, number, round);
}

}  // namespace detail

/// The schedule of a rank without its rounds, and their number.
struct ReductionFrame {
  ReductionSchedule schedule;
  int rounds = 0;
};

/// See make_reduction_schedule.
constexpr ReductionFrame make_reduction_frame(ReductionAlgorithm algorithm, int rank, int ranks,
                                              int ranks_per_node = 1) {
  constexpr char const* function = "make_reduction_schedule";
  require(ranks > 0, function, "ranks", "a positive number", ranks);
  if (rank < 0 || rank >= ranks)
    fail(function, "rank", "0 or more, below " + std::to_string(ranks), rank);
  if (ranks_per_node <= 0 || ranks % ranks_per_node != 0)
    fail(function, "ranks_per_node", "a divisor of " + std::to_string(ranks), ranks_per_node);
  int const rounds = static_cast<int>(traffic(algorithm, ranks, {}, ranks_per_node).rounds);
  int const levels = halvings(ranks), others = ranks - 1;
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
      return {{{}, ranks, others}, rounds};
    case ReductionAlgorithm::ring:
      return {{{}, 2 * others, 2 * others, ranks, 0, ranks}, rounds};
    case ReductionAlgorithm::all_to_all:
      return {{{}, 2 * ranks, 2 * others, ranks, 0, ranks}, rounds};
    case ReductionAlgorithm::scatter:
      return {{{}, ranks, others, ranks, rank, rank + 1, true}, rounds};
    case ReductionAlgorithm::on_rank_0:
      return {{{}, 2 * ranks, 2 * others, ranks, 0, rank == 0 ? ranks : 0}, rounds};
    case ReductionAlgorithm::two_level:
    case ReductionAlgorithm::two_level_tree: {
      int const g = ranks_per_node, nodes = ranks / g;
      int const between =
          algorithm == ReductionAlgorithm::two_level ? nodes - 1 : 2 * halvings(nodes);
      return {{{}, 2 * g + nodes, 2 * (g - 1) + between, g, 0, g}, rounds};
    }
    case ReductionAlgorithm::tree:
    case ReductionAlgorithm::max_then_sum:
    case ReductionAlgorithm::three_all_reduces:
      break;
  }
  return {{{}, levels, 2 * levels}, levels};
}

/// Fills in round `i` of them; what `round` held is gone.
constexpr void fill_reduction_round(ReductionAlgorithm algorithm, int rank, int ranks,
                                    int ranks_per_node, int i, ScheduledRound& round) {
  round.sends.clear();
  round.receives.clear();
  round.merges.clear();
  round.replaces = false;
  detail::Members const all{0, 1, ranks, rank};
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
      return detail::fill_exchange_round(all, 0, 0, round);
    case ReductionAlgorithm::ring:
      return detail::fill_ring_round(rank, ranks, i, round);
    case ReductionAlgorithm::all_to_all:
    case ReductionAlgorithm::scatter:
    case ReductionAlgorithm::on_rank_0:
      if (i == 0) return detail::fill_exchange_round(all, 0, -1, round);
      return detail::fill_gather_round(all, ranks, algorithm == ReductionAlgorithm::all_to_all,
                                       round);
    case ReductionAlgorithm::two_level:
    case ReductionAlgorithm::two_level_tree:
      return detail::fill_two_level_round(
          rank, ranks, ranks_per_node, algorithm == ReductionAlgorithm::two_level_tree, i, round);
    case ReductionAlgorithm::tree:
    case ReductionAlgorithm::max_then_sum:
    case ReductionAlgorithm::three_all_reduces:
      return detail::fill_tree_round(all, i, 0, 0, round);
  }
}

/// What `rank` does to merge over all ranks; for several all-reduces, in each of them. Only those
/// in two levels ask for the nodes.
/// Errors: `Error` on a rank out of range, and on nodes that are not all alike. Time: linear in its
/// messages.
constexpr ReductionSchedule make_reduction_schedule(ReductionAlgorithm algorithm, int rank,
                                                    int ranks, int ranks_per_node = 1) {
  auto [schedule, rounds] = make_reduction_frame(algorithm, rank, ranks, ranks_per_node);
  schedule.rounds.resize(rounds);
  for (int i = 0; i < rounds; ++i)
    fill_reduction_round(algorithm, rank, ranks, ranks_per_node, i, schedule.rounds[i]);
  return schedule;
}

}  // namespace fasttree
