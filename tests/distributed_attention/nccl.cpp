// SPDX-License-Identifier: Apache-2.0
// Attention over ranks with a GPU each, by NCCL: forests in shards of every kind, against the oracle
// of the whole tree; the same bits on all ranks and by all algorithms that merge alike; graphs, and
// epochs that begin anew; and a rank that stays away.

#include <fasttree/distributed_attention.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/fixed_shards.hpp"
#include "support/mpi_ranks.hpp"
#include "support/nccl_ranks.hpp"
#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

template <class P>
double worst_error_of(P const& problem, Result<float> result, double payload_roundoff = 0) {
  result.weight_roundoff =
      DefaultBackend<Space, typename P::Shape>::template weight_roundoff<typename P::Shape> +
      payload_roundoff;
  return worst_error(problem, result);
}

/// All ranks call it alike; a rank has no keys but its own.
template <class P, class Policy>
void agrees(NcclCommunicator& communicator, P const& problem, Policy const& policy,
            ReductionMethod method) {
  CAPTURE(communicator.rank());
  CAPTURE(name(method.algorithm));
  CAPTURE(name(method.payload));
  int const rank = communicator.rank(), ranks = communicator.size();
  P const local = shard_problem(problem, policy, {rank, ranks});
  auto const held = contiguous_cache(local, rank % 2 == 1, rank % 3);
  Arrays<float, LogBase::e, P> const array(problem, Layout<3>{{1, 0, 2}, rank % 2},
                                           Layout<2>{{1, 0}, rank % 2});
  attend(communicator, local, held.cache, array, method, 3);
  auto const result = array.read();
  int const ranks_per_node = communicator.topology().ranks_per_node;
  CHECK(worst_error_of(problem, result, payload_roundoff(method, ranks, ranks_per_node)) <= 1);
  CHECK(same_on_all_ranks(result.outputs));
  CHECK(same_on_all_ranks(result.log_sum_exps));
}

/// Of communicators that a rank stays away from; NCCL takes a second to make one.
constexpr auto deadline = 3000ms;
constexpr char const* found_none = ": expected a message within 3.000000 s, found none";

/// The text of the error that something ends with.
template <class Body>
std::string refused(Body const& body) {
  try {
    body();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

/// A problem on this rank, planned, with queries that can be exchanged.
struct Planned {
  using Shape = AttentionShape<fasttree::half, 128>;
  using P = Problem<Shape>;

  Kokkos::Cuda space;
  NcclCommunicator& communicator;
  P problem, local;
  decltype(contiguous_cache(local)) held;
  Arrays<float, LogBase::e, P> array;
  DistributedPlan<Space, Shape, DefaultBackend<Space, Shape>, NcclCommunicator> plan;
  Workspace<Space> workspace;

  Planned(Kokkos::Cuda const& on, NcclCommunicator& by, Forest const& forest,
          ReductionMethod method)
      : space(on),
        communicator(by),
        problem(forest, Shape{.query_heads = 8, .kv_heads = 2}),
        local(shard_problem(problem, InterleavedShards{4}, {by.rank(), by.size()})),
        held(contiguous_cache(local)),
        array(problem),
        plan(make_distributed_plan(space, communicator, local.tree, local.shape, method)),
        workspace(make_workspace(space, plan.attention)) {}

  /// Queries that differ from seed to seed.
  void ask(std::uint64_t seed) const {
    Random random(seed);
    array.queries.write([&](auto) { return fasttree::half(random.real(2)); });
    Kokkos::fence();
  }
  void call() {
    distributed_attention(space, communicator, plan, array.queries, held.cache, array.outputs,
                          array.log_sum_exps, workspace);
  }

  /// Whether a graph gives what calls give for the same queries: it is replayed with others so many
  /// times, `most_launches` at most without a wait between them.
  bool replays(int times, int most_launches) {
    std::vector<std::vector<float>> expected;
    for (int i = 0; i < 3; ++i) {
      ask(i);
      call();
      communicator.wait(space);
      expected.push_back(array.read().outputs);
    }
    Graph const graph(space, [&] { call(); });
    bool right = true;
    for (int i = 0; i < times; ++i) {
      ask(i % 3);
      for (int k = 0; k <= i % most_launches; ++k) graph.launch();
      communicator.wait(space);
      right = right && same_bits(array.read().outputs, expected[i % 3]);
    }
    return right;
  }
};

}  // namespace

TEST_CASE("random forests, every algorithm and kind of shard") {
  using Shape = AttentionShape<float, 16>;
  auto communicator = nccl_communicator();
  CHECK(communicator.topology().nodes() == 1);  // these tests run on one machine
  CHECK(communicator.reaches_all() == (communicator.size() > 1));
  std::uint64_t seed = 100;
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (int i = 0; i < 2; ++i) {
      ++seed;
      CAPTURE(seed);
      Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                   Shape{.query_heads = 4, .kv_heads = 2}, seed);
      agrees(communicator, problem, ContiguousShards{}, algorithm);
      std::vector<int> shares(communicator.size(), 0);  // of several the first has none
      shares.back() = 1;
      agrees(communicator, problem, ContiguousShards{shares}, algorithm);
      agrees(communicator, problem, InterleavedShards{1 + static_cast<int>(seed) % 9}, algorithm);
    }
}

