// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tree file: a fasttree::Error, or a forest that is written and read back the same.

#include "support/tree_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace fasttree::examples;
  std::istringstream input(std::string(reinterpret_cast<char const*>(data), size));
  Forest forest;
  try {
    forest = read_tree_file(input, "tree");
  } catch (fasttree::Error const&) {
    return 0;
  }
  std::stringstream output;
  write_tree_file(output, forest);
  if (read_tree_file(output, "tree") != forest) std::abort();
  return 0;
}
