// SPDX-License-Identifier: Apache-2.0
#pragma once

// A prefix tree as plain data: what the readers of examples/support give and what a program turns
// into a fasttree::PrefixTree. Nothing is checked here; every reader says what it guarantees.
// Nodes may stand in any order; a node without a parent is a root, and there may be several.

#include <string>
#include <vector>

namespace fasttree::examples {

/// A forest of nodes that hold tokens, and the requests that hang on them.
struct Forest {
  std::vector<int> parents;         ///< per node: the node above, -1 for a root
  std::vector<int> lengths;         ///< per node: its tokens, without those of the nodes above
  std::vector<int> request_nodes;   ///< per request: the node it hangs on
  std::vector<std::string> labels;  ///< per node: an excerpt of its text; empty if there is none

  friend bool operator==(Forest const&, Forest const&) = default;
};

}  // namespace fasttree::examples
