// SPDX-License-Identifier: Apache-2.0
#pragma once
// A problem over ranks: each rank's shard, with a cache that holds the rank's keys and nan
// elsewhere, and attention on all ranks at once where these are threads. Arrays are made and read
// by one thread.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <fasttree/comm/in_process_communicator.hpp>
#include <fasttree/distributed_attention.hpp>
#include "problem.hpp"

namespace fasttree::test {

/// More than any test takes; those of deadlines have their own.
inline constexpr std::chrono::seconds long_deadline{60};

/// By how much outputs are rounded where they are sent like this, once a round, relative to values.
inline double payload_roundoff(ReductionMethod method, int ranks, int ranks_per_node) {
  double const u = method.payload == Payload::fp32   ? 0
                   : method.payload == Payload::fp16 ? unit_roundoff<fasttree::half>
                                                     : unit_roundoff<bfloat16>;
  return 1.01 * u *
         static_cast<double>(traffic(method.algorithm, ranks, {}, ranks_per_node).rounds);
}

/// Of five ranks, most without keys or with few.
inline constexpr int uneven_shares[][5] = {{0, 0, 1, 0, 0}, {0, 7, 1, 0, 2}, {1, 0, 0, 0, 1000}};

/// The problem that a rank has: the shard, and of the keys only its own.
template <class P, class Policy>
P shard_problem(P const& problem, Policy const& policy, ShardOf of) {
  using Stored = typename P::Stored;
  PrefixTree const shard = shard_tree(problem.tree, policy, of);
  P local(shard, problem.shape, 1, shard.slots());
  local.queries = problem.queries;
  std::ranges::fill(local.keys, poison<Stored>());
  std::ranges::fill(local.values, poison<Stored>());
  P whole = problem;  // whose spans are not const
  for (int node = 0; node < shard.nodes(); ++node)
    for (int i = 0; i < shard.length(node); ++i) {
      std::int64_t const from =
          problem.tree.slot_begin(node) + policy.token(problem.tree, node, of, i);
      for (int head = 0; head < problem.shape.kv_heads; ++head) {
        std::ranges::copy(whole.key(from, head),
                          local.key(shard.slot_begin(node) + i, head).begin());
        std::ranges::copy(whole.value(from, head),
                          local.value(shard.slot_begin(node) + i, head).begin());
      }
    }
  return local;
}

/// A random forest of decoding requests.
inline Forest decoding_forest(std::uint64_t seed, ForestSize const& size) {
  Forest forest = random_forest(seed, size);
  for (Request& request : forest.requests) request.query_length = std::min(1, request.query_length);
  return forest;
}

template <class Comm>
void wait_for(Space const& space, Comm& communicator) {
  if constexpr (CommunicatorOn<Comm, Space>) {
    communicator.wait(space);
  } else {
    space.fence();
  }
}

/// What each rank does: attention over its shard, with as many calls on one plan as asked.
template <class Comm, class P, class Cache, class Array>
void attend(Comm& communicator, P const& local, Cache const& cache, Array const& array,
            ReductionMethod method, int calls) {
  Space const space{};
  auto plan = make_distributed_plan(space, communicator, local.tree, local.shape, method);
  auto const workspace = make_workspace(space, plan.attention);
  for (int i = 0; i < calls; ++i)
    distributed_attention(space, communicator, plan, array.queries, cache, array.outputs,
                          array.log_sum_exps, workspace);
  wait_for(space, communicator);
}

/// A cache for each of so many shards, with the keys of that one.
template <class P, class Policy>
auto caches_of_shards(P const& problem, Policy const& policy, int count) {
  std::vector<decltype(contiguous_cache(problem))> held;
  for (int shard = 0; shard < count; ++shard)
    held.push_back(contiguous_cache(shard_problem(problem, policy, {shard, count})));
  return held;
}

/// The same as attend, over this rank's of those shards.
template <class Comm, class P, class Policy, class Held, class Array>
void attend_in_shards(Comm& communicator, P const& problem, Policy const& policy,
                      std::vector<Held> const& held, Array const& array, ReductionMethod method,
                      int calls) {
  Space const space{};
  int const count = static_cast<int>(held.size());
  auto const shards =
      fixed_shards(problem.tree, policy, count, {communicator.rank(), communicator.size()});
  std::vector<std::decay_t<decltype(held[0].cache)>> caches;
  for (int i = shards.range.begin; i < shards.range.end; ++i) caches.push_back(held[i].cache);
  auto plan = make_distributed_plan(space, communicator, shards, problem.shape, method);
  auto const workspace = make_workspace(space, plan);
  for (int i = 0; i < calls; ++i)
    distributed_attention(space, communicator, plan, array.queries, caches, array.outputs,
                          array.log_sum_exps, workspace);
  wait_for(space, communicator);
}

/// The result of it on each of so many threads.
template <class Written = float, class P, class Policy>
std::vector<Result<Written>> attend_on_ranks(P const& problem, Policy const& policy, int ranks,
                                             ReductionMethod method, int calls = 1) {
  using Held = decltype(contiguous_cache(problem));
  std::vector<P> locals;
  std::vector<Held> caches;
  std::vector<Arrays<Written, LogBase::e, P>> arrays;
  for (int rank = 0; rank < ranks; ++rank) {
    locals.push_back(shard_problem(problem, policy, {rank, ranks}));
    caches.push_back(contiguous_cache(locals.back(), rank % 2 == 1, rank % 3));
    arrays.emplace_back(problem, Layout<3>{{1, 0, 2}, rank % 2}, Layout<2>{{1, 0}, rank % 2});
  }
  run_in_process(Space{}, ranks, long_deadline, [&](InProcessCommunicator& communicator) {
    int const rank = communicator.rank();
    attend(communicator, locals[rank], caches[rank].cache, arrays[rank], method, calls);
  });
  std::vector<Result<Written>> results;
  for (auto const& array : arrays) results.push_back(array.read());
  return results;
}

}  // namespace fasttree::test
