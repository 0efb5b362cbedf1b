// SPDX-License-Identifier: Apache-2.0
// Attention over processes with a GPU each, `mpirun -n 2 ranks_nccl`: MPI starts them and hands out
// the id of NCCL's communicator, and has no part in what follows. What a step enqueues waits for
// nothing on the host; `wait` does, until the deadline, where space.fence() might wait for ever.

#include <fasttree/comm/nccl_communicator.hpp>
#include <fasttree/distributed_attention.hpp>

#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>

using Space = fasttree::NcclCommunicator::Space;
using Array = Kokkos::View<fasttree::half***, Kokkos::LayoutRight, Space>;

constexpr int query_heads = 8, kv_heads = 2, dim = 128;

/// Of a slot of the whole tree; an array of keys, one of values, one of queries, by `which`.
KOKKOS_INLINE_FUNCTION fasttree::half element(int which, std::int64_t slot, int head, int i) {
  auto const number = (slot * 31 + head * 57 + i * 7 + which * 1009) * 7919 % 2003;
  return fasttree::half(static_cast<float>(number) / 1001 - 1);
}

/// Fills the rows of `to`, from slot `first` of the whole tree on.
void fill(Space const& space, Array const& to, int which, std::int64_t first) {
  int const heads = static_cast<int>(to.extent(1));
  Kokkos::parallel_for(
      "fill", Kokkos::RangePolicy<Space>(space, 0, static_cast<int>(to.extent(0)) * heads),
      KOKKOS_LAMBDA(int row) {
        for (int i = 0; i < dim; ++i)
          to(row / heads, row % heads, i) = element(which, first + row / heads, row % heads, i);
      });
}

/// What every rank does; `communicator` is all that makes it differ from the others.
template <fasttree::Communicator Comm>
Array attend(Space const& space, Comm& communicator, fasttree::PrefixTree const& tree) {
  fasttree::AttentionShape<fasttree::half, dim> const shape{query_heads, kv_heads};
  fasttree::ContiguousShards const policy;
  fasttree::ShardOf const me{communicator.rank(), communicator.size()};
  fasttree::PrefixTree const shard = fasttree::shard_tree(tree, policy, me);
  auto plan = fasttree::make_distributed_plan(space, communicator, shard, shape);
  auto const workspace = fasttree::make_workspace(space, plan.attention);

  Array const queries("queries", tree.queries(), query_heads, dim);
  Array const keys("keys", shard.slots(), kv_heads, dim);
  Array const values("values", shard.slots(), kv_heads, dim);
  fill(space, queries, 0, 0);
  for (int node = 0; node < tree.nodes(); ++node) {
    if (shard.length(node) == 0) continue;
    std::int64_t const from = tree.slot_begin(node) + policy.token(tree, node, me, 0);
    std::int64_t const to = shard.slot_begin(node);
    auto const slots = Kokkos::make_pair(to, to + shard.length(node));
    fill(space, Kokkos::subview(keys, slots, Kokkos::ALL, Kokkos::ALL), 1, from);
    fill(space, Kokkos::subview(values, slots, Kokkos::ALL, Kokkos::ALL), 2, from);
  }
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);

  Array const output("output", tree.queries(), query_heads, dim);
  fasttree::distributed_attention(space, communicator, plan, queries, cache, output, workspace);
  if constexpr (fasttree::CommunicatorOn<Comm, Space>) communicator.wait(space);
  space.fence();
  std::cout << "rank " + std::to_string(me.rank) + " of " + std::to_string(me.ranks) + ", by " +
                   name(plan.reduction.algorithm()) + ": " + std::to_string(shard.slots()) +
                   " of " + std::to_string(tree.slots()) + " tokens\n";
  return output;
}

/// The largest difference of a rank's result from that of one rank which has all keys.
float compare(int rank, int ranks) {
  // A document of 4000 tokens is node 0; five requests ask about it, with 30 tokens of their own.
  int const parents[] = {-1, 0, 0, 0, 0, 0}, lengths[] = {4000, 30, 30, 30, 30, 30};
  fasttree::Request const requests[] = {{1}, {2}, {3}, {4}, {5}};
  fasttree::PrefixTree const tree(parents, lengths, requests);

  ncclUniqueId id{};
  if (rank == 0) id = fasttree::make_nccl_id();
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  Space const space;
  fasttree::NcclCommunicator communicator(space, id, rank, ranks, std::chrono::seconds(10));
  fasttree::SelfCommunicator alone;
  Array const output = attend(space, communicator, tree), expected = attend(space, alone, tree);
  float difference = 0;
  Kokkos::parallel_reduce(
      "compare", Kokkos::RangePolicy<Space>(space, 0, static_cast<int>(output.size())),
      KOKKOS_LAMBDA(int i, float& largest) {
        float const x = static_cast<float>(output.data()[i]);
        float const apart = Kokkos::abs(x - static_cast<float>(expected.data()[i]));
        largest = Kokkos::max(largest, apart == apart ? apart : HUGE_VALF);  // nan is wrong too
      },
      Kokkos::Max<float>(difference));
  return difference;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1, result = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    Kokkos::ScopeGuard const kokkos(argc, argv);  // by default each rank of a node has another GPU
    float const tolerance = 4 * 0x1p-11f;         // roundings of half near 1
    result = compare(rank, ranks) <= tolerance ? 0 : 1;
  } catch (fasttree::Error const& error) {
    std::cerr << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 2);  // MPI_Finalize would wait for a rank that is gone
  }
  MPI_Finalize();
  return result;
}
