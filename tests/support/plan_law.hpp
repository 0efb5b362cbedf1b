// SPDX-License-Identifier: Apache-2.0
#pragma once
// The law of plans: every pair of a query and a key on its path is covered exactly once, and every
// partial result is written once and read once, by the query that it belongs to. An updated plan may
// leave partial results unused, and ask for slots that requests had which are gone.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/tree/prefix_tree.hpp>
#include "oracle.hpp"

namespace fasttree::test {

enum class PlanIs { fresh, updated };

/// Follows a plan item by item; `broken()` is empty, or says how the plan breaks the law.
class PlanLaw {
 public:
  PlanLaw(PrefixTree const& tree, PlanTarget const& target, PlanTables const& tables,
          PlanIs made = PlanIs::fresh)
      : tree_(tree), target_(target), tables_(tables), updated_(made == PlanIs::updated) {
    number_queries();
    if (broken_.empty()) follow_items();
    if (broken_.empty()) follow_merges();
  }

  std::string const& broken() const { return broken_; }

 private:
  void expect(bool holds, char const* law, std::int64_t where) {
    if (!holds && broken_.empty()) broken_ = std::string(law) + ", at " + std::to_string(where);
  }

  void number_queries() {
    int const queries = tree_.queries();
    expect(std::ssize(tables_.query_order) == queries, "each query has a number", queries);
    expect(std::ssize(tables_.visible_keys) == queries, "each query has visible keys", queries);
    if (!broken_.empty()) return;
    std::vector<int> request_of_row(queries), times(queries, 0);
    for (int r = 0; r < tree_.requests(); ++r)
      for (int i = 0; i < tree_.request(r).query_length; ++i)
        request_of_row[tree_.first_query(r) + i] = r;
    std::int64_t path_keys = 0;
    for (int query = 0; query < queries; ++query) {
      int const row = tables_.query_order[query];
      expect(row >= 0 && row < queries && times[row]++ == 0, "each row has one number", query);
      if (!broken_.empty()) return;
      int const r = request_of_row[row];
      slots_.push_back(path_slots(tree_, tree_.request(r).node));
      covered_.emplace_back(slots_.back().size(), 0);
      int const visible = visible_keys(tree_, tree_.request(r), row - tree_.first_query(r));
      expect(tables_.visible_keys[query] == visible, "visible keys follow the position", query);
      path_keys += visible;
    }
    expect(tables_.path_keys == path_keys, "path keys are visible keys", path_keys);
    expect(updated_ ? tables_.slots >= tree_.slots() : tables_.slots == tree_.slots(),
           "slots are those of the tree", tables_.slots);
  }

  void follow_items() {
    partial_query_.assign(tables_.partials, -1);
    direct_.assign(tree_.queries(), 0);
    in_items_.assign(tree_.queries(), 0);
    int const most = target_.queries(target_.tiles.wide);
    for (std::size_t i = 0; i < tables_.items.size() && broken_.empty(); ++i) {
      WorkItem const& item = tables_.items[i];
      std::int64_t const at = static_cast<std::int64_t>(i);
      expect(0 <= item.query_begin && item.query_begin < item.query_end &&
                 item.query_end <= tree_.queries(),
             "items have queries", at);
      expect(item.query_end - item.query_begin <= most, "items fit the wide tile", at);
      expect(0 <= item.range_begin && item.range_begin < item.range_end &&
                 item.range_end <= std::ssize(tables_.ranges),
             "items have ranges", at);
      if (!broken_.empty()) return;
      bool has_keys = false;
      for (KeyRange const& range : tables_.ranges_of(item)) has_keys |= cover(item, range);
      expect(has_keys, "items have keys", at);
      for (int query = item.query_begin; query < item.query_end; ++query) {
        ++in_items_[query];
        if (item.partial_begin == WorkItem::direct) {
          ++direct_[query];
          continue;
        }
        std::int64_t const partial = std::int64_t{item.partial_begin} + query - item.query_begin;
        expect(partial >= 0 && partial < tables_.partials && partial_query_[partial] == -1,
               "a partial result is written once", partial);
        if (!broken_.empty()) return;
        partial_query_[partial] = query;
      }
    }
    for (std::size_t query = 0; query < covered_.size(); ++query) {
      expect(std::ranges::all_of(covered_[query], [](int times) { return times == 1; }),
             "each key of a query is covered once", static_cast<std::int64_t>(query));
      expect(direct_[query] == 0 || in_items_[query] == 1, "a direct query is in no other item",
             static_cast<std::int64_t>(query));
    }
    expect(updated_ || std::ranges::find(partial_query_, -1) == partial_query_.end(),
           "no partial result is left unwritten", tables_.partials);
  }

  /// Whether the range concerns queries of the item.
  bool cover(WorkItem const& item, KeyRange const& range) {
    expect(range.length > 0, "ranges have keys", range.slot_begin);
    int const begin = std::max(item.query_begin, range.query_begin);
    int const end = std::min(item.query_end, range.query_end);
    for (int query = begin; query < end && broken_.empty(); ++query)
      for (int i = 0; i < range.length; ++i) {
        std::int64_t const position = std::int64_t{range.position} + i;
        bool const on_path = position >= 0 && position < std::ssize(slots_[query]) &&
                             slots_[query][position] == range.slot_begin + i;
        expect(on_path, "items read keys of the path, at their positions", range.slot_begin + i);
        if (!on_path) return true;
        ++covered_[query][position];
      }
    return begin < end;
  }

  void follow_merges() {
    auto const queries = static_cast<std::size_t>(tree_.queries());
    expect(tables_.merge_begin.size() == queries + 1, "each query has a list of partials", 0);
    if (!broken_.empty()) return;
    expect(tables_.merge_begin[0] == 0 &&
               tables_.merge_begin[queries] == std::ssize(tables_.merge_partials) &&
               std::ranges::is_sorted(tables_.merge_begin),
           "the lists follow each other", 0);
    expect(std::ssize(tables_.merge_partials) ==
               std::ssize(partial_query_) - std::ranges::count(partial_query_, -1),
           "as many partial results are read as written", tables_.partials);
    std::vector<int> merged(queries, 0);
    for (int const query : tables_.merge_queries) ++merged[query];
    for (std::size_t query = 0; query < queries && broken_.empty(); ++query) {
      expect(merged[query] + direct_[query] == 1, "each query is written once",
             static_cast<std::int64_t>(query));
      for (int i = tables_.merge_begin[query]; i < tables_.merge_begin[query + 1]; ++i) {
        int& writer = partial_query_[tables_.merge_partials[i]];
        expect(writer == static_cast<int>(query), "a query reads its own partial results, once", i);
        writer = -1;
      }
    }
  }

  PrefixTree const& tree_;
  PlanTarget const& target_;
  PlanTables const& tables_;
  bool updated_;
  std::string broken_;
  std::vector<std::vector<std::int64_t>> slots_;  // query number -> slots of its path
  std::vector<std::vector<int>> covered_;         // query number, position -> how often
  std::vector<int> partial_query_, direct_, in_items_;
};

}  // namespace fasttree::test
