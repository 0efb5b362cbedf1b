// SPDX-License-Identifier: Apache-2.0
#pragma once

// The prefix tree of prompts by longest common prefix, one token per byte: a radix tree whose nodes
// begin only where prompts part or one ends. Equal prompts hang on one node; a prompt that begins
// another hangs on an inner node; an empty prompt hangs on an empty root above all others. Prompts
// are sorted, then neighbours are compared: what two neighbours share is where a branch parts.

#include "forest.hpp"
#include "text.hpp"

#include <fasttree/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

/// Where the tokens of a node come from: bytes begin to end - 1 of a prompt. `begin` is also the
/// position of the node's first token on its path.
struct TokenRange {
  int prompt, begin, end;

  friend bool operator==(TokenRange const&, TokenRange const&) = default;
};

/// A prefix tree and the tokens of its nodes. Nodes stand in depth-first order, children in the
/// byte order of their text; request j is prompt j; every node has a label.
struct PromptTree {
  Forest forest;
  std::vector<TokenRange> tokens;  ///< per node
};

/// The text of node `node`, in the prompts that the tree was built from. O(1).
inline std::string_view node_text(PromptTree const& tree, std::span<std::string const> prompts,
                                  int node) {
  TokenRange const range = tree.tokens[node];
  std::string_view const prompt = prompts[range.prompt];
  return prompt.substr(static_cast<std::size_t>(range.begin),
                       static_cast<std::size_t>(range.end - range.begin));
}

/// A node while the tree grows: `first` is the place of its first prompt in sorted order.
struct GrowingNode {
  int parent, first;
  TokenRange tokens;
};

/// The nodes of the tree, a split node after its children, and the node of every prompt.
/// The nodes on the path of the last prompt form a stack; the next prompt leaves it at the depth
/// of their common prefix, and splits the node there if no node ends at that depth. O(total bytes).
inline std::vector<GrowingNode> grow_prompt_nodes(std::span<std::string const> prompts,
                                                  std::span<int const> order,
                                                  std::vector<int>& node_of_prompt) {
  std::vector<GrowingNode> nodes;
  std::vector<int> path;
  auto const depth = [&] { return path.empty() ? 0 : nodes[path.back()].tokens.end; };
  std::string_view previous;
  for (int place = 0; place < static_cast<int>(order.size()); ++place) {
    int const prompt = order[place];
    std::string_view const text = prompts[prompt];
    auto const parted = std::mismatch(text.begin(), text.end(), previous.begin(), previous.end());
    auto const common = static_cast<int>(parted.first - text.begin());
    auto const size = static_cast<int>(text.size());
    int below = -1;
    while (depth() > common) {
      below = path.back();
      path.pop_back();
    }
    if (depth() < common) {  // the prompts part within `below`
      auto const split = static_cast<int>(nodes.size());
      GrowingNode& lower = nodes[below];
      GrowingNode const upper{
          lower.parent, lower.first, {lower.tokens.prompt, lower.tokens.begin, common}};
      lower.parent = split;
      lower.tokens.begin = common;
      nodes.push_back(upper);
      path.push_back(split);
    }
    if (size > common || path.empty()) {
      int const parent = path.empty() ? -1 : path.back();
      path.push_back(static_cast<int>(nodes.size()));
      nodes.push_back({parent, place, {prompt, common, size}});
    }
    node_of_prompt[prompt] = path.back();
    previous = text;
  }
  return nodes;
}

/// Builds the prefix tree of `prompts`. No prompt gives an empty forest. Throws fasttree::Error if
/// there are more prompts, or a prompt has more bytes, than an int can count.
/// O(total bytes * log(prompts)) to sort, else O(total bytes); iterative.
inline PromptTree build_prompt_tree(std::span<std::string const> prompts) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  auto const check = [](std::size_t found, std::size_t limit, char const* what) {
    if (found > limit) {
      throw Error("build_prompt_tree: prompts: expected at most " + std::to_string(limit) + " " +
                  what + ", found " + std::to_string(found));
    }
  };
  check(prompts.size(), most / 2, "prompts");  // a prompt adds two nodes at most
  for (std::string const& prompt : prompts) check(prompt.size(), most, "bytes in a prompt");

  std::vector<int> by_text(prompts.size()), node_of_prompt(prompts.size());
  std::iota(by_text.begin(), by_text.end(), 0);
  std::sort(by_text.begin(), by_text.end(), [&](int a, int b) {
    int const sign = prompts[a].compare(prompts[b]);
    return sign != 0 ? sign < 0 : a < b;
  });
  std::vector<GrowingNode> const nodes = grow_prompt_nodes(prompts, by_text, node_of_prompt);

  // Depth-first order: by first prompt, and on one path from the root down.
  std::vector<int> by_depth(nodes.size()), place(nodes.size());
  std::iota(by_depth.begin(), by_depth.end(), 0);
  std::sort(by_depth.begin(), by_depth.end(), [&](int a, int b) {
    GrowingNode const& left = nodes[a];
    GrowingNode const& right = nodes[b];
    return left.first != right.first ? left.first < right.first
                                     : left.tokens.end < right.tokens.end;
  });
  for (std::size_t i = 0; i < by_depth.size(); ++i) {
    place[by_depth[i]] = static_cast<int>(i);
  }
  PromptTree tree;
  for (int const old : by_depth) {
    GrowingNode const& node = nodes[old];
    int const parent = node.parent < 0 ? -1 : place[node.parent];
    tree.forest.parents.push_back(parent);
    tree.forest.lengths.push_back(node.tokens.end - node.tokens.begin);
    tree.tokens.push_back(node.tokens);
    tree.forest.labels.push_back(
        excerpt(node_text(tree, prompts, static_cast<int>(tree.tokens.size()) - 1), 160));
  }
  for (int const node : node_of_prompt) {
    tree.forest.request_nodes.push_back(place[node]);
  }
  return tree;
}

}  // namespace fasttree::examples