TEST_CASE("heads of tensor cores, more rows than run at once") {
  using Shape = AttentionShape<fasttree::half, 128>;
  auto communicator = nccl_communicator();
  Problem<Shape> const problem(level_forest({1, 150}, {90, 7}),
                               Shape{.query_heads = 32, .kv_heads = 8});
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    agrees(communicator, problem, InterleavedShards{16}, algorithm);
}

TEST_CASE("a tree without requests") {
  using Shape = AttentionShape<float, 16>;
  auto communicator = nccl_communicator();
  Forest forest = level_forest({1, 3}, {30, 5});
  forest.requests.clear();
  Problem<Shape> const problem(forest, Shape{.query_heads = 4});
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    agrees(communicator, problem, ContiguousShards{}, algorithm);
}

TEST_CASE("one_shot, tree and all_to_all give the same bits") {
  auto communicator = nccl_communicator();
  auto const results_by = [&](ReductionAlgorithm algorithm) {
    Planned planned(Space{}, communicator, level_forest({1, 30}, {50, 9}), algorithm);
    planned.ask(7);
    planned.call();
    communicator.wait(planned.space);
    return planned.array.read();
  };
  auto const tree = results_by(ReductionAlgorithm::tree);
  for (auto const other : {ReductionAlgorithm::one_shot, ReductionAlgorithm::all_to_all}) {
    auto const result = results_by(other);
    CHECK(same_bits(result.outputs, tree.outputs));
    CHECK(same_bits(result.log_sum_exps, tree.log_sum_exps));
  }
}

