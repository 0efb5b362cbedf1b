// SPDX-License-Identifier: Apache-2.0
// Attention by rings of ranks that are threads: random forests in shards of every kind against the
// oracle of the whole tree, what was really moved, and what memory a ring of K,V takes beside the
// tree reduction.

#include <fasttree/ring_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/ring_memory.hpp"
#include "support/rings.hpp"
#include "support/second_call.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

constexpr int calls = 2;

/// Of the counts of ranks that called so often.
Traffic sum_of_calls(std::vector<Traffic> const& moved) {
  Traffic sum;
  for (Traffic const& one : moved) {
    sum.rounds = std::max(sum.rounds, one.rounds);
    sum.messages += one.messages;
    sum.bytes += one.bytes;
  }
  CHECK(sum.rounds % calls == 0);
  return {sum.rounds / calls, sum.messages / calls, sum.bytes / calls};
}

template <class P>
struct OfRanks {
  std::vector<P> locals;
  std::vector<decltype(contiguous_cache(std::declval<P>()))> caches;

  template <class Shards>
  OfRanks(P const& problem, Shards const& shards, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      locals.push_back(shard_problem(problem, shards, {rank, ranks}));
      caches.push_back(contiguous_cache(locals.back(), rank % 2 == 1, rank % 3));
    }
  }
};

template <class Written = float, class P, class Shards>
void pass_kv_agrees(P const& problem, Shards const& shards, int ranks,
                    std::int64_t message_bytes = 1 << 20) {
  CAPTURE(ranks);
  CAPTURE(message_bytes);
  OfRanks<P> const of(problem, shards, ranks);
  std::vector<Arrays<Written, LogBase::e, P>> arrays;
  for (int rank = 0; rank < ranks; ++rank)
    arrays.emplace_back(problem, Layout<3>{{1, 0, 2}, rank % 2});
  std::vector<Traffic> moved(ranks);
  std::vector<std::int64_t> messages(ranks);
  run_in_process(Space{}, ranks, long_deadline, [&](InProcessCommunicator& communicator) {
    int const rank = communicator.rank();
    messages[rank] = attend_pass_kv(communicator, problem, shards, of.caches[rank].cache,
                                    arrays[rank], calls, message_bytes);
    moved[rank] = communicator.traffic();
  });
  for (auto const& array : arrays) CHECK(worst_output_error(problem, array.outputs.read()) <= 1);
  if (problem.tree.queries() > 0)
    CHECK(sum_of_calls(moved) == pass_kv_traffic(ranks, ring_size(problem, messages[0])));
}

template <class P, class Shards>
void pass_q_agrees(P const& problem, Shards const& shards, int ranks) {
  CAPTURE(ranks);
  OfRanks<P> of(problem, shards, ranks);
  std::vector<Arrays<float, LogBase::e, P>> arrays;
  int const heads = problem.shape.query_heads;
  for (int rank = 0; rank < ranks; ++rank) {
    keep_queries_of(of.locals[rank], Heads::of(heads, rank, ranks));
    arrays.emplace_back(of.locals[rank], Layout<3>{{1, 0, 2}, rank % 2});
  }
  std::vector<Traffic> moved(ranks);
  run_in_process(Space{}, ranks, long_deadline, [&](InProcessCommunicator& communicator) {
    int const rank = communicator.rank();
    attend_pass_q(communicator, of.locals[rank], of.caches[rank].cache, arrays[rank], calls);
    moved[rank] = communicator.traffic();
  });
  std::vector<float> whole(arrays[0].outputs.read().size());
  for (int rank = 0; rank < ranks; ++rank)
    CHECK(collect_outputs(problem, arrays[rank].outputs.read(), Heads::of(heads, rank, ranks),
                          whole));
  CHECK(worst_output_error(problem, whole) <= 1);
  if (problem.tree.queries() > 0) CHECK(sum_of_calls(moved) == expected_pass_q(problem, ranks));
}

}  // namespace

