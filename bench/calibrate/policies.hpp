// SPDX-License-Identifier: Apache-2.0
#pragma once
// The planners whose plans a machine is calibrated by: all that there are, and MinimalTraffic told of
// other machines, which makes items of other sizes, in other tiles, with more partial results.

#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include <fasttree/planner/policies.hpp>

namespace fasttree::bench {

/// Calls use(name, policy) for each; `costs` are those by which the machine plans.
template <class Use>
void each_policy(MachineCosts const& costs, Use const& use) {
  use("MinimalTraffic", MinimalTraffic<>{costs});
  use("MinimalTraffic_pieces_of_2048", MinimalTraffic<>{costs, 2048});
  use("MinimalTraffic_pieces_of_512", MinimalTraffic<>{costs, 512});
  use("GreedyEdges", GreedyEdges<>{});
  use("ShareEveryNode", ShareEveryNode{});
  use("NoSharing", NoSharing{});
  auto const use_changed = [&](char const* name, auto const& change) {
    MachineCosts other = costs;
    change(other);
    use(name, MinimalTraffic<>{other});
  };
  use_changed("MinimalTraffic_of_cheap_items",
              [](MachineCosts& other) { other.item /= 8, other.results *= 8, other.merge /= 8; });
  use_changed("MinimalTraffic_of_dear_items", [](MachineCosts& other) { other.item *= 4; });
  use_changed("MinimalTraffic_of_narrow_tiles",
              [](MachineCosts& other) { other.narrow *= 4, other.wide /= 4, other.results *= 4; });
  use_changed("MinimalTraffic_of_wide_tiles", [](MachineCosts& other) { other.narrow /= 8; });
  use_changed("MinimalTraffic_of_slow_memory",
              [](MachineCosts& other) { other.memory /= 4, other.cache /= 4; });
}

}  // namespace fasttree::bench
