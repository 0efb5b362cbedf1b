// SPDX-License-Identifier: Apache-2.0
// Attention over ranks: random forests in shards of every kind, against the oracle of the whole tree
// and against tree_attention of it; the same bits on all ranks.

#include <fasttree/distributed_attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <vector>

#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

template <class Written = float, class P, class Policy>
void agrees(P const& problem, Policy const& policy, int ranks, ReductionAlgorithm algorithm) {
  CAPTURE(ranks);
  CAPTURE(name(algorithm));
  auto const results = attend_on_ranks<Written>(problem, policy, ranks, algorithm, 2);
  CHECK(worst_error(problem, results[0]) <= 1);
  for (auto const& result : results) CHECK(same_bits(result, results[0]));
}

}  // namespace

TEST_CASE("random forests, every algorithm, any number of ranks") {
  using Shape = AttentionShape<float, 16>;
  std::uint64_t seed = 0;
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8})
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
      for (int i = 0; i < 3; ++i) {
        ++seed;
        CAPTURE(seed);
        Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                     Shape{.query_heads = 4, .kv_heads = 2}, seed);
        agrees(problem, ContiguousShards{}, ranks, algorithm);
        agrees(problem, InterleavedShards{1 + static_cast<int>(seed) % 9}, ranks, algorithm);
      }
}

TEST_CASE("uneven shares and ranks without keys") {
  using Shape = AttentionShape<half, 32, 24>;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(decoding_forest(seed, {8, 40, 9, 1}),
                                 Shape{.query_heads = 3, .kv_heads = 1}, seed);
    for (auto const& of : uneven_shares)
      agrees(problem, ContiguousShards{of}, 5,
             all_reduction_algorithms[seed % std::size(all_reduction_algorithms)]);
    agrees<half>(problem, InterleavedShards{1000}, 4,
                 all_reduction_algorithms[seed % std::size(all_reduction_algorithms)]);
  }
}

TEST_CASE("a long sequence, and attention of one rank") {
  using Shape = AttentionShape<bfloat16, 64>;
  Forest forest;
  forest.parents = {-1};
  forest.lengths = {3000};
  forest.requests = {{0}};
  Problem<Shape> const problem(forest, Shape{.query_heads = 8, .kv_heads = 2});
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (int const ranks : {2, 3, 8}) agrees(problem, InterleavedShards{64}, ranks, algorithm);
  // Of one rank nothing is merged: the bits of tree_attention.
  auto const alone = attend_on_ranks(problem, ContiguousShards{}, 1, ReductionAlgorithm::tree);
  Space const space{};
  auto const cache = contiguous_cache(problem);
  auto const plan = make_plan(space, problem.tree, problem.shape);
  auto const workspace = make_workspace(space, plan);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  tree_attention(space, plan, arrays.queries, cache.cache, arrays.outputs, arrays.log_sum_exps,
                 workspace);
  CHECK(same_bits(alone[0], arrays.read()));
}

TEST_CASE("partial results sent in 16 bits") {
  using Shape = AttentionShape<float, 16>;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    CAPTURE(seed);
    Problem<Shape> const problem(decoding_forest(seed, {10, 60, 12, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2}, seed);
    int const ranks = 2 + static_cast<int>(seed) % 5;
    auto const algorithm = all_reduction_algorithms[seed % std::size(all_reduction_algorithms)];
    ReductionMethod const method{algorithm, seed % 3 == 0 ? Payload::bf16 : Payload::fp16};
    auto results = attend_on_ranks(problem, InterleavedShards{4}, ranks, method, 2);
    results[0].weight_roundoff = payload_roundoff(method, ranks, ranks);
    CHECK(worst_error(problem, results[0]) <= 1);
    for (auto const& result : results) CHECK(same_bits(result, results[0]));
  }
}

TEST_CASE("no request at all") {
  using Shape = AttentionShape<float, 16>;
  Forest forest = random_forest(3);
  forest.requests.clear();
  Problem<Shape> const problem(forest, Shape{});
  auto const results = attend_on_ranks(problem, ContiguousShards{}, 3, ReductionAlgorithm::ring);
  for (auto const& result : results) CHECK(result.outputs.empty());
}

TEST_CASE("the plan of fewer requests into the memory of one of more") {
  using Shape = AttentionShape<float, 16>;
  Forest const large = level_forest({1, 6}, {50, 20}), small = level_forest({1, 4}, {31, 9});
  Problem<Shape> const before(large, Shape{.query_heads = 2}),
      after(small, Shape{.query_heads = 2});
  constexpr int ranks = 3;
  std::vector<Problem<Shape>> locals;
  for (int rank = 0; rank < ranks; ++rank)
    locals.push_back(shard_problem(after, ContiguousShards{}, {rank, ranks}));
  std::vector<decltype(contiguous_cache(after))> caches;
  std::vector<Arrays<float, LogBase::e, Problem<Shape>>> arrays;
  for (auto const& local : locals) {
    caches.push_back(contiguous_cache(local));
    arrays.emplace_back(local);
  }
  run_in_process(Space{}, ranks, long_deadline, [&](InProcessCommunicator& communicator) {
    Space const space{};
    int const rank = communicator.rank();
    auto plan = make_distributed_plan(space, communicator,
                                      shard_tree(before.tree, ContiguousShards{}, {rank, ranks}),
                                      before.shape);
    make_plan_into(space, locals[rank].tree, plan.attention);
    auto const workspace = make_workspace(space, plan.attention);
    distributed_attention(space, communicator, plan, arrays[rank].queries, caches[rank].cache,
                          arrays[rank].outputs, arrays[rank].log_sum_exps, workspace);
  });
  for (auto const& array : arrays) CHECK(worst_error(after, array.read()) <= 1);
}
