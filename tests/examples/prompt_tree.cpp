// SPDX-License-Identifier: Apache-2.0
// The prefix tree of prompts: shapes by hand, and on random prompts the laws of a radix tree.

#include "support/prompt_tree.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using fasttree::examples::build_prompt_tree;
using fasttree::examples::Forest;
using fasttree::examples::node_text;
using fasttree::examples::PromptTree;
using fasttree::examples::TokenRange;
using Prompts = std::vector<std::string>;

/// The text of the path from the root to `node`.
std::string path_text(PromptTree const& tree, Prompts const& prompts, int node) {
  std::string text;
  for (; node >= 0; node = tree.forest.parents[node]) {
    text.insert(0, node_text(tree, prompts, node));
  }
  return text;
}

/// What makes the tree the radix tree of `prompts`, and in depth-first order.
void check_laws(Prompts const& prompts) {
  PromptTree const tree = build_prompt_tree(prompts);
  Forest const& forest = tree.forest;
  int const nodes = static_cast<int>(forest.parents.size());
  REQUIRE(forest.request_nodes.size() == prompts.size());
  REQUIRE(forest.lengths.size() == forest.parents.size());
  REQUIRE(forest.labels.size() == forest.parents.size());
  REQUIRE(tree.tokens.size() == forest.parents.size());
  std::vector<int> children(nodes), requests(nodes);
  std::set<std::pair<int, char>> beginnings;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CHECK(path_text(tree, prompts, forest.request_nodes[i]) == prompts[i]);
    ++requests[forest.request_nodes[i]];
  }
  std::vector<int> path;
  for (int node = 0; node < nodes; ++node) {
    int const parent = forest.parents[node];
    REQUIRE(parent < node);
    while (!path.empty() && path.back() != parent) path.pop_back();
    CHECK((path.empty() ? -1 : path.back()) == parent);  // depth-first
    path.push_back(node);
    if (parent >= 0) ++children[parent];
    TokenRange const range = tree.tokens[node];
    CHECK(range.end - range.begin == forest.lengths[node]);
    CHECK(range.begin == (parent < 0 ? 0 : tree.tokens[parent].end));
    std::string_view const text = node_text(tree, prompts, node);
    if (text.empty()) {
      CHECK(node == 0);  // the root of empty prompts
    } else {
      CHECK(beginnings.insert({parent, text[0]}).second);  // siblings part at once
    }
  }
  for (int node = 0; node < nodes; ++node) CHECK((requests[node] > 0 || children[node] > 1));
}

}  // namespace

TEST_CASE("prompts that part: an inner node for what they share") {
  Prompts const prompts{"abcx", "abcyz"};
  PromptTree const tree = build_prompt_tree(prompts);
  CHECK(tree.forest.parents == std::vector{-1, 0, 0});
  CHECK(tree.forest.lengths == std::vector{3, 1, 2});
  CHECK(tree.forest.request_nodes == std::vector{1, 2});
  CHECK(tree.forest.labels == Prompts{"abc", "x", "yz"});
  CHECK(tree.tokens == std::vector<TokenRange>{{0, 0, 3}, {0, 3, 4}, {1, 3, 5}});
}

TEST_CASE("equal prompts hang on one node") {
  Forest const forest = build_prompt_tree(Prompts{"same", "same", "same"}).forest;
  CHECK(forest.parents == std::vector{-1});
  CHECK(forest.request_nodes == std::vector{0, 0, 0});
}

TEST_CASE("a prompt that begins another hangs on an inner node") {
  Forest const forest = build_prompt_tree(Prompts{"abc", "ab", "abcd"}).forest;
  CHECK(forest.parents == std::vector{-1, 0, 1});
  CHECK(forest.lengths == std::vector{2, 1, 1});
  CHECK(forest.request_nodes == std::vector{1, 0, 2});
}

TEST_CASE("prompts that share nothing give several roots") {
  Forest const forest = build_prompt_tree(Prompts{"b", "a", "c"}).forest;
  CHECK(forest.parents == std::vector{-1, -1, -1});
  CHECK(forest.request_nodes == std::vector{1, 0, 2});
}

TEST_CASE("an empty prompt hangs on an empty root") {
  Forest forest = build_prompt_tree(Prompts{""}).forest;
  CHECK(forest.lengths == std::vector{0});
  CHECK(forest.request_nodes == std::vector{0});
  forest = build_prompt_tree(Prompts{"a", "", "b", ""}).forest;
  CHECK(forest.parents == std::vector{-1, 0, 0});
  CHECK(forest.lengths == std::vector{0, 1, 1});
  CHECK(forest.request_nodes == std::vector{1, 0, 2, 0});
}

TEST_CASE("no prompts give an empty forest") {
  CHECK(build_prompt_tree(Prompts{}).forest == Forest{});
}

TEST_CASE("bytes are compared without sign, zero bytes are tokens, labels are valid UTF-8") {
  Prompts const prompts{"\u00e9", "\u00e8", std::string("a\0b", 3), "a"};
  check_laws(prompts);
  PromptTree const tree = build_prompt_tree(prompts);
  CHECK(tree.forest.labels == Prompts{"a", "\ufffdb", "\ufffd", "\ufffd", "\ufffd"});
}

TEST_CASE(
    "random prompts: every path spells its prompt, siblings part at once, none is superfluous") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Prompts prompts;
    int const count = static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) {
      std::string prompt;
      if (!prompts.empty() && random() % 2 == 0) {
        std::string const& other = prompts[random() % prompts.size()];
        prompt = other.substr(0, random() % (other.size() + 1));
      }
      for (unsigned letters = random() % 6; letters > 0; --letters) {
        prompt += static_cast<char>('a' + random() % 2);
      }
      prompts.push_back(prompt);
    }
    check_laws(prompts);
  }
}

TEST_CASE("a staircase of 5 000 prompts is a chain, built without recursion") {
  Prompts prompts;
  for (int i = 1; i <= 5'000; ++i) prompts.emplace_back(i, 'a');
  Forest const forest = build_prompt_tree(prompts).forest;
  REQUIRE(forest.parents.size() == 5'000);
  CHECK(forest.parents.back() == 4'998);
  CHECK(forest.request_nodes.back() == 4'999);
}
