// SPDX-License-Identifier: Apache-2.0
#pragma once
// The input of fasttree-demo: a tree file or a file of prompts, as a PrefixTree, with what is known of
// its tokens; and the numbers that describe a tree.

#include <fasttree/tree/prefix_tree.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../support/forest.hpp"
#include "../support/prompt_file.hpp"
#include "../support/prompt_tree.hpp"
#include "../support/tree_file.hpp"

namespace fasttree::examples {

/// A tree of requests that decode, and its tokens: bytes of prompts, or numbers that stand for them.
class Workload {
 public:
  Workload(Forest forest, std::vector<std::string> prompts, std::vector<TokenRange> tokens)
      : forest_(std::move(forest)),
        prompts_(std::move(prompts)),
        tokens_(std::move(tokens)),
        tree_(forest_.parents, forest_.lengths, requests(forest_)) {}

  PrefixTree const& tree() const { return tree_; }
  Forest const& forest() const { return forest_; }

  /// The token at place `i` of a node. Equal bytes of prompts are equal tokens.
  std::uint64_t token(int node, int i) const {
    if (tokens_.empty()) return static_cast<std::uint64_t>(node);
    TokenRange const& range = tokens_[node];
    return static_cast<unsigned char>(prompts_[range.prompt][range.begin + i]);
  }

  /// What is written on a node.
  std::string label(int node) const {
    return forest_.labels.empty() ? "node " + std::to_string(node) : forest_.labels[node];
  }

 private:
  static std::vector<Request> requests(Forest const& forest) {
    std::vector<Request> all;
    for (int const node : forest.request_nodes) all.push_back({node});
    return all;
  }

  Forest forest_;
  std::vector<std::string> prompts_;
  std::vector<TokenRange> tokens_;
  PrefixTree tree_;
};

/// Reads `file`; `format` is tree or prompts. Throws fasttree::Error, which names the file.
inline Workload read_workload(std::filesystem::path const& file, std::string const& format) {
  if (format == "tree") return {read_tree_file(file), {}, {}};
  std::vector<std::string> prompts = read_prompt_file(file);
  PromptTree tree = build_prompt_tree(prompts);
  return {std::move(tree.forest), std::move(prompts), std::move(tree.tokens)};
}

/// A tree in numbers.
struct TreeStatistics {
  int nodes = 0, requests = 0, depth = 0, longest_path = 0;
  std::int64_t unique_tokens = 0;  ///< on the path of some request
  std::int64_t path_tokens = 0;    ///< the same, counted once per request
  std::int64_t path_nodes = 0;     ///< nodes on the paths of all requests

  /// How often a key is needed for each time that it is there.
  double sharing() const {
    return unique_tokens > 0 ? static_cast<double>(path_tokens) / unique_tokens : 1.0;
  }
};

/// Counts a tree. Linear in nodes and requests.
inline TreeStatistics count_tree(PrefixTree const& tree) {
  TreeStatistics sum;
  sum.nodes = tree.nodes();
  sum.requests = tree.requests();
  std::vector<int> depth(tree.nodes());
  for (int const node : tree.parents_first()) {
    int const parent = tree.parent(node);
    depth[node] = 1 + (parent == PrefixTree::no_parent ? 0 : depth[parent]);
    sum.depth = std::max(sum.depth, depth[node]);
    auto const requests = static_cast<std::int64_t>(tree.requests_on(node).size());
    sum.path_tokens += requests * tree.path_length(node);
    sum.path_nodes += requests * depth[node];
    if (requests > 0) sum.longest_path = std::max(sum.longest_path, tree.path_length(node));
    if (tree.requests_under(node) > 0) sum.unique_tokens += tree.length(node);
  }
  return sum;
}

}  // namespace fasttree::examples
