// SPDX-License-Identifier: Apache-2.0
// Schedules of all ranks, carried out round by round without any communicator: every rank's part
// gets into every rank's result once, by the same merges in the same order on all of them; and the
// closed forms of rounds, messages and bytes.

#include <fasttree/comm/reduction_schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace fasttree;

/// What was merged with what, one text for each part of the rows.
using Formulas = std::vector<std::string>;

struct Rank {
  ReductionSchedule schedule;
  Formulas own;
  std::map<int, std::string> slots;
  std::int64_t sent = 0;
};

std::vector<Rank> ranks_of(ReductionAlgorithm algorithm, int count, int ranks_per_node = 1) {
  std::vector<Rank> ranks(count);
  for (int i = 0; i < count; ++i) {
    ranks[i].schedule = make_reduction_schedule(algorithm, i, count, ranks_per_node);
    ranks[i].own.assign(ranks[i].schedule.parts, std::to_string(i));
  }
  return ranks;
}

void send(std::vector<Rank>& ranks, int from, ScheduledMessage const& message) {
  auto& slots = ranks[message.peer].slots;
  CHECK(message.slot < ranks[message.peer].schedule.slots);
  CHECK(slots.count(message.slot) == 0);  // one message for each slot
  slots[message.slot] = ranks[from].own[message.part];
  ++ranks[from].sent;
}

void arrive(Rank& rank, ScheduledRound const& round) {
  if (round.receives.empty()) return;
  std::string& own = rank.own[round.receives[0].part];
  for (auto const& message : round.receives) {
    REQUIRE(rank.slots.count(message.slot) == 1);
    CHECK((round.replaces || message.part == round.receives[0].part));
    if (round.replaces) rank.own[message.part] = rank.slots[message.slot];
  }
  auto const at = [&](int place) -> std::string& {
    return place == ScheduledMerge::own ? own : rank.slots[place];
  };
  for (auto const& merge : round.merges)
    at(merge.into) = "(" + at(merge.left) + " " + at(merge.right) + ")";
}

/// Carries out all rounds; the number of them.
std::size_t carry_out(std::vector<Rank>& ranks) {
  std::size_t rounds = 0;
  for (Rank const& rank : ranks) rounds = std::max(rounds, rank.schedule.rounds.size());
  for (std::size_t i = 0; i < rounds; ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (i < ranks[rank].schedule.rounds.size())
        for (auto const& message : ranks[rank].schedule.rounds[i].sends)
          send(ranks, static_cast<int>(rank), message);
    for (Rank& rank : ranks)
      if (i < rank.schedule.rounds.size()) arrive(rank, rank.schedule.rounds[i]);
  }
  return rounds;
}

/// The ranks in a formula, in their order.
std::vector<int> leaves(std::string formula) {
  std::replace_if(
      formula.begin(), formula.end(), [](char c) { return c == '(' || c == ')'; }, ' ');
  std::vector<int> found;
  for (std::size_t at = 0; (at = formula.find_first_not_of(' ', at)) != std::string::npos;) {
    std::size_t used = 0;
    found.push_back(std::stoi(formula.substr(at), &used));
    at += used;
  }
  return found;
}

int all_reduces(ReductionAlgorithm algorithm) {
  if (algorithm == ReductionAlgorithm::three_all_reduces) return 3;
  return algorithm == ReductionAlgorithm::max_then_sum ? 2 : 1;
}

constexpr ReductionSize size{.rows = 960, .value_dim = 64};
static_assert(size.bytes() == 960 * 65 * 4);
static_assert(traffic(ReductionAlgorithm::tree, 8, size) == Traffic{3, 24, 24 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::tree, 3, size) == Traffic{2, 5, 5 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::one_shot, 5, size) == Traffic{1, 20, 20 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::ring, 4, size) == Traffic{6, 24, 6 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::all_to_all, 4, size) == Traffic{2, 24, 6 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::scatter, 4, size) == Traffic{1, 12, 3 * size.bytes()});
static_assert(traffic(ReductionAlgorithm::on_rank_0, 4, size) ==
              Traffic{2, 15, 3 * size.bytes() + size.bytes() * 3 / 4});
static_assert(traffic(ReductionAlgorithm::max_then_sum, 8, size) ==
              Traffic{6, 48, 24 * (size.bytes() + 960 * 4)});
static_assert(traffic(ReductionAlgorithm::three_all_reduces, 8, size) ==
              Traffic{9, 72, 24 * (size.bytes() + 960 * 4)});
static_assert(make_reduction_schedule(ReductionAlgorithm::tree, 4, 7).rounds.size() == 3);
static_assert(halvings(1) == 0 && halvings(2) == 1 && halvings(5) == 3 && halvings(4096) == 12);

}  // namespace

