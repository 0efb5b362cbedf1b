// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys of queries, counted for planners that join neighbouring queries to blocks. A path has
// two parts: the upper, which blocks of up to the wide tile's height read, and the lower (often
// empty), nodes of so few queries that it pays to read them apart, in the narrow tile. Sums over
// queries in depth-first order give what any block reads and multiplies in constant time.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/planner/query_blocks.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// When the lower part of a path is read apart.
struct ApartPrices {
  std::span<double const> gain;  ///< by queries of a node: what a key of it gains; no more queries
  double item = 0;               ///< lost by each subtree that is read apart,
  double query = 0;              ///< and by each of its queries if keys above are read elsewhere
};

/// One part of the paths of all queries, and sums over the queries before each.
struct PathPart {
  std::vector<int>& shared;   ///< query -> keys shared with the one before, or `forced_cut`
  std::vector<double>& keys;  ///< query -> keys that queries before it read first
  std::vector<double>& rows;  ///< query -> pairs of a key and a row before it

  constexpr int shared_keys(int query) const { return std::max(shared[query], 0); }
  constexpr double new_keys(QueryBlock block) const { return keys[block.end] - keys[block.begin]; }
  constexpr double key_rows(QueryBlock block) const { return rows[block.end] - rows[block.begin]; }
};

/// Both parts, for the order of requests that a grouping has, in the grouping's scratch memory.
class PathParts {
 public:
  PathPart upper, lower;

  /// Whole paths; see `part`. Time: linear in nodes + queries.
  constexpr PathParts(PrefixTree const& tree, PlanTarget const& target, Grouping& grouping)
      : upper{grouping.scratch.upper_shared, grouping.scratch.upper_keys,
              grouping.scratch.upper_rows},
        lower{grouping.scratch.lower_shared, grouping.scratch.lower_keys,
              grouping.scratch.lower_rows},
        tree_(tree),
        target_(target),
        grouping_(grouping),
        joint_(grouping.scratch.joint),
        path_(grouping.scratch.path),
        above_(grouping.scratch.above),
        place_(grouping.scratch.place),
        parted_(grouping.scratch.parted),
        added_(grouping.scratch.added_rows) {
    measure_paths();
  }

  /// Parts paths at the topmost nodes of few queries, where that pays, and counts. Time: likewise.
  constexpr void part(ApartPrices const& apart) {
    is_parted_ = false;
    above_.assign(path_.begin(), path_.end());
    if (!apart.gain.empty()) find_tops(apart);
    sum_keys();
    count_padding();
  }

  /// Whether some paths have two parts.
  constexpr bool is_parted() const { return is_parted_; }

  constexpr int queries() const { return grouping_.query_begin.back(); }

  /// What the wide tile adds, on average, to the pairs of keys and rows of a block of upper parts,
  /// where it rounds the rows of nodes to whole steps.
  constexpr double added_rows(QueryBlock block) const {
    return added_[block.end] - added_[block.begin];
  }
  /// Whether some query of a block has keys in both parts.
  constexpr bool is_parted(QueryBlock block) const {
    return parted_[block.end] > parted_[block.begin];
  }

  /// Calls use(queries, keys, shared) for each request that asks, in order: its queries, the keys
  /// of its path, and how many of these it shares with the request before.
  template <class Use>
  constexpr void each_path(Use const& use) const {
    int shared = 0;
    for (int at = 0; at < tree_.requests(); ++at) {
      shared = std::min(shared, joint_[at]);
      int const queries = grouping_.query_begin[at + 1] - grouping_.query_begin[at];
      if (queries == 0) continue;
      use(queries, path_[at], shared);
      shared = path_[at];
    }
  }

  /// Appends the keys of a block to the group that was opened last: of each query those that it
  /// does not share with the one before.
  constexpr void append(QueryBlock block, bool of_upper) const {
    PathPart const& part = of_upper ? upper : lower;
    auto const& first_query = grouping_.query_begin;
    for (int place = place_[block.begin]; place <= place_[block.end - 1]; ++place) {
      if (first_query[place + 1] == first_query[place]) continue;
      int const above = above_[place];
      int const query = first_query[place];
      int const shared = query <= block.begin ? 0 : part.shared_keys(query);
      int const from = of_upper ? shared : above + shared, to = of_upper ? above : path_[place];
      if (from < to)
        append_keys(tree_, from, to, tree_.request(grouping_.request_order[place]).node, grouping_);
    }
  }

 private:
  /// Of the request at each place: the keys of its path, and those that it shares with the request
  /// before it. These end above the highest of the nodes whose requests begin there.
  constexpr void measure_paths() {
    path_.resize(tree_.requests());
    constexpr int unknown = -1;
    joint_.assign(tree_.requests(), unknown);
    for (int const node : tree_.parents_first()) {
      if (tree_.requests_under(node) == 0) continue;
      int const begin = grouping_.node_begin[node], position = tree_.position(node);
      int const path = position + tree_.length(node);
      if (joint_[begin] == unknown) joint_[begin] = position;
      int const end = begin + static_cast<int>(tree_.requests_on(node).size());
      for (int at = begin; at < end; ++at) {
        path_[at] = path;
        if (at > begin) joint_[at] = path;
      }
    }
  }

