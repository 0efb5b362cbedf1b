// SPDX-License-Identifier: Apache-2.0
// Attention over the processes that mpirun starts, `mpirun -n 3 ranks_mpi`: each has its share of
// the keys of every node, in blocks that it gets in turn, and all of them get the whole output.

#include <fasttree/comm/mpi_communicator.hpp>
#include <fasttree/distributed_attention.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>

using Space = Kokkos::DefaultHostExecutionSpace;  // messages lie in host memory
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

constexpr int query_heads = 8, kv_heads = 2, dim = 64;

/// Of a slot of the whole tree; an array of keys, one of values, one of queries, by `which`.
float element(int which, std::int64_t slot, int head, int i) {
  return static_cast<float>((slot * 31 + head * 57 + i * 7 + which * 1009) * 7919 % 2003) / 1001 -
         1;
}

/// What every rank does; `communicator` is all that makes it differ from the others.
template <fasttree::Communicator Comm>
Array attend(Comm& communicator, fasttree::PrefixTree const& tree) {
  Space const space;
  fasttree::AttentionShape<float, dim> const shape{query_heads, kv_heads};
  fasttree::InterleavedShards const policy{.block = 16};
  fasttree::ShardOf const me{communicator.rank(), communicator.size()};
  fasttree::PrefixTree const shard = fasttree::shard_tree(tree, policy, me);
  auto plan = fasttree::make_distributed_plan(space, communicator, shard, shape);
  auto const workspace = fasttree::make_workspace(space, plan.attention);

  Array const queries("queries", tree.queries(), query_heads, dim);
  for (int row = 0; row < tree.queries(); ++row)
    for (int head = 0; head < query_heads; ++head)
      for (int i = 0; i < dim; ++i) queries(row, head, i) = element(0, row, head, i);
  Array const keys("keys", shard.slots(), kv_heads, dim);
  Array const values("values", shard.slots(), kv_heads, dim);
  for (int node = 0; node < tree.nodes(); ++node)
    for (int i = 0; i < shard.length(node); ++i)
      for (int head = 0; head < kv_heads; ++head)
        for (int d = 0; d < dim; ++d) {
          std::int64_t const from = tree.slot_begin(node) + policy.token(tree, node, me, i);
          keys(shard.slot_begin(node) + i, head, d) = element(1, from, head, d);
          values(shard.slot_begin(node) + i, head, d) = element(2, from, head, d);
        }
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);

  Array const output("output", tree.queries(), query_heads, dim);
  fasttree::distributed_attention(space, communicator, plan, queries, cache, output, workspace);
  space.fence();
  std::cout << "rank " + std::to_string(me.rank) + " of " + std::to_string(me.ranks) + ", by " +
                   name(plan.reduction.algorithm()) + ": " + std::to_string(shard.slots()) +
                   " of " + std::to_string(tree.slots()) + " tokens\n";
  return output;
}

/// The largest difference of a rank's result from that of one rank which has all keys.
float compare() {
  // A document of 4000 tokens is node 0; five requests ask about it, with 30 tokens of their own.
  int const parents[] = {-1, 0, 0, 0, 0, 0}, lengths[] = {4000, 30, 30, 30, 30, 30};
  fasttree::Request const requests[] = {{1}, {2}, {3}, {4}, {5}};
  fasttree::PrefixTree const tree(parents, lengths, requests);

  fasttree::MpiCommunicator communicator(MPI_COMM_WORLD, std::chrono::seconds(10));
  fasttree::SelfCommunicator alone;
  Array const output = attend(communicator, tree), expected = attend(alone, tree);
  float difference = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    float const apart = std::abs(output.data()[i] - expected.data()[i]);
    difference = std::max(difference, apart == apart ? apart : HUGE_VALF);  // nan is wrong too
  }
  return difference;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int result = 1;
  try {
    Kokkos::ScopeGuard const kokkos(argc, argv);
    float const tolerance = 4030 * 0x1p-23f;  // keys times the distance of floats near 1
    result = compare() <= tolerance ? 0 : 1;
  } catch (fasttree::Error const& error) {
    std::cerr << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 2);  // MPI_Finalize would wait for a rank that is gone
  }
  MPI_Finalize();
  return result;
}