TEST_CASE("every schedule merges all ranks once, in the same order on all of them") {
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (int count = 1; count <= 64; ++count) {
      CAPTURE(name(algorithm));
      CAPTURE(count);
      std::vector<Rank> ranks = ranks_of(algorithm, count);
      std::size_t const rounds = carry_out(ranks);
      bool alike = true;
      for (Rank const& rank : ranks) alike = alike && rank.own == ranks[0].own;
      CHECK(alike);
      for (int part = 0; part < ranks[0].schedule.parts; ++part) {
        std::vector<int> const found = leaves(ranks[0].own[part]);
        bool in_order = static_cast<int>(found.size()) == count;
        for (int i = 0; in_order && i < count; ++i)
          in_order = found[i] == (found[0] + i) % count;  // a ring begins anywhere
        CHECK(in_order);
        if (algorithm != ReductionAlgorithm::ring) CHECK(found[0] == 0);
      }
      std::int64_t sent = 0;
      for (Rank const& rank : ranks) sent += rank.sent;
      Traffic const expected = traffic(algorithm, count, size);
      int const times = all_reduces(algorithm);
      CHECK(static_cast<std::int64_t>(rounds) * times == expected.rounds);
      CHECK(sent * times == expected.messages);
      for (Rank const& rank : ranks) CHECK(rank.sent <= rank.schedule.sends);
    }
}

TEST_CASE("all but the ring merge alike, and each rank keeps what it has the result of") {
  for (int count = 1; count <= 64; ++count) {
    CAPTURE(count);
    auto tree = ranks_of(ReductionAlgorithm::tree, count);
    carry_out(tree);
    for (ReductionAlgorithm const algorithm :
         {ReductionAlgorithm::one_shot, ReductionAlgorithm::all_to_all, ReductionAlgorithm::scatter,
          ReductionAlgorithm::on_rank_0}) {
      CAPTURE(name(algorithm));
      auto ranks = ranks_of(algorithm, count);
      std::size_t const rounds = carry_out(ranks);
      Traffic moved{.rounds = static_cast<std::int64_t>(rounds)};
      std::vector<int> keepers(ranks[0].schedule.parts, 0);
      bool alike = true;
      for (Rank const& rank : ranks) {
        CHECK(rank.sent <= rank.schedule.sends);
        moved.messages += rank.sent;
        for (int part = rank.schedule.kept_begin; part < rank.schedule.kept_end; ++part) {
          alike = alike && rank.own[part] == tree[0].own[0];
          ++keepers[part];
        }
      }
      CHECK(alike);
      bool const elsewhere =
          algorithm == ReductionAlgorithm::scatter || algorithm == ReductionAlgorithm::on_rank_0;
      CHECK(std::ranges::count(keepers, elsewhere ? 1 : count) == std::ssize(keepers));
      Traffic const expected = traffic(algorithm, count, size);
      CHECK(moved.rounds == expected.rounds);
      CHECK(moved.messages == expected.messages);
    }
  }
}

TEST_CASE("two levels merge a node's ranks, then the nodes, in the same order on all ranks") {
  for (ReductionAlgorithm const algorithm :
       {ReductionAlgorithm::two_level, ReductionAlgorithm::two_level_tree})
    for (int count = 1; count <= 64; ++count)
      for (int ranks_per_node = 1; ranks_per_node <= count; ++ranks_per_node) {
        if (count % ranks_per_node != 0) continue;
        CAPTURE(count);
        CAPTURE(ranks_per_node);
        auto ranks = ranks_of(algorithm, count, ranks_per_node);
        Traffic moved{.rounds = static_cast<std::int64_t>(carry_out(ranks))};
        std::string const merged = ranks[0].own[0];
        bool alike = true;
        for (Rank const& rank : ranks) {
          moved.messages += rank.sent;
          CHECK(rank.sent <= rank.schedule.sends);
          for (std::string const& part : rank.own) alike = alike && part == merged;
        }
        CHECK(alike);
        std::vector<int> const found = leaves(merged);
        CHECK(std::ssize(found) == count);
        CHECK(std::ranges::is_sorted(found));
        Traffic const expected = traffic(algorithm, count, size, ranks_per_node);
        CHECK(moved.rounds == expected.rounds);
        CHECK(moved.messages == expected.messages);
        auto tree = ranks_of(ReductionAlgorithm::tree, count);
        carry_out(tree);
        CHECK((merged == tree[0].own[0]) == merges_by_tree(algorithm, {count, ranks_per_node}));
      }
}

