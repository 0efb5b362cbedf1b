// SPDX-License-Identifier: Apache-2.0
#pragma once
// A use of all verbs, the same in both units.

#include <fasttree/fasttree.hpp>

/// One element of attention over values that are all 1: 1.
inline float attend() {
  Kokkos::DefaultHostExecutionSpace const space;
  int const parents[] = {-1, 0}, lengths[] = {5, 3};
  fasttree::Request const requests[] = {{1}, {0}};
  fasttree::PrefixTree const tree(parents, lengths, requests);
  auto const plan = fasttree::make_plan(space, tree, fasttree::AttentionShape<float, 8>{});
  auto const workspace = fasttree::make_workspace(space, plan);
  using Array = Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::HostSpace>;
  Array const queries("queries", 2, 1, 8), output("output", 2, 1, 8);
  Array const keys("keys", tree.slots(), 1, 8), values("values", tree.slots(), 1, 8);
  Kokkos::deep_copy(values, 1.f);
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);
  fasttree::tree_attention(space, plan, queries, cache, output, workspace);
  space.fence();
  return output(1, 0, 7);
}
