// SPDX-License-Identifier: Apache-2.0
// Attention over ranks of which one dies, sleeps or is called wrongly: an error on every other rank,
// within the deadline + 10 %, and outputs that were not touched.

#include <fasttree/distributed_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Shape = AttentionShape<float, 16>;

constexpr auto deadline = 1000ms;

struct Ending {
  std::string error;
  Clock::duration took{};  ///< of the call that failed
  bool untouched = false;
};

/// A step of attention on each rank, then one before which rank 1 meets with `accident`.
std::vector<Ending> second_steps(int ranks, ReductionAlgorithm algorithm,
                                 std::function<void(InProcessCommunicator&)> const& accident) {
  Problem<Shape> const problem(level_forest({1, 5}, {40, 12}), Shape{.query_heads = 2});
  std::vector<decltype(contiguous_cache(problem))> caches;
  std::vector<Arrays<float, LogBase::e, Problem<Shape>>> first, second;
  std::vector<PrefixTree> shards;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const local = shard_problem(problem, InterleavedShards{4}, {rank, ranks});
    shards.push_back(local.tree);
    caches.push_back(contiguous_cache(local));
    first.emplace_back(problem);
    second.emplace_back(problem);
  }
  prepare_for_threads(Space{});
  auto communicators = make_in_process_communicators(ranks, deadline);
  std::vector<Ending> endings(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator = std::move(communicators[rank]);
      Space const space{};
      auto plan =
          make_distributed_plan(space, communicator, shards[rank], problem.shape, algorithm);
      auto const workspace = make_workspace(space, plan.attention);
      auto const step = [&](auto const& arrays) {
        distributed_attention(space, communicator, plan, arrays.queries, caches[rank].cache,
                              arrays.outputs, arrays.log_sum_exps, workspace);
      };
      auto begin = Clock::now();
      try {
        step(first[rank]);  // which the accident may reach, if this rank is behind
        if (rank == 1) accident(communicator);
        begin = Clock::now();
        step(second[rank]);
      } catch (std::exception const& error) {
        endings[rank].error = error.what();
      }
      endings[rank].took = Clock::now() - begin;
    });
  threads.clear();
  for (int rank = 0; rank < ranks; ++rank)
    endings[rank].untouched =
        std::ranges::all_of(second[rank].read().outputs, [](float x) { return x != x; });
  return endings;
}

void all_fail(std::vector<Ending> const& endings) {
  for (Ending const& ending : endings) {
    CHECK(ending.error != "");
    CHECK(ending.untouched);
    CHECK(ending.took < deadline * 11 / 10);
  }
}

}  // namespace

TEST_CASE("a rank that dies") {
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (int const ranks : {2, 3, 7}) {
      CAPTURE(name(algorithm));
      CAPTURE(ranks);
      auto const endings = second_steps(ranks, algorithm, [](InProcessCommunicator&) {
        throw std::runtime_error("an accident");
      });
      all_fail(endings);
      for (int rank = 0; rank < ranks; ++rank)
        if (rank != 1)
          CHECK(endings[rank].error.starts_with("fasttree::InProcessCommunicator: rank "));
      CHECK(endings[1].error == "an accident");
    }
}

TEST_CASE("a rank that sleeps") {
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
    CAPTURE(name(algorithm));
    all_fail(second_steps(5, algorithm, [](InProcessCommunicator&) {
      std::this_thread::sleep_for(deadline * 5 / 4);
    }));
  }
}

TEST_CASE("a rank that is taken out") {
  all_fail(second_steps(4, ReductionAlgorithm::tree,
                        [](InProcessCommunicator& communicator) { communicator.leave(); }));
}

TEST_CASE("wrong arguments are found before anything is sent") {
  Problem<Shape> const problem(level_forest({1, 3}, {9, 4}), Shape{.query_heads = 2});
  Space const space{};
  SelfCommunicator communicator;
  auto plan = make_distributed_plan(space, communicator, problem.tree, problem.shape);
  auto const workspace = make_workspace(space, plan.attention);
  auto const cache = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  auto const wrong = make_array<float>(std::array<std::int64_t, 3>{3, 2, 8});
  auto const few = make_array<NaturalLogSumExp>(std::array<std::int64_t, 2>{2, 2});
  CHECK_THROWS_WITH_AS(distributed_attention(space, communicator, plan, arrays.queries, cache.cache,
                                             wrong, workspace),
                       "fasttree::distributed_attention: output.extent(2): expected 16, found 8",
                       Error);
  CHECK_THROWS_WITH_AS(
      distributed_attention(space, communicator, plan, arrays.queries, cache.cache, arrays.outputs,
                            few, workspace),
      "fasttree::distributed_attention: log_sum_exps.extent(0): expected 3, found 2", Error);
  CHECK_THROWS_WITH_AS(distributed_attention(space, communicator, plan, wrong, cache.cache,
                                             arrays.outputs, workspace),
                       "fasttree::tree_attention: queries.extent(2): expected 16, found 8", Error);
  Problem<Shape> const larger(level_forest({1, 4}, {9, 4}), Shape{.query_heads = 2});
  make_plan_into(space, larger.tree, plan.attention);
  Arrays<float, LogBase::e, Problem<Shape>> const more(larger);
  CHECK_THROWS_WITH_AS(
      distributed_attention(space, communicator, plan, more.queries, cache.cache, more.outputs,
                            workspace),
      "fasttree::distributed_attention: plan.attention.queries(): expected at most 3, found 4",
      Error);
}
