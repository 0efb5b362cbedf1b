// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forests of every shape that a server can make, from a seed that a failing test prints.

#include <cstdint>
#include <vector>

#include <fasttree/tree/prefix_tree.hpp>
#include "random.hpp"

namespace fasttree::test {

/// What a PrefixTree is made of.
struct Forest {
  std::vector<int> parents, lengths;
  std::vector<Request> requests;

  PrefixTree tree(int slot_alignment = 1) const {
    return PrefixTree(parents, lengths, requests, SlotLayout{slot_alignment});
  }
};

/// Upper limits of a random forest.
struct ForestSize {
  int nodes = 12;
  int node_length = 40;
  int requests = 10;
  int query_length = 4;
};

/// A chain, a star, bushes or any mixture, with several roots now and then; nodes in any order,
/// some of them empty; requests anywhere, also several on a node, with 0 to `query_length` queries,
/// or none.
inline Forest random_forest(std::uint64_t seed, ForestSize size = {}) {
  enum { chain, star, bush, mixture };
  Random random(seed);
  int const shape = random.integer(chain, mixture);
  int const nodes = random.integer(1, size.nodes);
  std::vector<int> const name = random.permutation(nodes);
  Forest forest;
  forest.parents.resize(nodes);
  forest.lengths.resize(nodes);
  for (int i = 0; i < nodes; ++i) {
    int above = i - 1;
    if (i > 0 && (shape == star || (shape == mixture && random.one_in(3)))) above = 0;
    if (i > 0 && (shape == bush || (shape == mixture && random.one_in(3))))
      above = random.integer(0, i - 1);
    if (random.one_in(8)) above = -1;
    forest.parents[name[i]] = above < 0 ? PrefixTree::no_parent : name[above];
    forest.lengths[name[i]] = random.one_in(5) ? 0 : random.integer(1, size.node_length);
  }
  int const requests = random.one_in(16) ? 0 : random.integer(1, size.requests);
  bool const decode = random.one_in(2);
  for (int i = 0; i < requests; ++i)
    forest.requests.push_back(
        {random.integer(0, nodes - 1), decode ? 1 : random.integer(0, size.query_length)});
  return forest;
}

/// `levels[i]` nodes of `lengths[i]` tokens on level i, spread evenly below the level above; a
/// request on each node of the last. The benchmark trees of the FastTree paper.
inline Forest level_forest(std::vector<int> const& levels, std::vector<int> const& lengths) {
  Forest forest;
  int above_begin = 0;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    int const begin = static_cast<int>(forest.parents.size());
    for (int i = 0; i < levels[level]; ++i) {
      std::int64_t const above =
          level > 0 ? std::int64_t{i} * levels[level - 1] / levels[level] : 0;
      forest.parents.push_back(level > 0 ? above_begin + static_cast<int>(above)
                                         : PrefixTree::no_parent);
      forest.lengths.push_back(lengths[level]);
      if (level + 1 == levels.size()) forest.requests.push_back({begin + i});
    }
    above_begin = begin;
  }
  return forest;
}

}  // namespace fasttree::test
