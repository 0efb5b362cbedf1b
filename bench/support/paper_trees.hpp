// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 15 trees on which the FastTree paper measures: nodes and tokens of a node, level by level; a request
// on each node of the last level.

#include <string>
#include <vector>

namespace fasttree::bench {

struct Levels {
  std::vector<int> nodes, tokens;

  /// As results files call the tree.
  std::string name() const {
    std::string text = "paper";
    for (int const count : nodes) text += "_" + std::to_string(count);
    return text + "_of_" + std::to_string(tokens.front());
  }
};

inline std::vector<Levels> paper_trees() {
  return {
      {{1, 10}, {4000, 400}},
      {{1, 256}, {256, 32}},
      {{1, 1024}, {2048, 32}},
      {{1, 2, 64}, {8, 256, 32}},
      {{1, 4, 256}, {8, 256, 32}},
      {{1, 16, 64}, {1024, 256, 32}},
      {{1, 4, 8, 256}, {8, 256, 256, 32}},
      {{1, 4, 16, 512}, {1024, 256, 128, 32}},
      {{1, 4, 16, 64, 256, 1024}, {256, 8, 256, 64, 32, 256}},
      {{1, 16, 32, 64, 128, 1024}, {256, 128, 64, 16, 16, 16}},
      {{1, 16, 32, 64, 256, 1024}, {256, 128, 64, 16, 16, 16}},
      {{1, 8, 16, 32, 64, 128, 1024}, {256, 128, 64, 16, 16, 16, 16}},
      {{1, 8, 16, 32, 64, 256, 1024}, {256, 128, 64, 16, 16, 16, 16}},
      {{1, 2, 4, 8, 16, 32, 64, 128, 1024}, {16, 16, 16, 16, 16, 16, 16, 16, 16}},
      {{1, 2, 4, 8, 16, 32, 64, 128, 1024}, {256, 128, 64, 16, 16, 16, 16, 16, 16}},
  };
}

}  // namespace fasttree::bench
