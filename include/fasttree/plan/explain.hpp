// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a plan costs and why it is as it is: predicted bytes and time, partial results, padding, and
// the choices that the planner weighed, where it notes them: GreedyEdges does. Counted from the
// plan's tables, so it holds for every planner, and for machines that are not there.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include <fasttree/core/element.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/plan/attention_plan.hpp>
#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/plan/predict.hpp>

namespace fasttree {

/// What one call of attention moves and computes by a plan, over all heads.
struct PlanSummary {
  std::int64_t queries = 0, wide_items = 0, narrow_items = 0;
  std::int64_t unique_keys = 0;   ///< distinct keys that some query attends to
  std::int64_t keys_read = 0;     ///< keys that items read: with re-reads, once per item
  std::int64_t keys_reread = 0;   ///< of keys_read, without each key's first item
  std::int64_t path_keys = 0;     ///< keys that attention without sharing would read
  std::int64_t key_bytes = 0;     ///< of keys_read, keys and values
  std::int64_t reread_bytes = 0;  ///< of keys_reread
  std::int64_t unique_key_bytes = 0;
  std::int64_t path_key_bytes = 0;
  std::int64_t query_bytes = 0;    ///< queries read and outputs written, once each
  std::int64_t partials = 0;       ///< partial results, each of all query heads
  std::int64_t partial_bytes = 0;  ///< written and read back
  double row_padding = 0;          ///< share of computed pairs (row, key) outside the key's range
  double key_padding = 0;          ///< share of tile keys beyond the end of an item's range
};

/// Counts what the plan will do. Time: linear in its items and their ranges.
constexpr PlanSummary summarize(PlanTables const& tables) {
  PlanTarget const& target = tables.target;
  PlanSummary sum;
  sum.queries = static_cast<std::int64_t>(tables.query_order.size());
  sum.unique_keys = tables.unique_keys;
  sum.path_keys = tables.path_keys;
  std::int64_t const group = target.group;
  std::int64_t pairs = 0, computed_pairs = 0, tile_keys = 0;  // pairs of a row and a key
  for (WorkItem const& item : tables.items) {
    bool const wide = item.query_end - item.query_begin > tables.narrow_queries;
    TilePolicy const& tile = wide ? tables.tiles.wide : tables.tiles.narrow;
    ++(wide ? sum.wide_items : sum.narrow_items);
    for (KeyRange const& range : tables.ranges_of(item)) {
      std::int64_t const begin = group * std::max(range.query_begin - item.query_begin, 0);
      std::int64_t const end =
          group * (std::min(range.query_end, item.query_end) - item.query_begin);
      if (begin >= end) continue;
      pairs += (end - begin) * range.length;
      computed_pairs +=
          (round_up<std::int64_t>(end, tile.row_step) - begin / tile.row_step * tile.row_step) *
          range.length;
      sum.keys_read += range.length;
      if (range.query_begin < item.query_begin) sum.keys_reread += range.length;
      tile_keys += round_up<std::int64_t>(range.length, tile.key_rows);
    }
  }
  std::int64_t const key_bytes = std::int64_t{target.kv_heads} * target.key_bytes;
  std::int64_t const query_heads = group * target.kv_heads;
  sum.key_bytes = sum.keys_read * key_bytes;
  sum.reread_bytes = sum.keys_reread * key_bytes;
  sum.unique_key_bytes = sum.unique_keys * key_bytes;
  sum.path_key_bytes = sum.path_keys * key_bytes;
  sum.query_bytes = sum.queries * query_heads * target.row_bytes;
  sum.partials = static_cast<std::int64_t>(tables.merge_partials.size());
  sum.partial_bytes = 2 * sum.partials * query_heads * target.partial_bytes;
  if (computed_pairs > 0) sum.row_padding = 1.0 - static_cast<double>(pairs) / computed_pairs;
  if (tile_keys > 0) sum.key_padding = 1.0 - static_cast<double>(sum.keys_read) / tile_keys;
  return sum;
}

template <class Space, class Shape, class Backend>
PlanSummary summarize(AttentionPlan<Space, Shape, Backend> const& plan) {
  return summarize(plan.tables());
}

namespace detail {

template <class... Values>
void append_line(std::string& text, char const* format, Values... values) {
  auto const length = static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...));
  std::size_t const begin = text.size();
  text.resize(begin + length + 1);
  std::snprintf(text.data() + begin, length + 1, format, values...);
  text.back() = '\n';  // in place of the terminating zero
}

