// SPDX-License-Identifier: Apache-2.0
#pragma once
// The planners that bench_cuda_attention can plan with, each for the device and its backend.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fasttree/make_plan.hpp>
#include "arrays.hpp"
#include "options.hpp"

namespace fasttree::bench {

using Shape = AttentionShape<half, head_dim>;
using Backend = DefaultBackend<Space, Shape>;
using Plan = AttentionPlan<Space, Shape, Backend>;

struct DevicePlanner {
  std::string option, name;
  std::function<void(Space const&, PrefixTree const&, Plan&)> plan_into;
};

template <class... Policy>
DevicePlanner device_planner(std::string option, std::string name, Policy const&... policy) {
  return {std::move(option), std::move(name),
          [=](Space const& space, PrefixTree const& tree, Plan& plan) {
            make_plan_into(space, tree, plan, policy...);
          }};
}

/// The default planner, and those of these options. Errors: `BadArguments`.
inline std::vector<DevicePlanner> device_planners(std::vector<std::string> const& options) {
  std::vector<DevicePlanner> const others{
      device_planner("pieces", "MinimalTraffic_pieces_of_2048",
                     MinimalTraffic<>{Backend::costs, 2048}),
      device_planner("greedy", "GreedyEdges", GreedyEdges<>{}),
      device_planner("every_node", "ShareEveryNode", ShareEveryNode{}),
      device_planner("no_sharing", "NoSharing", NoSharing{})};
  std::vector<DevicePlanner> chosen{device_planner("minimal", "MinimalTraffic")};
  auto const find = [](auto const& planners, std::string const& option) {
    return std::find_if(planners.begin(), planners.end(),
                        [&](DevicePlanner const& planner) { return planner.option == option; });
  };
  for (std::string const& option : options) {
    if (find(chosen, option) != chosen.end()) continue;
    auto const found = find(others, option);
    if (found == others.end()) throw BadArguments("--planners: no planner \"" + option + "\"");
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace fasttree::bench
