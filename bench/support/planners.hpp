// SPDX-License-Identifier: Apache-2.0
#pragma once
// The planners that are compared, and what each plans for. All plan for the model of an H200; but
// the paper's planner also for what its constants and rules were made for, its own tiles. These are
// no taller than the model's, so that its plans can run in the model's tiles.

#include <string>

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>
#include "heads.hpp"
#include "modelled_h200.hpp"

namespace fasttree::bench {

/// What the paper's artifact plans for.
constexpr PlanTarget paper_target(int query_heads, int kv_heads) {
  return {.tiles = {.wide = {64, 32}, .narrow = {16, 32}},
          .group = query_heads / kv_heads,
          .kv_heads = kv_heads,
          .slots = 132};
}

struct Planner {
  std::string name;
  PlanTarget (*target)(int query_heads, int kv_heads);
  void (*build)(PrefixTree const&, PlanTarget const&, Grouping&, PlanTables&);

  void plan(PrefixTree const& tree, Heads heads, Grouping& grouping, PlanTables& tables) const {
    build(tree, target(heads.queries, heads.keys), grouping, tables);
  }
};

namespace detail {

template <auto make_policy>
void build(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping,
           PlanTables& tables) {
  build_plan(tree, target, make_policy(), grouping, tables);
}

}  // namespace detail

inline Planner const minimal_traffic{"MinimalTraffic", h200_target,
                                     detail::build<[] { return MinimalTraffic<>{modelled_h200}; }>};

inline Planner const fixed_pieces{"MinimalTraffic_pieces_of_2048", h200_target, detail::build<[] {
                                    return MinimalTraffic<>{modelled_h200, 2048};
                                  }>};

inline Planner const greedy_edges{"GreedyEdges", paper_target,
                                  detail::build<[] { return GreedyEdges<>{}; }>};

inline Planner const greedy_edges_for_h200{"GreedyEdges_for_h200", h200_target,
                                           detail::build<[] { return GreedyEdges<>{}; }>};

inline Planner const share_every_node{"ShareEveryNode", h200_target,
                                      detail::build<[] { return ShareEveryNode{}; }>};

inline Planner const no_sharing{"NoSharing", h200_target,
                                detail::build<[] { return NoSharing{}; }>};

}  // namespace fasttree::bench