/// Decisions that are alike, under their first node.
struct AlikeDecisions {
  EdgeDecision first;
  int count;

  /// How much they concern: products of queries and keys.
  double weight() const {
    return static_cast<double>(count) * first.queries * (first.keys + first.parent_keys);
  }
};

/// The weightiest kinds of decisions.
inline std::vector<AlikeDecisions> weightiest(std::vector<EdgeDecision> decisions,
                                              std::size_t most) {
  auto const kind = [](EdgeDecision const& edge) {
    return std::tuple(edge.queries, edge.keys, edge.parent_keys, edge.cost_apart,
                      edge.cost_together);
  };
  std::stable_sort(decisions.begin(), decisions.end(),
                   [&](auto const& a, auto const& b) { return kind(a) < kind(b); });
  std::vector<AlikeDecisions> kinds;
  for (EdgeDecision const& edge : decisions) {
    if (edge.cost_apart == 0 && edge.cost_together == 0) continue;  // a root, or nothing to decide
    if (!kinds.empty() && kind(kinds.back().first) == kind(edge)) {
      ++kinds.back().count;
    } else {
      kinds.push_back({edge, 1});
    }
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](auto const& a, auto const& b) { return a.weight() > b.weight(); });
  if (kinds.size() > most) kinds.resize(most);
  return kinds;
}

}  // namespace detail

/// The plan in words: items, predicted bytes and time, partial results, padding, and why. Nothing
/// here is measured: bytes are counted, and times are predicted for a machine of `costs`, which is
/// named `machine`.
template <class Space, class Shape, class Backend>
std::string explain(AttentionPlan<Space, Shape, Backend> const& plan, MachineCosts const& costs,
                    std::string const& machine) {
  PlanSummary const sum = summarize(plan);
  PlanTables const& tables = plan.tables();
  auto const mb = [](std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
  auto const ratio = [](std::int64_t a, std::int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
  };
  auto const number = [](auto value) { return static_cast<long long>(value); };
  std::string text;
  detail::append_line(text, "plan of %lld queries x %d query heads, %d KV heads, head_dim %d, %s",
                      number(sum.queries), plan.shape().query_heads, plan.shape().kv_heads,
                      Shape::head_dim, element_name<typename Shape::element_type>());
  detail::append_line(text, "  work items   %lld wide (up to %d rows), %lld narrow (up to %d rows)",
                      number(sum.wide_items), tables.tiles.wide.query_rows,
                      number(sum.narrow_items), tables.tiles.narrow.query_rows);
  detail::append_line(text,
                      "  keys         %lld distinct, read %.2f times; without sharing %.2f times",
                      number(sum.unique_keys), ratio(sum.keys_read, sum.unique_keys),
                      ratio(sum.path_keys, sum.unique_keys));
  detail::append_line(
      text, "  key bytes    %.2f MB predicted, %.2f of it read again; without sharing %.2f",
      mb(sum.key_bytes), mb(sum.reread_bytes), mb(sum.path_key_bytes));
  detail::append_line(text, "  other bytes  %.2f MB queries and outputs, %.2f MB partial results",
                      mb(sum.query_bytes), mb(sum.partial_bytes));
  detail::append_line(text, "  partials     %lld, %.2f per query; %lld queries are merged",
                      number(sum.partials), ratio(sum.partials, sum.queries),
                      number(tables.merge_queries.size()));
  detail::append_line(text, "  padding      %.1f %% of computed rows, %.1f %% of tile keys",
                      100 * sum.row_padding, 100 * sum.key_padding);
  detail::append_line(text, "  time         %.1f us predicted for %s; no plan takes less than %.1f",
                      predict(tables, costs), machine.c_str(), predict_floor(tables, costs));
  for (auto const& [edge, count] : detail::weightiest(tables.decisions, 8)) {
    std::string const alike = count > 1 ? " and " + std::to_string(count - 1) + " alike" : "";
    detail::append_line(
        text, "  node %d%s: %s (%d keys), cost %.6g; %s %.6g", edge.node, alike.c_str(),
        edge.together ? "together with its parent" : "apart from its parent", edge.parent_keys,
        edge.together ? edge.cost_together : edge.cost_apart, edge.together ? "apart" : "together",
        edge.together ? edge.cost_apart : edge.cost_together);
  }
  return text;
}

/// The same for the machine that the backend is meant for.
template <class Space, class Shape, class Backend>
std::string explain(AttentionPlan<Space, Shape, Backend> const& plan) {
  return explain(plan, Backend::costs, "the backend's costs");
}

}  // namespace fasttree