TEST_CASE("partial results sent in 16 bits, and the same bits by stores and by messages") {
  auto communicator = nccl_communicator();
  int const rank = communicator.rank(), ranks = communicator.size();
  for (Payload const payload : {Payload::fp16, Payload::bf16}) {
    using Small = AttentionShape<float, 16, 24>;
    Problem<Small> const small(decoding_forest(8, {10, 60, 12, 2}),
                               Small{.query_heads = 4, .kv_heads = 2});
    using Large = AttentionShape<fasttree::half, 128>;
    Problem<Large> const large(level_forest({1, 150}, {90, 7}),
                               Large{.query_heads = 32, .kv_heads = 8});
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
      agrees(communicator, small, InterleavedShards{4}, {algorithm, payload});
      agrees(communicator, large, InterleavedShards{16}, {algorithm, payload});
    }
    auto const results_by = [&](ReductionMethod method) {
      Planned planned(Space{}, communicator, level_forest({1, 30}, {50, 9}), method);
      planned.ask(7);
      planned.call();
      communicator.wait(planned.space);
      return planned.array.read().outputs;
    };
    auto const floats = results_by(ReductionAlgorithm::one_shot);
    auto const pushed = results_by({ReductionAlgorithm::one_shot, payload});
    auto const scattered = results_by({ReductionAlgorithm::scatter, payload});
    bool same = true;
    for (std::size_t i = 0; i < pushed.size(); ++i) {
      int const head = static_cast<int>(i) / 128 % 8;
      bool const mine = head >= 8 * rank / ranks && head < 8 * (rank + 1) / ranks;
      same = same && (!mine || pushed[i] == scattered[i]);
    }
    CHECK(same);
    CHECK(same_bits(pushed, floats) == (ranks == 1));  // it is really sent in 16 bits
  }
}

TEST_CASE("fixed shards: the bits of one rank, by every algorithm that is let pass") {
  using Shape = AttentionShape<fasttree::half, 128>;
  auto communicator = nccl_communicator();
  has_the_bits_of_one_rank(
      Problem<Shape>(level_forest({1, 12}, {200, 9}), Shape{.query_heads = 8, .kv_heads = 2}),
      communicator);
}

TEST_CASE("a graph of every algorithm, replayed with other queries") {
  auto const space = new_stream();
  auto communicator = nccl_communicator(space);
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (Payload const payload : {Payload::fp32, Payload::bf16}) {
      CAPTURE(name(algorithm));
      CAPTURE(name(payload));
      Planned planned(space, communicator, level_forest({1, 5}, {70, 9}), {algorithm, payload});
      CHECK(planned.replays(12, 1));
    }
}

TEST_CASE("pushed rows: one kernel, many replays without a wait, epochs that begin anew") {
  auto const space = new_stream();
  // The last is the 20th: 2^32 - 1.
  auto communicator =
      nccl_communicator(space, nccl_deadline, {.first_epoch = PushedRows::last_epoch - 19});
  if (!communicator.reaches_all()) return;
  Planned planned(space, communicator, level_forest({1, 40}, {70, 9}),
                  ReductionAlgorithm::one_shot);
  int const heads = planned.problem.shape.query_heads;
  Results<float, LogBase::e> const results{strided<Space, 3>(planned.array.outputs),
                                           strided<Space, 2>(planned.array.log_sum_exps)};
  Graph const reduction(
      space, [&] { reduce_shards(space, communicator, planned.plan.reduction, 40, results); });
  CHECK(reduction.nodes() == 1);
  CHECK(planned.replays(60, 4));
  bool right = true;
  // Fewer rows than were planned for, then all of them again.
  for (int const queries : {1, 17, 40, 3, 40}) {
    Results<float, LogBase::e> some = results;
    auto const outputs = planned.plan.reduction.outputs(queries);
    auto const log_sum_exps = planned.plan.reduction.log_sum_exps(queries);
    float const mine = static_cast<float>(communicator.rank());
    for (int i = 0; i < 30; ++i) {
      Kokkos::parallel_for(
          Kokkos::RangePolicy<Space>(space, 0, queries * heads), KOKKOS_LAMBDA(int row) {
            log_sum_exps(row / heads, row % heads).value = 0.f;
            for (int d = 0; d < 128; ++d)
              outputs(row / heads, row % heads, d) = mine + static_cast<float>(row + i);
          });
      reduce_shards(space, communicator, planned.plan.reduction, queries, some);
      communicator.wait(space);
      auto const found = planned.array.read().outputs;
      float const mean = static_cast<float>(communicator.size() - 1) / 2;
      for (int row = 0; row < queries * heads; ++row)
        for (int d = 0; d < 128; ++d) {
          float const exact = mean + static_cast<float>(row + i);
          right = right && std::abs(found[row * 128 + d] - exact) <= 0x1p-21f * exact;
        }
    }
  }
  CHECK(right);
}

