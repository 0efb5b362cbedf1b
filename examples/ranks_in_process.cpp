// SPDX-License-Identifier: Apache-2.0
// Attention over ranks that are threads of this program: each has a third of the keys of every node,
// in blocks that it gets in turn, and all of them get the whole output.

#include <fasttree/comm/in_process_communicator.hpp>
#include <fasttree/distributed_attention.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#ifdef KOKKOS_ENABLE_SERIAL

using Space = Kokkos::Serial;  // which several threads may use at once
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

constexpr int ranks = 3, query_heads = 8, kv_heads = 2, dim = 64;

/// Of a slot of the whole tree; an array of keys, one of values, one of queries, by `which`.
float element(int which, std::int64_t slot, int head, int i) {
  return static_cast<float>((slot * 31 + head * 57 + i * 7 + which * 1009) * 7919 % 2003) / 1001 -
         1;
}

Array make_array(std::string const& name, std::int64_t rows, int heads) {
  return Array(name, rows, heads, dim);
}

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);

  // A document of 4000 tokens is node 0; five requests ask about it, each with 30 tokens of its own.
  int const parents[] = {-1, 0, 0, 0, 0, 0}, lengths[] = {4000, 30, 30, 30, 30, 30};
  fasttree::Request const requests[] = {{1}, {2}, {3}, {4}, {5}};
  fasttree::PrefixTree const tree(parents, lengths, requests);
  fasttree::AttentionShape<float, dim> const shape{query_heads, kv_heads};
  fasttree::InterleavedShards const policy{.block = 16};

  Array const queries = make_array("queries", tree.queries(), query_heads);
  for (int row = 0; row < tree.queries(); ++row)
    for (int head = 0; head < query_heads; ++head)
      for (int i = 0; i < dim; ++i) queries(row, head, i) = element(0, row, head, i);
  std::vector<Array> outputs;
  for (int i = 0; i < ranks + 1; ++i)
    outputs.push_back(make_array("output", tree.queries(), query_heads));

  // What every rank does; `communicator` is all that makes it differ from the others.
  auto const attend = [&](auto& communicator, Array const& output) {
    Space const space;
    fasttree::ShardOf const me{communicator.rank(), communicator.size()};
    fasttree::PrefixTree const shard = fasttree::shard_tree(tree, policy, me);
    auto plan = fasttree::make_distributed_plan(space, communicator, shard, shape);
    auto const workspace = fasttree::make_workspace(space, plan.attention);

    Array const keys = make_array("keys", shard.slots(), kv_heads);
    Array const values = make_array("values", shard.slots(), kv_heads);
    for (int node = 0; node < tree.nodes(); ++node)
      for (int i = 0; i < shard.length(node); ++i)
        for (int head = 0; head < kv_heads; ++head)
          for (int d = 0; d < dim; ++d) {
            std::int64_t const from = tree.slot_begin(node) + policy.token(tree, node, me, i);
            keys(shard.slot_begin(node) + i, head, d) = element(1, from, head, d);
            values(shard.slot_begin(node) + i, head, d) = element(2, from, head, d);
          }
    auto const cache = fasttree::make_contiguous_cache(space, keys, values);

    fasttree::distributed_attention(space, communicator, plan, queries, cache, output, workspace);
    space.fence();
    if (communicator.rank() == 0)
      std::cout << communicator.size() << " ranks, by " << name(plan.reduction.algorithm())
                << ": rank 0 has " << shard.slots() << " of " << tree.slots() << " tokens\n";
  };

  fasttree::SelfCommunicator alone;
  attend(alone, outputs[ranks]);
  fasttree::run_in_process(Space(), ranks, std::chrono::seconds(10),
                           [&](fasttree::InProcessCommunicator& communicator) {
                             attend(communicator, outputs[communicator.rank()]);
                           });

  float difference = 0;
  bool same_bits = true;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    float const x = outputs[0].data()[i];
    difference = std::max(difference, std::abs(x - outputs[ranks].data()[i]));
    for (int rank = 1; rank < ranks; ++rank) same_bits = same_bits && outputs[rank].data()[i] == x;
  }
  std::cout << "largest difference between three ranks and one: " << difference
            << "; the ranks agree " << (same_bits ? "to the bit" : "not") << '\n';
  float const tolerance = 4030 * 0x1p-23f;  // keys times the distance of floats near 1
  return difference <= tolerance && same_bits ? 0 : 1;
}

#else

int main() { std::cout << "this Kokkos has no Serial, the space for ranks that are threads\n"; }

#endif