  /// above_[place]: the keys above the node at which the path of a request is parted.
  constexpr void find_tops(ApartPrices const& apart) {
    auto& top = grouping_.scratch.top;  // node -> the topmost node of few queries above or at it
    auto& gained = grouping_.scratch.gained;
    top.resize(tree_.nodes());
    gained.assign(tree_.nodes(), 0);
    int const few = static_cast<int>(apart.gain.size()) - 1;
    for (int const node : tree_.parents_first()) {
      int const queries = tree_.queries_under(node), parent = tree_.parent(node);
      top[node] = PrefixTree::no_parent;
      if (queries == 0 || queries > few) continue;
      bool const below = parent != PrefixTree::no_parent && top[parent] != PrefixTree::no_parent;
      top[node] = below ? top[parent] : node;
      gained[top[node]] += tree_.length(node) * apart.gain[queries];
    }
    for (int node = 0; node < tree_.nodes(); ++node) {
      if (top[node] != node) continue;
      double lost = apart.item;
      if (tree_.position(node) > 0) lost += apart.query * tree_.queries_under(node);
      if (gained[node] <= lost) continue;
      is_parted_ = true;
      std::fill_n(above_.begin() + grouping_.node_begin[node], tree_.requests_under(node),
                  tree_.position(node));
    }
  }

  /// Sums what the wide tile adds to pairs of keys and rows, over nodes that fit it.
  constexpr void count_padding() {
    added_.assign(queries() + 1, 0);
    int const step = target_.tiles.wide.row_step, most = target_.queries(target_.tiles.wide);
    int const added = step - std::gcd(step, target_.group);
    if (added == 0) return;
    for (int node = 0; node < tree_.nodes(); ++node) {
      int const queries = tree_.queries_under(node);
      if (queries == 0 || queries > most) continue;
      int const place = grouping_.node_begin[node];
      if (is_parted_ && tree_.position(node) >= above_[place]) continue;
      added_[grouping_.query_begin[place] + 1] += static_cast<double>(tree_.length(node)) * added;
    }
    double sum = 0;
    for (double& rows : added_) rows = sum += rows;
  }

  constexpr void sum_keys() {
    place_.resize(queries());
    parted_.assign(queries() + 1, 0);
    Sums upper_sums(upper, queries()), lower_sums(lower, is_parted_ ? queries() : 0);
    std::int64_t const group = target_.group;
    int shared = 0;  // keys that a query shares with the one before it
    for (int at = 0; at < tree_.requests(); ++at) {
      int const first = grouping_.query_begin[at], length = grouping_.query_begin[at + 1] - first;
      int const path = path_[at], above = above_[at];
      shared = std::min(shared, joint_[at]);
      for (int query = first; query < first + length; ++query) {
        int const seen = std::max(0, path - length + 1 + (query - first));
        place_[query] = at;
        upper_sums.add(query, above, path == 0 || above > 0, group * std::min(seen, above),
                       std::min(shared, above));
        if (is_parted_) {
          parted_[query + 1] = parted_[query] + (above > 0 && path > above);
          lower_sums.add(query, path - above, path > above, group * std::max(0, seen - above),
                         std::max(0, shared - above));
        }
        shared = path;
      }
    }
  }

  /// Sums over the queries of a part.
  class Sums {
   public:
    constexpr Sums(PathPart const& part, int queries) {
      part.shared.resize(queries);
      part.keys.resize(queries + 1);
      part.rows.resize(queries + 1);
      shared_ = part.shared.data();
      keys_before_ = part.keys.data();
      rows_before_ = part.rows.data();
      keys_before_[0] = rows_before_[0] = 0;
    }

    /// A query with `keys` keys in the part. Only one without keys in either part may be joined to
    /// others although it has none here.
    constexpr void add(int query, int keys, bool joins, std::int64_t key_rows, int shared) {
      shared_[query] = joins && joined_ ? shared : forced_cut;
      joined_ = joins;
      keys_before_[query + 1] = static_cast<double>(keys_ += keys - shared);
      rows_before_[query + 1] = static_cast<double>(rows_ += key_rows);
    }

   private:
    int* shared_;
    double *keys_before_, *rows_before_;
    bool joined_ = false;
    std::int64_t keys_ = 0, rows_ = 0;
  };

  PrefixTree const& tree_;
  PlanTarget const& target_;
  Grouping& grouping_;
  std::vector<int>&joint_, &path_, &above_;  ///< by places of requests in depth-first order
  std::vector<int>&place_, &parted_;         ///< by queries
  std::vector<double>& added_;
  bool is_parted_ = false;
};

}  // namespace fasttree
