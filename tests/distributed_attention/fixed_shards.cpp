// SPDX-License-Identifier: Apache-2.0
// Shards whose number does not depend on that of ranks: the same bits for any number of these, by
// every algorithm that is let pass; against the oracle; and what is refused.

#include <fasttree/distributed_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

/// Results of all ranks.
template <class P, class Policy>
std::vector<Result<float>> attended(P const& problem, Policy const& policy, int count, int ranks,
                                    ReductionMethod method, int ranks_per_node = 0) {
  auto const held = caches_of_shards(problem, policy, count);
  std::vector<Arrays<float, LogBase::e, P>> arrays;
  for (int rank = 0; rank < ranks; ++rank) arrays.emplace_back(problem);
  run_in_process(
      Space{}, ranks, long_deadline,
      [&](InProcessCommunicator& communicator) {
        attend_in_shards(communicator, problem, policy, held, arrays[communicator.rank()], method,
                         2);
      },
      ranks_per_node);
  std::vector<Result<float>> results;
  for (auto const& array : arrays) results.push_back(array.read());
  return results;
}

}  // namespace

TEST_CASE("the same bits for any number of ranks, by every algorithm, in nodes of any size") {
  using Shape = AttentionShape<float, 16>;
  for (int const count : {8, 11}) {
    Problem<Shape> const problem(decoding_forest(count, {12, 90, 15, 2}),
                                 Shape{.query_heads = 4, .kv_heads = 2}, count);
    auto const one =
        attended(problem, InterleavedShards{4}, count, 1, ReductionAlgorithm::one_shot)[0];
    CHECK(worst_error(problem, one) <= 1);
    for (int ranks = 2; ranks <= count; ++ranks)
      for (int ranks_per_node = 1; ranks_per_node <= ranks; ++ranks_per_node) {
        if (ranks % ranks_per_node != 0) continue;
        for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
          if (!merges_by_tree(algorithm, {ranks, ranks_per_node})) continue;
          CAPTURE(count);
          CAPTURE(ranks);
          CAPTURE(ranks_per_node);
          CAPTURE(name(algorithm));
          for (auto const& result :
               attended(problem, InterleavedShards{4}, count, ranks, algorithm, ranks_per_node))
            CHECK(same_bits(result, one));
        }
      }
    // What they are for: with a shard for each rank, bits change with the number of ranks.
    int other_bits = 0;
    for (int ranks = 2; ranks <= count; ++ranks)
      other_bits += !same_bits(
          attend_on_ranks(problem, InterleavedShards{4}, ranks, ReductionAlgorithm::one_shot)[0],
          one);
    CHECK(other_bits >= count - 2);
  }
}

TEST_CASE("shards without keys, of 16 bits, and one for each rank") {
  using Shape = AttentionShape<half, 32, 24>;
  Problem<Shape> const problem(decoding_forest(3, {8, 40, 9, 1}),
                               Shape{.query_heads = 3, .kv_heads = 1});
  auto const one =
      attended(problem, InterleavedShards{100}, 16, 1, ReductionAlgorithm::one_shot)[0];
  CHECK(worst_error(problem, one) <= 1);
  for (int const ranks : {3, 16})
    for (auto const& result :
         attended(problem, InterleavedShards{100}, 16, ranks, ReductionAlgorithm::all_to_all))
      CHECK(same_bits(result, one));
  std::vector<int> shares(16, 0);
  shares[5] = 3, shares[11] = 1;
  auto const uneven =
      attended(problem, ContiguousShards{shares}, 16, 1, ReductionAlgorithm::one_shot)[0];
  CHECK(worst_error(problem, uneven) <= 1);
  for (auto const& result :
       attended(problem, ContiguousShards{shares}, 16, 5, ReductionAlgorithm::tree))
    CHECK(same_bits(result, uneven));
}

TEST_CASE("what is refused, and what ranks disagree about") {
  using Shape = AttentionShape<float, 16>;
  Problem<Shape> const problem(level_forest({1, 3}, {20, 5}), Shape{.query_heads = 2});
  SelfCommunicator self;
  Space const space{};
  ContiguousShards const policy;
  auto const shards = fixed_shards(problem.tree, policy, 4, {0, 1});
  auto const refused = [&](auto const& body) -> std::string {
    try {
      body();
    } catch (Error const& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused([&] {
          make_distributed_plan(space, self, shards, problem.shape, ReductionAlgorithm::ring);
        }) ==
        "fasttree::plan_reduction: method.algorithm: expected one that merges by the tree over "
        "ranks, as one_shot, found ring");
  CHECK(refused([&] {
          make_distributed_plan(space, self, shards, problem.shape,
                                {ReductionAlgorithm::tree, Payload::fp16});
        }) ==
        "fasttree::plan_reduction: method.payload: expected fp32, to be reproducible across "
        "algorithms, found fp16");
  CHECK(refused([&] {
          make_distributed_plan(space, self, fixed_shards(problem.tree, policy, 4, {1, 2}),
                                problem.shape);
        }) == "fasttree::make_distributed_plan: shards: expected those of this rank, found others");
  auto plan = make_distributed_plan(space, self, shards, problem.shape);
  auto const workspace = make_workspace(space, plan);
  auto const held = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  CHECK(refused([&] {
          distributed_attention(space, self, plan, arrays.queries, std::vector{held.cache},
                                arrays.outputs, workspace);
        }) == "fasttree::distributed_attention: caches.size(): expected 4, found 1");
  CHECK_THROWS_AS(run_in_process(Space{}, 2, long_deadline,
                                 [&](InProcessCommunicator& communicator) {
                                   int const rank = communicator.rank();
                                   make_distributed_plan(
                                       Space{}, communicator,
                                       fixed_shards(problem.tree, policy, 4 + rank, {rank, 2}),
                                       problem.shape);
                                 }),
                  Error);
}
