// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forests to plan for: the FastTree paper's, batches from request traces, and shapes of any size. Each
// has the name by which results files know it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <support/random_forest.hpp>
#include "arguments.hpp"
#include "paper_trees.hpp"
#include "shrink.hpp"
#include "trees_file.hpp"

namespace fasttree::bench {

using test::Forest;

struct NamedForest {
  std::string name;
  Forest forest;
};

/// A name that says how large the forest is.
inline NamedForest named(std::string const& shape, Forest forest) {
  return {shape + "_of_" + std::to_string(forest.parents.size()) + "_nodes_" +
              std::to_string(forest.requests.size()) + "_requests",
          std::move(forest)};
}

/// The paper's trees, with the nodes of each level divided by `shrink`.
inline std::vector<NamedForest> paper_forests() {
  std::vector<NamedForest> all;
  for (Levels const& levels : paper_trees()) {
    std::vector<int> nodes = levels.nodes;
    for (int& count : nodes) count = std::max(1, count / shrink());
    all.push_back({levels.name(), test::level_forest(nodes, levels.tokens)});
  }
  return all;
}

/// The trees of a file, in full size; none where no file is named. Errors: `BadArguments` where no
/// tree can be read.
inline std::vector<NamedForest> forests_of_file(std::string const& path) {
  std::vector<NamedForest> all;
  if (path.empty()) {
    std::fprintf(stderr, "no --trees: the batches from request traces are left out\n");
    return all;
  }
  TreesFile file(path.c_str());
  file.each([&](std::string const& name, Forest forest) {
    all.push_back({name, std::move(forest)});
  });
  if (all.empty()) throw BadArguments("--trees: no trees can be read from \"" + path + "\"");
  return all;
}

/// Those of the file that FASTTREE_TREES names, in full size; without it, a word to stderr.
inline std::vector<NamedForest> real_forests() {
  std::vector<NamedForest> all;
  char const* const path = std::getenv("FASTTREE_TREES");
  TreesFile file(path == nullptr ? "" : path);
  if (!file.opened())
    std::fprintf(stderr, "FASTTREE_TREES: %s, the batches from request traces are left out\n",
                 path == nullptr ? "not set" : "cannot be read");
  file.each([&](std::string const& name, Forest forest) {
    all.push_back({name, std::move(forest)});
  });
  return all;
}

/// Each node below a random one of those before it, and requests on random nodes; of 1000 nodes,
/// `roots` are roots.
inline Forest bushes(int nodes, int requests, int roots = 0, std::uint64_t seed = 1) {
  test::Random random(seed);
  Forest forest;
  for (int i = 0; i < nodes; ++i) {
    bool const root = i == 0 || (roots > 0 && random.integer(0, 999) < roots);
    forest.parents.push_back(root ? PrefixTree::no_parent : random.integer(0, i - 1));
    forest.lengths.push_back(random.integer(1, 300));
  }
  for (int i = 0; i < requests; ++i) forest.requests.push_back({random.integer(0, nodes - 1)});
  return forest;
}

/// Each node below the one before it.
inline Forest chain(int nodes, bool request_on_each) {
  Forest forest;
  for (int i = 0; i < nodes; ++i) {
    forest.parents.push_back(i - 1);
    forest.lengths.push_back(16);
    if (request_on_each || i + 1 == nodes) forest.requests.push_back({i});
  }
  return forest;
}

/// A request on each of `leaves` nodes below one root.
inline Forest star(int leaves) { return test::level_forest({1, leaves}, {2048, 32}); }

/// The same forest with a leaf of its own, of 20 tokens, for each request.
inline Forest with_leaves(Forest forest) {
  for (Request& request : forest.requests) {
    forest.parents.push_back(request.node);
    forest.lengths.push_back(20);
    request.node = static_cast<int>(forest.parents.size()) - 1;
  }
  return forest;
}

}  // namespace fasttree::bench