TEST_CASE("random forests, any number of ranks") {
  using Shape = AttentionShape<float, 16>;
  std::uint64_t seed = 0;
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8})
    for (int i = 0; i < 6; ++i) {
      ++seed;
      CAPTURE(seed);
      Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                   Shape{.query_heads = 4, .kv_heads = 2}, seed);
      InterleavedShards const interleaved{1 + static_cast<int>(seed) % 9};
      pass_kv_agrees(problem, ContiguousShards{}, ranks);
      pass_kv_agrees(problem, interleaved, ranks);
      pass_kv_agrees(problem, interleaved, ranks, 64 * (1 + static_cast<int>(seed) % 30));
      pass_q_agrees(problem, ContiguousShards{}, ranks);
      pass_q_agrees(problem, interleaved, ranks);
    }
}

TEST_CASE("uneven shares and ranks without keys") {
  using Shape = AttentionShape<half, 32, 24>;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(decoding_forest(seed, {8, 40, 9, 1}),
                                 Shape{.query_heads = 3, .kv_heads = 1}, seed);
    for (auto const& of : uneven_shares) {
      pass_kv_agrees<half>(problem, ContiguousShards{of}, 5, 640);
      pass_q_agrees(problem, ContiguousShards{of}, 5);
    }
    pass_kv_agrees(problem, InterleavedShards{1000}, 4);
  }
}

TEST_CASE("no request, and no key") {
  using Shape = AttentionShape<float, 16>;
  Forest forest = random_forest(3);
  forest.requests.clear();
  Problem<Shape> const no_request(forest, Shape{});
  pass_kv_agrees(no_request, ContiguousShards{}, 3);
  pass_q_agrees(no_request, ContiguousShards{}, 3);
  Forest empty;
  empty.parents = {-1};
  empty.lengths = {0};
  empty.requests = {{0}};
  Problem<Shape> const no_key(empty, Shape{.query_heads = 2});
  pass_kv_agrees(no_key, ContiguousShards{}, 3);
  pass_q_agrees(no_key, ContiguousShards{}, 3);
}

TEST_CASE("in a ring each rank has had what all have after ranks - 1 rounds") {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> had{rank};
      for (int i = 0; i < ranks - 1; ++i) {
        RingRound const round = ring_round(rank, ranks, i);
        CHECK(round.sent == had.back());
        CHECK(ring_round(round.next, ranks, i).received == round.sent);
        CHECK(ring_round(round.previous, ranks, i).next == rank);
        had.push_back(round.received);
      }
      std::ranges::sort(had);
      for (int i = 0; i < ranks; ++i) CHECK(had[i] == i);
    }
}

TEST_CASE(
    "a ring of K,V takes one shard more than the tree reduction, and in the end twice as much") {
  double above_two = 2;
  RingMemory const first = ring_memory(4, 1 << 10);
  for (int const t : {1 << 12, 1 << 14, 1 << 16}) {
    RingMemory const memory = ring_memory(4, t);
    // What else it takes does not depend on t.
    CHECK(memory.ring - memory.tree - memory.shards == first.ring - first.tree - first.shards);
    double const ratio = static_cast<double>(memory.shards + memory.ring) /
                         static_cast<double>(memory.shards + memory.tree);
    CHECK(std::abs(ratio - 2) < above_two);
    above_two = std::abs(ratio - 2) / 2;  // t has four times its size
  }
  CHECK(above_two < 0.01);
}

