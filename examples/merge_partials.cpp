// SPDX-License-Identifier: Apache-2.0
// Attention in two places: each has some of the keys and yields a partial result, an output and its
// log-sum-exp; `merge` makes of both what one place with all keys would have had.

#include <fasttree/core/partials.hpp>
#include <fasttree/tree_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>

using Space = Kokkos::DefaultExecutionSpace;
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

Array make_array(std::string const& name, std::int64_t rows, int heads) {
  Array const array(name, rows, heads, 64);
  Kokkos::parallel_for(
      name, Kokkos::RangePolicy<Space>(0, array.size()),
      KOKKOS_LAMBDA(int i) { array.data()[i] = static_cast<float>(i * 7919LL % 2003) / 1001 - 1; });
  return array;
}

/// Attention of two queries to `tokens` keys from row `begin` on.
fasttree::Partials<Space> attend(Space const& space, Array const& queries, Array const& keys,
                                 Array const& values, int begin, int tokens) {
  int const parents[] = {-1}, lengths[] = {tokens};
  fasttree::Request const requests[] = {{0}, {0}};
  fasttree::PrefixTree const tree(parents, lengths, requests);
  fasttree::AttentionShape<float, 64> const shape{.query_heads = 8, .kv_heads = 2};
  auto const plan = fasttree::make_plan(space, tree, shape);
  auto const workspace = fasttree::make_workspace(space, plan);

  auto const rows = std::make_pair(begin, begin + tokens);
  auto const cache =
      fasttree::make_contiguous_cache(space, Kokkos::subview(keys, rows, Kokkos::ALL, Kokkos::ALL),
                                      Kokkos::subview(values, rows, Kokkos::ALL, Kokkos::ALL));
  auto const result = fasttree::make_partials(space, tree.queries(), 8, 64);
  fasttree::tree_attention(space, plan, queries, cache, result.outputs, result.log_sum_exps,
                           workspace);
  space.fence();  // the plan and the workspace end here
  return result;
}

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  Space const space;
  Array const queries = make_array("queries", 2, 8);
  Array const keys = make_array("keys", 1000, 2), values = make_array("values", 1000, 2);

  auto const whole = attend(space, queries, keys, values, 0, 1000);
  auto const first = attend(space, queries, keys, values, 0, 700);
  auto const second = attend(space, queries, keys, values, 700, 300);
  fasttree::merge(space, first, second);  // first := first and second

  auto const merged = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), first.outputs);
  auto const expected = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), whole.outputs);
  float difference = 0;
  for (std::size_t i = 0; i < merged.size(); ++i)
    difference = std::max(difference, std::abs(merged.data()[i] - expected.data()[i]));
  std::cout << "largest difference between two places and one: " << difference << '\n';
  float const tolerance = 1000 * 0x1p-23f;  // keys times the distance of floats near 1
  return difference <= tolerance ? 0 : 1;
}
