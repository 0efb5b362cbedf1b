// SPDX-License-Identifier: Apache-2.0
// Attention over ranks that are processes: forests in shards of every kind, against the oracle of
// the whole tree; the same bits on all ranks; and what MPI was really asked to send.

#include <fasttree/comm/mpi_device_communicator.hpp>
#include <fasttree/distributed_attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/fixed_shards.hpp"
#include "support/mpi_ranks.hpp"
#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

constexpr int calls = 2;

/// All ranks call it alike; a rank has no keys but its own.
template <class Comm, class P, class Policy>
void agrees(Comm& communicator, P const& problem, Policy const& policy, ReductionMethod method) {
  CAPTURE(communicator.rank());
  CAPTURE(name(method.algorithm));
  CAPTURE(name(method.payload));
  int const rank = communicator.rank(), ranks = communicator.size();
  P const local = shard_problem(problem, policy, {rank, ranks});
  auto const held = contiguous_cache(local, rank % 2 == 1, rank % 3);
  Arrays<float, LogBase::e, P> const array(problem, Layout<3>{{1, 0, 2}, rank % 2},
                                           Layout<2>{{1, 0}, rank % 2});
  MpiCounts const counts;
  attend(communicator, local, held.cache, array, method, calls);
  Traffic const counted = counts.of_all_ranks();
  int const ranks_per_node = communicator.topology().ranks_per_node;
  auto result = array.read();
  result.weight_roundoff =
      DefaultBackend<Space, typename P::Shape>::template weight_roundoff<typename P::Shape> +
      payload_roundoff(method, ranks, ranks_per_node);
  CHECK(worst_error(problem, result) <= 1);
  CHECK(same_on_all_ranks(result.outputs));
  CHECK(same_on_all_ranks(result.log_sum_exps));
  if constexpr (CommunicatorOn<Comm, Space>) return;  // plans send messages of their own
  std::int64_t const queries = problem.tree.queries();
  ReductionSize const size{queries * problem.shape.query_heads, P::Shape::value_dim,
                           method.payload};
  Traffic const expected = traffic(method.algorithm, ranks, size, ranks_per_node);
  int const times = queries > 0 ? calls : 0;
  CHECK(counted ==
        Traffic{times * expected.rounds, times * expected.messages, times * expected.bytes});
}

}  // namespace

TEST_CASE("random forests, every algorithm and kind of shard") {
  using Shape = AttentionShape<float, 16>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  std::uint64_t seed = 100;
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (int i = 0; i < 3; ++i) {
      ++seed;
      CAPTURE(seed);
      Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                   Shape{.query_heads = 4, .kv_heads = 2}, seed);
      agrees(communicator, problem, ContiguousShards{}, algorithm);
      std::vector<int> shares(communicator.size(), 0);  // the last has four fifths, some have none
      shares.back() = 4;
      shares[communicator.size() / 2] += 1;
      agrees(communicator, problem, ContiguousShards{shares}, algorithm);
      agrees(communicator, problem, InterleavedShards{1 + static_cast<int>(seed) % 9}, algorithm);
      agrees(communicator, problem, InterleavedShards{1000}, algorithm);
    }
}

TEST_CASE("messages too long for MPI to send at once") {
  using Shape = AttentionShape<fasttree::half, 64>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  Problem<Shape> const problem(level_forest({1, 40}, {90, 7}),
                               Shape{.query_heads = 16, .kv_heads = 4});
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    agrees(communicator, problem, InterleavedShards{16}, algorithm);
}

TEST_CASE("partial results sent in 16 bits") {
  using Shape = AttentionShape<float, 16, 24>;
  for (int ranks_per_node = 1; ranks_per_node <= 2; ++ranks_per_node) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % ranks_per_node != 0) continue;
    MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline, {.ranks_per_node = ranks_per_node});
    Problem<Shape> const problem(decoding_forest(8, {10, 60, 12, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2});
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
      for (Payload const payload : {Payload::fp16, Payload::bf16})
        agrees(communicator, problem, InterleavedShards{4}, {algorithm, payload});
  }
}