TEST_CASE("a ring does not allocate") {
  using Shape = AttentionShape<float, 16>;
  constexpr int ranks = 3;
  Problem<Shape> const problem(level_forest({1, 5}, {40, 12}), Shape{.query_heads = 4});
  OfRanks<Problem<Shape>> const of(problem, ContiguousShards{}, ranks);
  std::vector<Arrays<float, LogBase::e, Problem<Shape>>> arrays;
  for (int rank = 0; rank < ranks; ++rank) arrays.emplace_back(problem);
  Space const space{};
  auto const pass_kv = [&](InProcessCommunicator& communicator, auto const& call_twice) {
    int const rank = communicator.rank();
    auto plan = make_pass_kv_plan(space, communicator, problem.tree, ContiguousShards{},
                                  problem.shape, 1024);
    auto const workspace = make_workspace(space, plan);
    call_twice([&] {
      pass_kv_attention(space, communicator, plan, arrays[rank].queries, of.caches[rank].cache,
                        arrays[rank].outputs, workspace);
    });
  };
  CHECK(allocated_by_second_call(space, ranks, pass_kv) == 0);
  auto const pass_q = [&](InProcessCommunicator& communicator, auto const& call_twice) {
    int const rank = communicator.rank();
    auto plan = make_pass_q_plan(space, communicator, of.locals[rank].tree, problem.shape);
    auto const workspace = make_workspace(space, plan.distributed.attention);
    call_twice([&] {
      pass_q_attention(space, communicator, plan, arrays[rank].queries, of.caches[rank].cache,
                       arrays[rank].outputs, workspace);
    });
  };
  CHECK(allocated_by_second_call(space, ranks, pass_q) == 0);
}

TEST_CASE("a rank that leaves is an error on every other rank") {
  using Shape = AttentionShape<float, 16>;
  Problem<Shape> const problem(level_forest({1, 5}, {40, 12}), Shape{.query_heads = 2});
  constexpr int ranks = 5;
  OfRanks<Problem<Shape>> const of(problem, ContiguousShards{}, ranks);
  std::vector<Arrays<float, LogBase::e, Problem<Shape>>> arrays;
  for (int rank = 0; rank < ranks; ++rank) arrays.emplace_back(problem);
  std::atomic<int> failed = 0;
  auto const body = [&](InProcessCommunicator& communicator) {
    int const rank = communicator.rank();
    auto plan =
        make_pass_kv_plan(Space{}, communicator, problem.tree, ContiguousShards{}, problem.shape);
    auto const workspace = make_workspace(Space{}, plan);
    if (rank == 2) return;
    try {
      pass_kv_attention(Space{}, communicator, plan, arrays[rank].queries, of.caches[rank].cache,
                        arrays[rank].outputs, workspace);
    } catch (Error const&) {
      ++failed;
    }
  };
  run_in_process(Space{}, ranks, long_deadline, body);
  CHECK(failed == ranks - 1);
}

TEST_CASE("what is refused") {
  using Shape = AttentionShape<float, 16>;
  Problem<Shape> const problem(level_forest({1, 3}, {9, 4}), Shape{.query_heads = 2});
  Space const space{};
  SelfCommunicator communicator;
  CHECK_THROWS_WITH_AS(
      make_pass_kv_plan(space, communicator, problem.tree, ContiguousShards{}, problem.shape, 100),
      "fasttree::make_pass_kv_plan: message_bytes: expected a positive multiple of 64, found 100",
      Error);
  auto const held = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const array(problem);
  auto const wrong = make_array<float>(std::array<std::int64_t, 3>{3, 2, 8});
  auto pass_kv =
      make_pass_kv_plan(space, communicator, problem.tree, ContiguousShards{}, problem.shape);
  auto const of_kv = make_workspace(space, pass_kv);
  CHECK_THROWS_WITH_AS(
      pass_kv_attention(space, communicator, pass_kv, array.queries, held.cache, wrong, of_kv),
      "fasttree::pass_kv_attention: output.extent(2): expected 16, found 8", Error);
  Problem<Shape> const smaller(level_forest({1, 2}, {9, 4}), Shape{.query_heads = 2});
  auto const few = contiguous_cache(smaller);
  CHECK_THROWS_WITH_AS(pass_kv_attention(space, communicator, pass_kv, array.queries, few.cache,
                                         array.outputs, of_kv),
                       "fasttree::pass_kv_attention: cache.slots(): expected at least 21, found 17",
                       Error);
  auto pass_q = make_pass_q_plan(space, communicator, problem.tree, problem.shape);
  auto const of_q = make_workspace(space, pass_q.distributed.attention);
  CHECK_THROWS_WITH_AS(
      pass_q_attention(space, communicator, pass_q, wrong, held.cache, array.outputs, of_q),
      "fasttree::pass_q_attention: queries.extent(2): expected 16, found 8", Error);
}
