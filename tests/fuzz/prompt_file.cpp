// SPDX-License-Identifier: Apache-2.0
// Any bytes as a prompt file: a fasttree::Error, or prompts whose tree spells every one of them.

#include "support/prompt_file.hpp"
#include "support/prompt_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace fasttree::examples;
  std::istringstream input(std::string(reinterpret_cast<char const*>(data), size));
  std::vector<std::string> prompts;
  try {
    prompts = read_prompt_file(input, "prompts");
  } catch (fasttree::Error const&) {
    return 0;
  }
  PromptTree const tree = build_prompt_tree(prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::string_view rest = prompts[i];
    for (int node = tree.forest.request_nodes[i]; node >= 0; node = tree.forest.parents[node]) {
      std::string_view const text = node_text(tree, prompts, node);
      if (!rest.ends_with(text)) std::abort();
      rest.remove_suffix(text.size());
    }
    if (!rest.empty()) std::abort();
  }
  return 0;
}
