// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where ranks are: in nodes, of equally many ranks that are numbered one node after the other.
// Links within a node are faster than those between nodes, and what algorithms cost depends on
// which they use. Ranks whose nodes are not like this count as one node each.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <fasttree/comm/communicator.hpp>

namespace fasttree {

/// Rank r is in node r / ranks_per_node, which divides `ranks`.
struct Topology {
  int ranks = 1;
  int ranks_per_node = 1;
  LinkCosts within{}, between{};
  bool one_link_per_node = false;  ///< which its ranks share: what all send beyond it queues there

  constexpr int nodes() const { return ranks / ranks_per_node; }
  constexpr bool crosses(int from, int to) const {
    return from / ranks_per_node != to / ranks_per_node;
  }
};

/// The ranks of a node, given a number for the node of each rank; 1 where nodes are not alike, or
/// their ranks not numbered one after the other.
inline int count_ranks_per_node(std::span<std::uint64_t const> node_of) {
  auto const same = [&](std::size_t a, std::size_t b) { return node_of[a] == node_of[b]; };
  std::size_t count = 0;
  while (count < node_of.size() && same(count, 0)) ++count;
  if (count == 0 || node_of.size() % count != 0) return 1;
  std::vector<std::uint64_t> nodes;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    if (!same(rank, rank - rank % count)) return 1;
    if (rank % count == 0) nodes.push_back(node_of[rank]);
  }
  std::ranges::sort(nodes);
  return std::ranges::adjacent_find(nodes) == nodes.end() ? static_cast<int>(count) : 1;
}

/// What the communicator says by a member topology(), if it has one; else one node.
template <Communicator Comm>
Topology topology_of(Comm const& communicator) {
  if constexpr (requires { communicator.topology(); }) {
    return communicator.topology();
  } else {
    return {communicator.size(), communicator.size(), communicator.link(), communicator.link()};
  }
}

}  // namespace fasttree
