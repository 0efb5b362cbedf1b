// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys of queries, counted for planners that join neighbouring queries to blocks. A path has
// two parts: the upper, which blocks of up to the wide tile's height read, and the lower (often
// empty), nodes of so few queries that it pays to read them apart, in the narrow tile. Sums over
// queries in depth-first order give what any block reads and multiplies in constant time.

#include <algorithm>
#include <array>
#include <bit>
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
  std::span<double const> gain;  ///< of a key, by queries of its node; the last, 0, is of more
  double item = 0;               ///< lost by each subtree that is read apart,
  double query = 0;              ///< and by each of its queries if keys above are read elsewhere
};

/// One part of the paths of all queries, and sums over the queries before each.
struct PathPart {
  std::vector<int>& shared;   ///< query -> keys shared with the one before, or `forced_cut`
  std::vector<double>& keys;  ///< query -> keys that queries before it read first

  constexpr int shared_keys(int query) const { return std::max(shared[query], 0); }
  constexpr double new_keys(QueryBlock block) const { return keys[block.end] - keys[block.begin]; }
};

/// Both parts, for the tree's own order of requests, in a grouping's scratch memory.
class PathParts {
 public:
  PathPart upper, lower;

  /// Measures paths, and where they may be parted. Time: linear in nodes + requests + queries.
  constexpr PathParts(PrefixTree const& tree, PlanTarget const& target, ApartPrices const& apart,
                      Grouping& grouping)
      : upper{grouping.scratch.upper_shared, grouping.scratch.upper_keys},
        lower{grouping.scratch.lower_shared, grouping.scratch.lower_keys},
        tree_(tree),
        target_(target),
        grouping_(grouping),
        paths_(grouping.scratch.paths),
        parted_(grouping.scratch.parted),
        padded_keys_(grouping.scratch.padded_keys),
        upper_pairs_(grouping.scratch.upper_pairs) {
    measure_paths();
    measure_nodes();
    if (!apart.gain.empty()) find_tops(apart);
  }

  /// Parts paths at the topmost nodes of few queries, where that pays, or none of them, and sums.
  /// Time: linear in queries.
  constexpr void part(bool where_it_pays) {
    is_parted_ = where_it_pays && may_part_;
    sum_keys();
  }

  /// Whether some paths have two parts.
  constexpr bool is_parted() const { return is_parted_; }

  /// Keys that queries see, counted for each of them, and how many queries have keys on their paths.
  constexpr double seen_keys() const { return seen_keys_; }
  constexpr int readers() const { return readers_; }

  /// Keys that blocks of a height read at least: those of a node once for every `height` of the
  /// queries on or below it, and once where these are fewer. Nodes are taken together whose numbers
  /// of queries have as many bits.
  constexpr double least_reads(int height) const {
    double reads = 0;
    for (NodeKeys const& of : std::span(keys_by_queries_).subspan(1))  // others are not read
      reads += std::max(static_cast<double>(of.keys), static_cast<double>(of.pairs) / height);
    return reads;
  }

  /// Pairs of a key and a row of a block of upper parts, with what the wide tile adds on average
  /// where it rounds the rows of nodes to whole steps, and as if some keys were seen by all steps of
  /// rows and the others by one each, for which the teams of the other steps wait.
  constexpr double wide_rows(QueryBlock block, double keys) const {
    TilePolicy const& tile = target_.tiles.wide;
    int const steps = ceil_div(block.queries() * target_.group, tile.row_step);
    double const each_once = keys * tile.row_step;
    double const added = tile.row_step - std::gcd(tile.row_step, target_.group);
    double const pairs = added * (padded_keys_[block.end] - padded_keys_[block.begin]) +
                         target_.group * upper_pairs(block);
    double const by_all =
        steps == 1 ? 0 : std::clamp((pairs / each_once - 1) / (steps - 1), 0.0, 1.0);
    double const teams = std::max(1.0, static_cast<double>(tile.teams_of(steps)) / steps);
    return each_once * (by_all * steps + (1 - by_all) * teams);
  }
  /// Keys of upper parts that queries of a block see, counted for each of them.
  constexpr double upper_pairs(QueryBlock block) const {
    return upper_pairs_[block.end] - upper_pairs_[block.begin];
  }
  /// Whether some query of a block has keys in both parts.
  constexpr bool is_parted(QueryBlock block) const {
    return is_parted_ && parted_[block.end] > parted_[block.begin];
  }

  /// Calls use(queries, keys, shared) for each request that asks, in order: its queries, the keys
  /// of its path, and how many of these it shares with the request before.
  template <class Use>
  constexpr void each_path(Use const& use) const {
    auto const begins = tree_.query_begins();
    for (std::size_t at = 0; at + 1 < begins.size(); ++at) {
      if (begins[at] == begins[at + 1]) continue;
      QueryPath const& path = paths_[begins[at]];
      use(begins[at + 1] - begins[at], path.keys, path.shared);
    }
  }

  /// Appends the keys of a block to the group that was opened last: the path of its first query,
  /// then all nodes whose queries begin with another.
  constexpr void append(QueryBlock block, bool of_upper) const {
    QueryPath const& first = paths_[block.begin];
    int const from = of_upper ? 0 : above_of(first), to = of_upper ? above_of(first) : first.keys;
    if (from < to) append_path(tree_, from, to, first.bottom, grouping_);
    std::span<PathNode const> const nodes = tree_.path_nodes();
    int const last = paths_[block.end - 1].bottom;
    for (int place = first.bottom + 1; place <= last; ++place) {
      PathNode const& node = nodes[place];
      if (node.queries == 0 || node.length == 0) continue;
      bool const in_upper = node.position < above_of(paths_[node.query_begin]);
      if (in_upper == of_upper) append_node(node, grouping_);
    }
    grouping_.groups.back().range_end = static_cast<int>(grouping_.ranges.size());
  }

