// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trees and heads that bench_cuda_attention measures.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/tree/prefix_tree.hpp>
#include "../support/forests.hpp"
#include "../support/heads.hpp"
#include "yardsticks.hpp"

namespace fasttree::bench {

struct Case {
  std::string kind;  ///< paper, unshared, prefix or real
  NamedForest tree;
  Heads heads;

  std::string name() const { return tree.name + "/" + heads.name(); }
  bool sharing() const { return kind == "paper"; }
};

/// `requests` requests of `tokens` tokens each.
inline NamedForest unshared_forest(int requests, int tokens) {
  std::string const name = "unshared_" + std::to_string(requests) + "_of_" + std::to_string(tokens);
  return {name, test::level_forest({std::max(1, requests / shrink())}, {tokens})};
}

/// The same, below `prefix` tokens that all share.
inline NamedForest short_prefix_forest(int prefix, int requests, int tokens) {
  std::string const name = "prefix_" + std::to_string(prefix) + "_under_" +
                           std::to_string(requests) + "_of_" + std::to_string(tokens);
  return {name, test::level_forest({1, std::max(1, requests / shrink())}, {prefix, tokens})};
}

/// The paper's trees, requests that share nothing or a short prefix, and the trees of a file: all
/// whose name contains `text`.
inline std::vector<Case> cases_named(std::string const& text,
                                     std::vector<NamedForest> const& real) {
  std::vector<Case> cases;
  for (NamedForest const& tree : paper_forests())
    for (Heads const heads : paper_heads()) cases.push_back({"paper", tree, heads});
  for (int const tokens : {1024, 4096})
    for (Heads const heads : paper_heads())
      cases.push_back({"unshared", unshared_forest(256, tokens), heads});
  for (Heads const heads : paper_heads())
    cases.push_back({"prefix", short_prefix_forest(128, 128, 1024), heads});
  for (NamedForest const& tree : real)
    for (Heads const heads : {Heads{32, 8}, Heads{32, 32}}) cases.push_back({"real", tree, heads});
  std::erase_if(cases,
                [&](Case const& each) { return each.name().find(text) == std::string::npos; });
  return cases;
}

/// Counted from the tree, without any plan.
inline Demand demand_of(PrefixTree const& tree, Heads heads, int head_dim, int element_bytes) {
  double unique = 0, path = 0;
  for (int node = 0; node < tree.nodes(); ++node)
    if (tree.queries_under(node) > 0) unique += tree.length(node);
  for (int request = 0; request < tree.requests(); ++request)
    path += tree.path_length(tree.request(request).node);
  double const row_bytes =
      2.0 * head_dim * element_bytes;  // a key and a value, a query and a result
  double const outside = row_bytes * heads.queries * tree.queries();
  return {.bytes = unique * heads.keys * row_bytes + outside,
          .dense_bytes = path * heads.keys * row_bytes + outside,
          .flops = 4.0 * path * heads.queries * head_dim};
}

}  // namespace fasttree::bench
