// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of heads, as results files name them.

#include <string>
#include <vector>

namespace fasttree::bench {

struct Heads {
  int queries, keys;

  std::string name() const { return std::to_string(queries) + "x" + std::to_string(keys); }
};

/// Those of the paper's benchmark.
inline std::vector<Heads> paper_heads() { return {{32, 32}, {32, 8}, {16, 1}}; }

}  // namespace fasttree::bench