TEST_CASE("parts are all rows, and of scatter whole heads") {
  for (int const count : {1, 2, 3, 7, 8, 40})
    for (ReducedRows const rows : {ReducedRows{6, 0}, ReducedRows{1, 5}, ReducedRows{32, 3}}) {
      for (ReductionAlgorithm const algorithm :
           {ReductionAlgorithm::all_to_all, ReductionAlgorithm::scatter}) {
        auto const schedule = make_reduction_schedule(algorithm, 0, count);
        std::int64_t end = 0, largest = 0;
        for (int part = 0; part < schedule.parts; ++part) {
          RowRange const range = schedule.part(part, rows);
          CHECK(range.begin == end);
          end = range.end;
          largest = std::max(largest, range.size());
          if (algorithm == ReductionAlgorithm::scatter && rows.queries > 0)
            CHECK(range.size() % rows.queries == 0);
        }
        CHECK(end == rows.count());
        CHECK(largest == schedule.part_size(rows));
      }
    }
}

TEST_CASE("to 4096 ranks, by counts") {
  for (int const count : {65, 100, 127, 128, 129, 1000, 1023, 1024, 1025, 4095, 4096})
    for (ReductionAlgorithm const algorithm :
         {ReductionAlgorithm::one_shot, ReductionAlgorithm::tree, ReductionAlgorithm::all_to_all,
          ReductionAlgorithm::ring, ReductionAlgorithm::scatter}) {
      CAPTURE(count);
      CAPTURE(name(algorithm));
      bool const tree = algorithm == ReductionAlgorithm::tree;  // of the others all ranks are alike
      std::int64_t sent = 0, received = 0, rounds = 0;
      for (int rank = tree ? 0 : count / 3; rank < (tree ? count : count / 3 + 1); ++rank) {
        auto const schedule = make_reduction_schedule(algorithm, rank, count);
        rounds = std::max(rounds, static_cast<std::int64_t>(schedule.rounds.size()));
        for (ScheduledRound const& round : schedule.rounds) {
          sent += std::ssize(round.sends);
          received += std::ssize(round.receives);
        }
      }
      Traffic const expected = traffic(algorithm, count, size);
      CHECK(sent * (tree ? 1 : count) == expected.messages);
      CHECK(received == sent);
      CHECK(rounds == expected.rounds);
    }
}

TEST_CASE("a tree of any number of ranks sends at most two messages of a rank in a round") {
  for (int count = 1; count <= 4096; count = count * 5 / 4 + 1)
    for (int rank = 0; rank < count; rank += 1 + count / 50) {
      auto const schedule = make_reduction_schedule(ReductionAlgorithm::tree, rank, count);
      CHECK(static_cast<int>(schedule.rounds.size()) == halvings(count));
      for (ScheduledRound const& round : schedule.rounds) {
        CHECK(round.sends.size() <= 2);
        CHECK(round.receives.size() <= 1);
      }
    }
}

TEST_CASE("the price decides: rounds where messages are short, bytes where they are long") {
  LinkCosts const link{.latency = 2, .rate = 10e3};
  CHECK(price(ReductionAlgorithm::tree, 8, {0, 64}, {2, 10e3, 0}) == 6);
  CHECK(price(ReductionAlgorithm::tree, 8, {0, 64}, {2, 10e3, 1}) == 9);
  CHECK(cheapest(8, {1, 128}, link) == ReductionAlgorithm::one_shot);
  CHECK(cheapest(8, {1 << 10, 128}, link) != ReductionAlgorithm::one_shot);
  CHECK(cheapest(8, {1 << 20, 128}, link) == ReductionAlgorithm::all_to_all);
  CHECK(cheapest(1024, {32, 128}, link) == ReductionAlgorithm::tree);
  // Of three nodes two levels merge otherwise than the tree over ranks, of four alike.
  LinkCosts const far{.latency = 20, .rate = 1e3, .message = 0.1};
  for (int const nodes : {3, 4}) {
    Topology const topology{8 * nodes, 8, link, far};
    CHECK(cheapest(topology, {64, 128}) == ReductionAlgorithm::two_level);
    CHECK((cheapest(topology, {64, 128}, Reproducibility::across_algorithms) ==
           ReductionAlgorithm::two_level) == (nodes == 4));
  }
}

TEST_CASE("a rank that is none of the ranks is refused") {
  CHECK_THROWS_WITH_AS(
      make_reduction_schedule(ReductionAlgorithm::ring, 3, 3),
      "fasttree::make_reduction_schedule: rank: expected 0 or more, below 3, found 3", Error);
  CHECK_THROWS_WITH_AS(
      make_reduction_schedule(ReductionAlgorithm::ring, 0, 0),
      "fasttree::make_reduction_schedule: ranks: expected a positive number, found 0", Error);
}
