// SPDX-License-Identifier: Apache-2.0
// The loop of a serving engine. Keys and values lie in pages of 16 tokens, which requests take from a pool
// as they grow. The tree keeps key slots free behind each request's tokens, so that most steps only append
// a token to the plan; where these are used up, the tree is planned anew, into the plan and the workspace
// that are there. Slots that are free cost an entry of the page table, no page.
// Queries are 0 and the value of a token is its position, so that the output of a request must be the
// mean of its positions.

#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>

#include <cmath>
#include <iostream>
#include <vector>

using Space = Kokkos::DefaultExecutionSpace;
using Pages = Kokkos::View<float****, Kokkos::LayoutRight, Space>;

constexpr int page_size = 16, room = 2 * page_size, pool_size = 64, kv_heads = 2, query_heads = 8,
              head_dim = 64;

/// Nodes of a tree, the pages in which their tokens lie, and the pool from which pages are taken.
struct Engine {
  std::vector<int> parents{-1, 0, 0, 0}, lengths{0, 0, 0, 0};
  std::vector<fasttree::Request> requests{{1}, {2}, {3}};
  std::vector<std::vector<int>> pages_of_node{4};
  int pages_taken = 0;
  Pages keys{"keys", pool_size, page_size, kv_heads, head_dim};
  Pages values{"values", pool_size, page_size, kv_heads, head_dim};

  void append_token(int node, float value) {
    int const place = lengths[node]++ % page_size;
    // Any free page serves: this pool gives them out from both ends.
    if (place == 0) {
      int const taken = pages_taken++;
      pages_of_node[node].push_back(taken % 2 == 0 ? taken / 2 : pool_size - 1 - taken / 2);
    }
    int const page = pages_of_node[node].back();
    Kokkos::deep_copy(Kokkos::subview(values, page, place, Kokkos::ALL, Kokkos::ALL), value);
  }

  fasttree::PrefixTree tree() const {
    return {parents, lengths, requests, {.alignment = page_size, .room = room}};
  }

  /// Where the slots of the tree lie: each node on pages of its own, its room on none as yet.
  Kokkos::View<int*, Space> page_table(fasttree::PrefixTree const& tree) const {
    Kokkos::View<int*, Space> const table("page table", tree.slots() / page_size);
    auto const host = Kokkos::create_mirror_view(table);
    for (int node = 0; node < tree.nodes(); ++node) {
      auto entry = tree.slot_begin(node) / page_size;
      for (int const page : pages_of_node[node]) host(entry++) = page;
    }
    Kokkos::deep_copy(table, host);
    return table;
  }
};

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  Space const space;
  Engine engine;
  for (int i = 0; i < 100; ++i) engine.append_token(0, i);  // the prompt that all share

  fasttree::AttentionShape<float, head_dim> const shape{query_heads, kv_heads};
  fasttree::PrefixTree tree = engine.tree();
  auto plan = fasttree::make_plan(space, tree, shape);
  auto workspace = fasttree::make_workspace(space, plan);
  Kokkos::View<float***, Space> const queries("queries", 3, query_heads, head_dim);
  Kokkos::View<float***, Space> const output("output", 3, query_heads, head_dim);

  bool right = true;
  int plans = 1;
  for (int step = 0; step < 40; ++step) {
    for (auto const& request : engine.requests) engine.append_token(request.node, 100 + step);

    if (!fasttree::append_tokens(space, plan)) {
      tree = engine.tree();
      fasttree::make_plan_into(space, tree, plan);
      if (fasttree::workspace_bytes(space, plan) > workspace.bytes())
        workspace = fasttree::make_workspace(space, plan);
      ++plans;
    }
    auto const table = engine.page_table(tree);
    auto const cache = fasttree::make_paged_cache(space, engine.keys, engine.values, table);
    fasttree::tree_attention(space, plan, queries, cache, output, workspace);

    auto const result = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
    int const tokens = 101 + step;
    float const mean = (tokens - 1) / 2.f;
    for (int request = 0; request < 3; ++request)  // rounding: at most one unit for each key
      right = right && std::abs(result(request, 0, 0) - mean) <= tokens * 0x1p-24f * mean;
  }
  std::cout << engine.pages_taken << " pages of " << page_size << " tokens, " << plans << " plans, "
            << (right ? "all outputs are right\n" : "an output is wrong\n");
  return right ? 0 : 1;
}
