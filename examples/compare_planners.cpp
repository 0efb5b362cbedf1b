// SPDX-License-Identifier: Apache-2.0
// Two planners on one tree, for a machine that need not be there: a plan is made from a description
// of the machine, and a picture from the plan. If no tree is given, it is one on which the FastTree
// paper measures; the machine is an H200, by costs fitted to plans measured on one.
//
//     compare_planners [PICTURE.svg [TREE]]      TREE: "parent id tokens children" a line

#include <fasttree/backend/cuda/sm80/costs.hpp>
#include <fasttree/plan/draw_plans.hpp>
#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/forest.hpp"
#include "support/tree_file.hpp"

using namespace fasttree;
using fasttree::examples::Forest;

/// Level by level: how many nodes, evenly below those of the level above, and their tokens. A
/// request hangs on each node of the last level.
Forest levels(std::vector<int> const& nodes, std::vector<int> const& tokens) {
  Forest forest;
  int above = -1;  // the first node of the level above
  for (std::size_t level = 0; level < nodes.size(); ++level) {
    int const first = static_cast<int>(forest.parents.size());
    int const below_one = level == 0 ? 1 : nodes[level] / nodes[level - 1];
    for (int i = 0; i < nodes[level]; ++i) {
      forest.parents.push_back(level == 0 ? -1 : above + i / below_one);
      forest.lengths.push_back(tokens[level]);
      if (level + 1 == nodes.size()) forest.request_nodes.push_back(first + i);
    }
    above = first;
  }
  return forest;
}

template <class Policy>
PlanTables plan(PrefixTree const& tree, PlanTarget const& target, Policy const& policy) {
  Grouping grouping;
  PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  return tables;
}

int compare(std::vector<std::string> const& arguments) {
  Forest const forest = arguments.size() > 1
                            ? examples::read_tree_file(arguments[1])
                            : levels({1, 16, 32, 64, 128, 1024}, {256, 128, 64, 16, 16, 16});
  std::vector<Request> requests;
  for (int const node : forest.request_nodes) requests.push_back({node});
  PrefixTree const tree(forest.parents, forest.lengths, requests);

  // 32 query heads and 8 KV heads of 128, of 16 bits.
  MachineCosts const& costs = cuda::sm80::h200_costs<8>;
  PlanTarget const target{
      .tiles = {.wide = cuda::sm80::wide_tile<8>, .narrow = cuda::sm80::narrow_tile<8>},
      .group = 4,
      .kv_heads = 8,
      .slots = cuda::sm80::h200_slots<8>};
  PlanTables const greedy = plan(tree, target, GreedyEdges<>{});
  PlanTables const minimal = plan(tree, target, MinimalTraffic<>{costs});
  NamedPlan const plans[] = {{"GreedyEdges", &greedy, costs}, {"MinimalTraffic", &minimal, costs}};

  for (auto const& [name, tables, machine] : plans) {
    PlanSummary const sum = summarize(*tables);
    double const mb = 1e-6;
    std::printf(
        "%-15s%5lld items, %.2f partial results per query; MB: %.1f of keys, %.1f again, "
        "%.1f of queries and outputs, %.1f of partial results; predicted %.1f us, floor %.1f\n",
        std::string(name).c_str(), static_cast<long long>(sum.wide_items + sum.narrow_items),
        sum.queries > 0 ? static_cast<double>(sum.partials) / sum.queries : 0.0,
        mb * (sum.key_bytes - sum.reread_bytes), mb * sum.reread_bytes, mb * sum.query_bytes,
        mb * sum.partial_bytes, predict(*tables, machine), predict_floor(*tables, machine));
  }
  if (arguments.empty()) return 0;
  std::string const note = std::to_string(tree.requests()) + " requests, " +
                           std::to_string(tree.nodes()) +
                           " nodes; 32 query heads, 8 KV heads of 128, 16 bits; for an H200 "
                           "whose costs were fitted to measured plans";
  examples::write_file(arguments[0], draw_plans(plans, "Two planners on one prefix tree", note));
  return 0;
}

int main(int argc, char** argv) {
  try {
    return compare({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "compare_planners: %s\n", error.what());
    return 2;
  }
}
