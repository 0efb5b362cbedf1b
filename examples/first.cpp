// SPDX-License-Identifier: Apache-2.0
#include <fasttree/tree_attention.hpp>
#include <iostream>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  Kokkos::DefaultExecutionSpace const space;

  // A prompt of 1000 tokens is node 0; three requests share it, each with 20 tokens of its own.
  int const parents[] = {-1, 0, 0, 0}, lengths[] = {1000, 20, 20, 20};
  fasttree::Request const requests[] = {{1}, {2}, {3}};
  fasttree::PrefixTree const tree(parents, lengths, requests);

  fasttree::AttentionShape<float, 128> const shape{.query_heads = 32, .kv_heads = 8};
  auto const plan = fasttree::make_plan(space, tree, shape);
  auto const workspace = fasttree::make_workspace(space, plan);

  using Array = Kokkos::View<float***, Kokkos::LayoutRight>;
  Array const queries("queries", 3, 32, 128), output("output", 3, 32, 128);
  Array const keys("keys", tree.slots(), 8, 128), values("values", tree.slots(), 8, 128);
  Kokkos::deep_copy(values, 1.f);  // so that every output, a weighted mean of values, is 1
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);

  fasttree::tree_attention(space, plan, queries, cache, output, workspace);

  auto const result = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
  std::cout << fasttree::explain(plan) << "output(2, 31, 127) = " << result(2, 31, 127) << '\n';
}
