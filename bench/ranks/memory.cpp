// SPDX-License-Identifier: Apache-2.0
// Memory that a step of attention over ranks takes, by a ring of K,V and by the tree reduction, as
// it is allocated by ranks that are threads. Writes a JSON object for each length.

#include <iostream>

#include "../support/json_fields.hpp"
#include "support/ring_memory.hpp"

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  constexpr int ranks = 4;
  for (int tokens = 1 << 6; tokens <= 1 << 18; tokens *= 8) {
    auto const memory = fasttree::test::ring_memory(ranks, tokens);
    std::cout << "{"
              << fasttree::bench::Fields()
                     .add("ranks", ranks)
                     .add("tokens_per_rank", tokens)
                     .add("shard_bytes", static_cast<double>(memory.shards) / ranks)
                     .add("ring_bytes", static_cast<double>(memory.ring + memory.shards) / ranks)
                     .add("tree_bytes", static_cast<double>(memory.tree + memory.shards) / ranks)
                     .text()
              << "}\n";
  }
}