TEST_CASE("a rank that stays away is an error on the others, within the deadline + 10 %") {
  for (auto const algorithm : {ReductionAlgorithm::one_shot, ReductionAlgorithm::tree}) {
    CAPTURE(name(algorithm));
    auto const space = new_stream();
    auto communicator = nccl_communicator(space, deadline);
    if (communicator.size() == 1) return;
    Planned planned(space, communicator, level_forest({1, 5}, {70, 9}), algorithm);
    planned.call();
    communicator.wait(space);
    MPI_Barrier(MPI_COMM_WORLD);
    // Rank 0 comes when the others have given up, and waits in vain when it has got what they sent.
    int const rank = communicator.rank(), missing = rank == 0 ? 1 : 0;
    if (rank == 0) std::this_thread::sleep_for(2 * deadline);
    Graph const graph(space, [&] { planned.call(); });
    std::string error;
    Clock::duration took{};
    for (int i = 0; i < (rank == 0 ? 20 : 1) && error.empty(); ++i) {
      auto const begin = Clock::now();
      error = refused([&] {
        for (int k = 0; k < 5; ++k) graph.launch();  // each of which would wait
        communicator.wait(space);
      });
      took = Clock::now() - begin;
    }
    MESSAGE(error << " after " << std::chrono::duration<double>(took).count() << " s");
    bool const pushed = algorithm == ReductionAlgorithm::one_shot;
    std::string const whom = pushed ? "rank " + std::to_string(missing) : "a rank";
    CHECK(error == "fasttree::NcclCommunicator: " + whom + found_none);
    CHECK(took < deadline * 11 / 10);
    CHECK(took > deadline * 9 / 10);
    CHECK(refused([&] { planned.call(); }) == error);
    CHECK(cudaStreamSynchronize(space.cuda_stream()) == cudaSuccess);  // no kernel waits for ever
    MPI_Barrier(MPI_COMM_WORLD);
  }
  auto communicator = nccl_communicator();  // others are made as before
  Planned planned(Space{}, communicator, level_forest({1, 5}, {70, 9}),
                  ReductionAlgorithm::one_shot);
  planned.call();
  communicator.wait(planned.space);
}

TEST_CASE("a rank that stays away from a collective call is an error on the others") {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) return;
  auto const is_late = [&](std::string const& whom, auto const& body) {
    auto const begin = Clock::now();
    CHECK(refused(body) == "fasttree::NcclCommunicator: " + whom + found_none);
    CHECK(Clock::now() - begin < deadline * 11 / 10);
  };
  {
    auto communicator = nccl_communicator({}, deadline);
    communicator.plan({1, 100, 1});  // all do
    if (rank != 0) is_late("a rank", [&] { communicator.plan({1, 100, 1}); });
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ncclUniqueId id{};
  if (rank == 0) id = make_nccl_id();
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0)
    is_late("every rank", [&] { NcclCommunicator const alone({}, id, rank, ranks, deadline); });
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("what is refused, and what ranks disagree about") {
  CHECK(refused([] { nccl_communicator({}, 0s); }) ==
        "fasttree::NcclCommunicator: deadline: expected a positive time, found 0");
  CHECK(refused([] { NcclCommunicator({}, {}, 1, 1, 1s); }) ==
        "fasttree::NcclCommunicator: rank: expected 0 or more, below 1, found 1");
  auto communicator = nccl_communicator();
  if (communicator.size() == 1) return;
  std::size_t const bytes = communicator.rank() == 0 ? 100 : 101;
  CHECK(refused([&] {
          communicator.plan({1, bytes, 1});
        }) == "fasttree::NcclCommunicator: window of a rank: expected 1 slots of " +
                  std::to_string(bytes) + " bytes for purpose 0, as here, found another");
}
