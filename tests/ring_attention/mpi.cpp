// SPDX-License-Identifier: Apache-2.0
// Attention by rings of ranks that are processes, against the oracle of the whole tree; and what
// MPI was really asked to send.

#include <fasttree/ring_attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/mpi_ranks.hpp"
#include "support/rings.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

constexpr int calls = 2;

/// Of one call.
Traffic counted(MpiCounts const& counts) {
  Traffic const all = counts.of_all_ranks();
  return {all.rounds / calls, all.messages / calls, all.bytes / calls};
}

/// All ranks call it alike; a rank has no keys but its own.
template <class P, class Shards>
void agrees(MpiCommunicator& communicator, P const& problem, Shards const& shards,
            std::int64_t message_bytes = 1 << 20) {
  int const rank = communicator.rank(), ranks = communicator.size();
  CAPTURE(rank);
  P local = shard_problem(problem, shards, {rank, ranks});
  auto const held = contiguous_cache(local, rank % 2 == 1, rank % 3);
  bool const any = problem.tree.queries() > 0;
  {
    Arrays<float, LogBase::e, P> const array(problem);
    MpiCounts const counts;
    auto const messages =
        attend_pass_kv(communicator, problem, shards, held.cache, array, calls, message_bytes);
    auto const moved = counted(counts);
    CHECK(worst_output_error(problem, array.outputs.read()) <= 1);
    CHECK(moved == (any ? pass_kv_traffic(ranks, ring_size(problem, messages)) : Traffic{}));
  }
  Heads const heads = Heads::of(problem.shape.query_heads, rank, ranks);
  keep_queries_of(local, heads);
  Arrays<float, LogBase::e, P> const array(local);
  MpiCounts const counts;
  attend_pass_q(communicator, local, held.cache, array, calls);
  auto const moved = counted(counts);
  CHECK(moved == (any ? expected_pass_q(problem, ranks) : Traffic{}));
  auto const outputs = array.outputs.read();
  std::vector<float> mine(outputs.size()), whole(outputs.size());
  CHECK(collect_outputs(problem, outputs, heads, mine));
  MPI_Allreduce(mine.data(), whole.data(), static_cast<int>(whole.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);  // 0 but on one rank
  CHECK(worst_output_error(problem, whole) <= 1);
}

}  // namespace

TEST_CASE("random forests in every kind of shard") {
  using Shape = AttentionShape<float, 16>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  for (std::uint64_t seed = 200; seed < 212; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2}, seed);
    agrees(communicator, problem, ContiguousShards{});
    std::vector<int> shares(communicator.size(), 0);  // the last has four fifths, some have none
    shares.back() = 4;
    shares[communicator.size() / 2] += 1;
    agrees(communicator, problem, ContiguousShards{shares});
    agrees(communicator, problem, InterleavedShards{1 + static_cast<int>(seed) % 9}, 640);
    agrees(communicator, problem, InterleavedShards{1000});
  }
}

TEST_CASE("messages too long for MPI to send at once") {
  using Shape = AttentionShape<half, 64>;
  MpiCommunicator communicator(MPI_COMM_WORLD, long_deadline);
  Problem<Shape> const problem(level_forest({1, 40}, {900, 17}),
                               Shape{.query_heads = 16, .kv_heads = 4});
  agrees(communicator, problem, InterleavedShards{16});
  agrees(communicator, problem, InterleavedShards{16}, 1 << 17);
}
