// SPDX-License-Identifier: Apache-2.0
// A cost model of one's own: MinimalTraffic asks it what an item of some work costs, and plans by
// its answers. This one counts energy in place of time, so that there is no reason to fill the
// machine, only to do less. The plan changes; the result of attention does not, up to rounding.

#include <fasttree/plan/predict.hpp>
#include <fasttree/tree_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

/// Nanojoules of a battery-driven machine, as far as one may guess them.
struct EnergyCosts {
  double item = 1;
  double from_memory = 20e-3;  ///< of a byte
  double from_cache = 2e-3;
  double multiply = 0.5e-3;  ///< of a flop
  /// A slot that rests costs nothing: of all items the sum counts, not how evenly slots share it.
  double alone = std::numeric_limits<double>::infinity();

  double item_time(fasttree::PlanTarget const& target, fasttree::ItemWork const& work) const {
    double const new_bytes = target.key_bytes * work.new_keys;
    double const more_bytes = target.key_bytes * work.more_keys + target.row_bytes * work.rows +
                              2 * target.partial_bytes * work.partial_rows;
    return item + from_memory * new_bytes + from_cache * more_bytes +
           multiply * target.flops * (work.wide_rows + work.narrow_rows);
  }

  double of(fasttree::PlanTables const& tables) const {
    double sum = 0;
    for (fasttree::WorkItem const& work_item : tables.items)
      sum += item_time(tables.target, work_of(tables, work_item));
    return tables.target.kv_heads * sum;
  }
};

using Space = Kokkos::DefaultExecutionSpace;
using Array = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

Array make_array(std::string const& name, std::int64_t rows, int heads) {
  Array const array(name, rows, heads, 64);
  Kokkos::parallel_for(
      name, Kokkos::RangePolicy<Space>(0, array.size()),
      KOKKOS_LAMBDA(int i) { array.data()[i] = static_cast<float>(i * 7919LL % 2003) / 1001 - 1; });
  return array;
}

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  Space const space;

  // A system prompt, six documents below it, and four questions about each.
  std::vector<int> parents{-1}, lengths{400};
  std::vector<fasttree::Request> requests;
  for (int document = 0; document < 6; ++document) {
    int const node = static_cast<int>(parents.size());
    parents.push_back(0);
    lengths.push_back(100 + 40 * document);
    for (int question = 0; question < 4; ++question) {
      requests.push_back({static_cast<int>(parents.size())});
      parents.push_back(node);
      lengths.push_back(10 + 5 * question);
    }
  }
  fasttree::PrefixTree const tree(parents, lengths, requests);
  fasttree::AttentionShape<float, 64> const shape{.query_heads = 8, .kv_heads = 2};

  Array const queries = make_array("queries", tree.queries(), 8);
  Array const keys = make_array("keys", tree.slots(), 2);
  Array const values = make_array("values", tree.slots(), 2);
  auto const cache = fasttree::make_contiguous_cache(space, keys, values);  // refers to them
  auto const attend = [&](char const* goal, auto const& planner) {
    auto const plan = fasttree::make_plan(space, tree, shape, planner);
    auto const workspace = fasttree::make_workspace(space, plan);
    Array const output("output", tree.queries(), 8, 64);
    fasttree::tree_attention(space, plan, queries, cache, output, workspace);
    std::cout << "planned for least " << goal << ", " << EnergyCosts{}.of(plan.tables()) * 1e-3
              << " microjoules\n"
              << fasttree::explain(plan);
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
  };
  auto const costs = fasttree::DefaultBackend<Space>::costs;
  auto const reference = attend("time", fasttree::MinimalTraffic<>{costs});
  auto const frugal = attend("energy", fasttree::MinimalTraffic<EnergyCosts>{});

  float difference = 0;
  for (std::size_t i = 0; i < frugal.size(); ++i)
    difference = std::max(difference, std::abs(frugal.data()[i] - reference.data()[i]));
  std::cout << "largest difference " << difference << '\n';
  float const tolerance =
      725 * 0x1p-23f;  // keys of the longest path times the distance of floats near 1
  return difference <= tolerance ? 0 : 1;
}