TEST_CASE("memory of the space given to MPI as it is, where MPI says that it moves it") {
  using Shape = AttentionShape<float, 16>;
  using Device = MpiDeviceCommunicator<Space>;
  if (!detail::mpi_says_that_it_moves<Space>()) {
    CHECK_THROWS_WITH_AS(
        Device(MPI_COMM_WORLD, long_deadline),
        (std::string("fasttree::MpiDeviceCommunicator: MPI: expected one that says it moves memory "
                     "of ") +
         Space::name() +
         ", found one that does not: use MpiCommunicator, which moves it by way of the host")
            .c_str(),
        Error);
    return;
  }
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int ranks_per_node = 1; ranks_per_node <= 2; ++ranks_per_node) {
    if (ranks % ranks_per_node != 0) continue;
    Device communicator(MPI_COMM_WORLD, long_deadline, {.ranks_per_node = ranks_per_node});
    std::vector<int> shares(ranks, 0);  // of several ranks the first has no keys
    shares.back() = 1;
    Problem<Shape> const problem(decoding_forest(5, {10, 60, 12, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2});
    // Too long for MPI to send at once.
    Problem<Shape> const long_one(level_forest({1, 700}, {90, 3}), Shape{.query_heads = 4});
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
      for (Payload const payload : {Payload::fp32, Payload::bf16})
        agrees(communicator, problem, InterleavedShards{4}, {algorithm, payload});
      agrees(communicator, problem, ContiguousShards{shares}, algorithm);
      agrees(communicator, long_one, InterleavedShards{16}, algorithm);
    }
  }
}

TEST_CASE("two levels, of nodes as they are given") {
  using Shape = AttentionShape<float, 16>;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int ranks_per_node = 1; ranks_per_node <= ranks; ++ranks_per_node) {
    if (ranks % ranks_per_node != 0) {
      CHECK_THROWS_AS(
          MpiCommunicator(MPI_COMM_WORLD, long_deadline, {.ranks_per_node = ranks_per_node}),
          Error);
      continue;
    }
    MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline, {.ranks_per_node = ranks_per_node});
    Problem<Shape> const problem(decoding_forest(ranks_per_node, {10, 60, 12, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2});
    agrees(communicator, problem, InterleavedShards{8}, ReductionAlgorithm::two_level);
    agrees(communicator, problem, InterleavedShards{8}, ReductionAlgorithm::two_level_tree);
  }
}

TEST_CASE("results that lie elsewhere: a rank's heads, and all of it on rank 0") {
  using Shape = AttentionShape<float, 16>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  int const rank = communicator.rank(), ranks = communicator.size(), heads = 6;
  Problem<Shape> const problem(level_forest({1, 9}, {30, 5}), Shape{.query_heads = heads});
  auto const local = shard_problem(problem, InterleavedShards{2}, {rank, ranks});
  auto const held = contiguous_cache(local);
  auto const attended = [&](ReductionAlgorithm algorithm) {
    Arrays<float, LogBase::e, Problem<Shape>> const array(problem);
    MpiCounts const counts;
    attend(communicator, local, held.cache, array, algorithm, 1);
    CHECK(counts.of_all_ranks() == traffic(algorithm, ranks, {9 * heads, 16}));
    return array.read().outputs;
  };
  auto const whole = attended(ReductionAlgorithm::tree);
  auto const scattered = attended(ReductionAlgorithm::scatter);
  auto const on_rank_0 = attended(ReductionAlgorithm::on_rank_0);
  bool right = true;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    int const head = static_cast<int>(i) / 16 % heads;
    bool const mine = head >= heads * rank / ranks && head < heads * (rank + 1) / ranks;
    right = right && (mine ? scattered[i] == whole[i] : scattered[i] != scattered[i]);
    right = right && (rank == 0 ? on_rank_0[i] == whole[i] : on_rank_0[i] != on_rank_0[i]);
  }
  CHECK(right);
}

TEST_CASE("fixed shards: the bits of one rank, by every algorithm that is let pass") {
  using Shape = AttentionShape<float, 16>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  has_the_bits_of_one_rank(
      Problem<Shape>(level_forest({1, 12}, {200, 9}), Shape{.query_heads = 8, .kv_heads = 2}),
      communicator);
}

TEST_CASE("the cheapest algorithm is the same on all ranks") {
  using Shape = AttentionShape<float, 16>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline,
                               {.within = {.latency = 5, .rate = 2e3}});
  Problem<Shape> const problem(level_forest({1, 3}, {20, 5}), Shape{.query_heads = 2});
  ShardOf const me{communicator.rank(), communicator.size()};
  auto const plan = make_distributed_plan(
      Space{}, communicator, shard_tree(problem.tree, ContiguousShards{}, me), problem.shape);
  CHECK(communicator.topology().nodes() == 1);  // these tests run on one machine
  CHECK(plan.reduction.algorithm() ==
        cheapest(communicator.size(), {6, 16}, {.latency = 5, .rate = 2e3}));
}
