// SPDX-License-Identifier: Apache-2.0
// What plans are predicted to cost, counted and not timed: the bytes that each planner's plan moves
// on the FastTree paper's trees and on batches from request traces (FASTTREE_TREES names a file of
// them), and the time that the model of an H200 takes for them. One model judges all plans, in the
// same tiles, whatever they were planned for. Writes JSON to stdout, one line for a plan. Fails
// where MinimalTraffic is predicted to take longer than no sharing. FASTTREE_BENCHMARK_SHRINK=8
// divides the paper's trees by 8.

#include <cstdio>
#include <string>
#include <vector>

#include <fasttree/plan/predict.hpp>
#include "cuda/yardsticks.hpp"
#include "support/forests.hpp"
#include "support/json_fields.hpp"
#include "support/planners.hpp"

namespace {

using namespace fasttree;
using bench::Fields;
using bench::Heads;
using bench::modelled_h200;
using bench::NamedForest;
using bench::Planner;

/// A plan as the modelled H200 would carry it out.
PlanTables plan_for_h200(PrefixTree const& tree, Heads heads, Planner const& planner) {
  Grouping grouping;
  PlanTables tables;
  planner.plan(tree, heads, grouping, tables);
  PlanTarget const h200 = bench::h200_target(heads.queries, heads.keys);
  // Items stay as they are: those of few queries take the narrow tile, unless it was given up.
  tables.tiles = h200.tiles;
  tables.target = h200;
  return tables;
}

/// Of all items and KV heads.
struct Traffic {
  double new_keys = 0, more_keys = 0, rows = 0, partials = 0;  // bytes
  int wide_items = 0, narrow_items = 0;
};

Traffic count(PlanTables const& tables) {
  PlanTarget const& target = tables.target;
  Traffic sum;
  for (WorkItem const& item : tables.items) {
    ItemWork const work = work_of(tables, item);
    double const heads = target.kv_heads;
    sum.new_keys += work.new_keys * target.key_bytes * heads;
    sum.more_keys += work.more_keys * target.key_bytes * heads;
    sum.rows += work.rows * target.row_bytes * heads;
    sum.partials += 2 * work.partial_rows * target.partial_bytes * heads;
    bool const narrow = item.query_end - item.query_begin <= tables.narrow_queries;
    ++(narrow ? sum.narrow_items : sum.wide_items);
  }
  return sum;
}

/// Writes lines and remembers whether the claim held.
class Report {
 public:
  void add(char const* source, NamedForest const& named, Heads heads,
           std::vector<Planner> const& planners) {
    PrefixTree const tree = named.forest.tree();
    double minimal = 0;
    for (Planner const& planner : planners) {
      PlanTables const tables = plan_for_h200(tree, heads, planner);
      Traffic const traffic = count(tables);
      double const time = predict(tables, modelled_h200);
      double const outside = 1.0 * tree.queries() * heads.queries * tables.target.row_bytes;
      Fields fields;
      fields.add("source", source).add("tree", named.name).add("heads", heads.name());
      fields.add("planner", planner.name).add("nodes", tree.nodes());
      fields.add("requests", tree.requests()).add("predicted_us", time);
      fields.add("floor_us", predict_floor(tables, modelled_h200));
      fields.add("bandwidth_us", 1e6 * (traffic.new_keys + outside) / bench::h200.bandwidth);
      fields.add("new_key_bytes", traffic.new_keys).add("more_key_bytes", traffic.more_keys);
      fields.add("row_bytes", traffic.rows).add("partial_bytes", traffic.partials);
      // One partial result of a query, of all heads, written and read.
      fields.add("partial_bytes_of_query", 2.0 * heads.queries * tables.target.partial_bytes);
      fields.add("wide_items", traffic.wide_items).add("narrow_items", traffic.narrow_items);
      fields.add("partials_per_request", 1.0 * tables.partials / tree.requests());
      std::printf("%s\n {%s}", any_ ? "," : "[", fields.text().c_str());
      any_ = true;

      if (planner.name == bench::minimal_traffic.name) minimal = time;
      if (planner.name == bench::no_sharing.name && minimal > time) {
        std::fprintf(stderr, "%s, %s: predicted %g us, and %g us without sharing\n",
                     named.name.c_str(), heads.name().c_str(), minimal, time);
        holds_ = false;
      }
    }
  }

  bool finish() const {
    std::printf("\n]\n");
    return holds_;
  }

 private:
  bool any_ = false, holds_ = true;
};

}  // namespace

int main() {
  std::vector<Planner> const planners{bench::minimal_traffic,  bench::fixed_pieces,
                                      bench::greedy_edges,     bench::greedy_edges_for_h200,
                                      bench::share_every_node, bench::no_sharing};
  Report report;
  for (NamedForest const& named : bench::paper_forests())
    for (Heads const heads : bench::paper_heads()) report.add("paper", named, heads, planners);
  for (NamedForest const& named : bench::real_forests())
    for (Heads const heads : {Heads{32, 8}, Heads{32, 32}})
      report.add("real", named, heads, planners);
  return report.finish() ? 0 : 1;
}