 private:
  /// Keys of the upper part of a path.
  constexpr int above_of(QueryPath const& path) const { return is_parted_ ? path.top : path.keys; }

  /// Measures the path of each query.
  constexpr void measure_paths() {
    std::span<PathNode const> const nodes = tree_.path_nodes();
    std::span<int const> const bottoms = tree_.bottoms(), begins = tree_.query_begins();
    std::int64_t all_seen = 0;
    paths_.resize(tree_.queries() + 1);  // the last for nodes that have none and follow all
    for (std::size_t at = 0; at < bottoms.size(); ++at) {
      int const bottom = bottoms[at], keys = nodes[bottom].path_length();
      int const begin = begins[at], end = begins[at + 1];
      for (int query = begin; query < end; ++query) {
        int const seen = std::max(0, keys - (end - 1 - query));
        paths_[query] = {bottom, keys, seen, keys, keys, keys};
        all_seen += seen;
      }
      readers_ += keys > 0 ? end - begin : 0;
    }
    seen_keys_ = static_cast<double>(all_seen);
  }

  /// Counts the keys of nodes, and ends what queries share above the nodes that begin with them.
  /// Without branches, which would not be foreseen in a tree that has just changed.
  constexpr void measure_nodes() {
    int const most = target_.queries(target_.tiles.wide);
    for (PathNode const& node : tree_.path_nodes()) {
      NodeKeys& of = keys_by_queries_[std::bit_width(static_cast<unsigned>(node.queries))];
      of.keys += node.length;
      of.pairs += std::int64_t{node.length} * node.queries;
      QueryPath& first = paths_[node.query_begin];
      int const above = node.queries > 0 ? node.position : first.shared;
      first.shared = std::min(first.shared, above);
      bool const fits = node.queries > 0 && node.queries <= most;
      int const padded = fits ? above : first.unpadded;
      first.unpadded = std::min(first.unpadded, padded);
    }
  }

  /// Lets paths be parted above the topmost nodes of few queries, where that gains enough.
  constexpr void find_tops(ApartPrices const& apart) {
    auto const most = static_cast<unsigned>(apart.gain.size()) - 1;
    PathNode const* top = nullptr;  // the last of them
    int top_end = 0;
    double gained = 0;  // on and below it
    for (PathNode const& node : tree_.path_nodes()) {
      auto const queries = static_cast<unsigned>(node.queries);
      if (queries - 1 < most - 1 && node.query_begin >= top_end) {
        if (top != nullptr) part_at(*top, gained, apart);
        top = &node;
        top_end = node.query_begin + node.queries;
        gained = 0;
      }
      gained += node.length * apart.gain[std::min(queries, most)];
    }
    if (top != nullptr) part_at(*top, gained, apart);
  }

  constexpr void part_at(PathNode const& top, double gained, ApartPrices const& apart) {
    double const lost = apart.item + (top.position > 0 ? apart.query * top.queries : 0);
    if (gained <= lost) return;
    may_part_ = true;
    for (int query = top.query_begin; query < top.query_begin + top.queries; ++query)
      paths_[query].top = top.position;
  }

  /// Sums over queries. Only a query without keys in either part may be joined to others in a part
  /// in which it has none.
  constexpr void sum_keys() {
    int const queries = tree_.queries();
    resize(upper, queries);
    padded_keys_.resize(queries + 1);
    upper_pairs_.resize(queries + 1);
    double keys = 0, padded = 0, pairs = 0;
    bool joins = false;
    for (int query = 0; query < queries; ++query) {
      QueryPath const& path = paths_[query];
      int const above = above_of(path), shared = std::min(path.shared, above);
      bool const joined = joins;
      joins = path.keys == 0 || above > 0;
      upper.shared[query] = joined && joins ? shared : forced_cut;
      upper.keys[query + 1] = keys += above - shared;
      padded_keys_[query + 1] = padded += std::max(0, above - path.unpadded);
      upper_pairs_[query + 1] = pairs += std::min(path.seen, above);
    }
    if (is_parted_) sum_lower_keys();
  }

  constexpr void sum_lower_keys() {
    int const queries = tree_.queries();
    resize(lower, queries);
    parted_.resize(queries + 1);
    double keys = 0;
    int parted = 0;
    bool joins = false;
    for (int query = 0; query < queries; ++query) {
      QueryPath const& path = paths_[query];
      bool const joined = joins;
      int const shared = std::max(0, path.shared - path.top);
      joins = path.keys > path.top;
      lower.shared[query] = joined && joins ? shared : forced_cut;
      lower.keys[query + 1] = keys += path.keys - path.top - shared;
      parted_[query + 1] = parted += joins && path.top > 0;
    }
  }

  static constexpr void resize(PathPart const& part, int queries) {
    part.shared.resize(queries);
    part.keys.resize(queries + 1);
  }

  PrefixTree const& tree_;
  PlanTarget const& target_;
  Grouping& grouping_;
  std::vector<QueryPath>& paths_;
  std::vector<int>& parted_;  ///< query -> queries before it with keys in both parts
  /// Query -> keys before it whose rows the wide tile rounds up, and pairs of keys and queries.
  std::vector<double>&padded_keys_, &upper_pairs_;
  /// Keys of nodes, and pairs of these and the queries on or below, by bits of the number of these.
  struct NodeKeys {
    std::int64_t keys = 0, pairs = 0;
  };
  std::array<NodeKeys, 32> keys_by_queries_{};
  double seen_keys_ = 0;
  int readers_ = 0;
  bool may_part_ = false, is_parted_ = false;
};

}  // namespace fasttree
