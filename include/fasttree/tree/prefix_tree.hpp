// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forest of token sequences that requests share: a node holds some tokens, a path from a root
// to a node is a context, a request hangs on a node and attends to the keys on its path.
// Validated once, immutable, on the host; every algorithm is iterative (chains of thousands of
// nodes are real) and usable in constant expressions. All that plans need is computed here, in
// linear time.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree {

/// A request: the node whose path it attends to, and how many queries it asks at once. Its queries
/// are the last `query_length` positions of the path; each sees the keys up to and with its own
/// position (1 for decoding; a query before the first position sees no key).
struct Request {
  int node;
  int query_length = 1;
};

/// A forest with requests.
class PrefixTree {
 public:
  static constexpr int no_parent = -1;

  /// Builds and validates a forest.
  ///
  /// \param parents         node -> its parent, or no_parent; in any order
  /// \param lengths         node -> its number of tokens, 0 allowed
  /// \param requests        on any node, leaf or not; several on a node, or none
  /// \param slot_alignment  a node's first key slot is a multiple of this: the page size of a paged
  /// cache
  ///
  /// Errors: `Error` on sizes that differ, a parent or node out of range, a cycle, a negative
  /// length, a path of 2^31 tokens or more. Time and memory: linear in nodes + requests.
  constexpr PrefixTree(std::span<int const> parents, std::span<int const> lengths,
                       std::span<Request const> requests, int slot_alignment = 1)
      : parents_(parents.begin(), parents.end()),
        lengths_(lengths.begin(), lengths.end()),
        requests_(requests.begin(), requests.end()) {
    validate(slot_alignment);
    sort_children();
    sort_nodes();
    place_keys(slot_alignment);
    sort_requests();
  }

  constexpr int nodes() const { return static_cast<int>(parents_.size()); }
  constexpr int requests() const { return static_cast<int>(requests_.size()); }
  /// Queries of all requests: rows of the query and output arrays, request after request.
  constexpr int queries() const { return first_query_.back(); }
  /// Key slots that the cache must have: all tokens, with the gaps that alignment leaves.
  constexpr std::int64_t slots() const { return slots_; }

  constexpr int parent(int node) const { return parents_[node]; }
  constexpr int length(int node) const { return lengths_[node]; }
  /// The logical slot of the node's first key; the others follow.
  constexpr std::int64_t slot_begin(int node) const { return slot_begin_[node]; }
  /// The position, along the path, of the node's first key: tokens of all nodes above it.
  constexpr int position(int node) const { return position_[node]; }
  /// Tokens of the path that ends with this node.
  constexpr int path_length(int node) const { return position_[node] + lengths_[node]; }
  constexpr std::span<int const> children(int node) const {
    return slice(children_, first_child_, node);
  }
  /// The requests that hang on this very node.
  constexpr std::span<int const> requests_on(int node) const {
    return slice(requests_by_node_, first_request_, node);
  }
  /// How many requests, and how many queries, hang on this node or below it.
  constexpr int requests_under(int node) const { return requests_under_[node]; }
  constexpr int queries_under(int node) const { return queries_under_[node]; }
  /// All nodes, parents before children.
  constexpr std::span<int const> parents_first() const { return parents_first_; }

  constexpr Request const& request(int request) const { return requests_[request]; }
  /// The request's first row in the query and output arrays.
  constexpr int first_query(int request) const { return first_query_[request]; }

 private:
  static constexpr std::span<int const> slice(std::vector<int> const& all,
                                              std::vector<int> const& first, int i) {
    return std::span<int const>(all).subspan(first[i], first[i + 1] - first[i]);
  }

  constexpr void validate(int slot_alignment) const {
    constexpr char const* function = "PrefixTree";
    require(lengths_.size() == parents_.size(), function, "lengths.size()", parents_.size(),
            lengths_.size());
    constexpr std::size_t most = std::numeric_limits<int>::max() - 1;
    require(parents_.size() <= most, function, "parents.size()", "less than 2^31 - 1",
            parents_.size());
    require(requests_.size() <= most, function, "requests.size()", "less than 2^31 - 1",
            requests_.size());
    require(slot_alignment > 0, function, "slot_alignment", "a positive number", slot_alignment);
    for (int node = 0; node < nodes(); ++node) {
      if (parents_[node] < no_parent || parents_[node] >= nodes())
        fail(function, "parents[" + std::to_string(node) + "]",
             "-1 or a node below " + std::to_string(nodes()), parents_[node]);
      if (lengths_[node] < 0)
        fail(function, "lengths[" + std::to_string(node) + "]", "0 or more", lengths_[node]);
    }
    std::int64_t queries = 0;
    for (int i = 0; i < requests(); ++i) {
      if (requests_[i].node < 0 || requests_[i].node >= nodes())
        fail(function, "requests[" + std::to_string(i) + "].node",
             "a node below " + std::to_string(nodes()), requests_[i].node);
      if (requests_[i].query_length < 0)
        fail(function, "requests[" + std::to_string(i) + "].query_length", "0 or more",
             requests_[i].query_length);
      queries += requests_[i].query_length;
    }
    require(queries <= static_cast<std::int64_t>(most), function, "requests",
            "less than 2^31 - 1 queries in all", queries);
  }

  constexpr void sort_children() {
    first_child_.assign(parents_.size() + 1, 0);
    for (int const parent : parents_)
      if (parent != no_parent) ++first_child_[parent + 1];
    for (std::size_t i = 1; i < first_child_.size(); ++i) first_child_[i] += first_child_[i - 1];
    children_.resize(first_child_.back());
    std::vector<int> next(first_child_.begin(), first_child_.end() - 1);
    for (int node = 0; node < nodes(); ++node)
      if (parents_[node] != no_parent) children_[next[parents_[node]]++] = node;
  }

  constexpr void sort_nodes() {
    parents_first_.reserve(parents_.size());
    for (int node = 0; node < nodes(); ++node)
      if (parents_[node] == no_parent) parents_first_.push_back(node);
    for (std::size_t i = 0; i < parents_first_.size(); ++i)
      for (int const child : children(parents_first_[i])) parents_first_.push_back(child);
    if (parents_first_.size() == parents_.size()) return;
    std::vector<bool> reached(parents_.size(), false);
    for (int const node : parents_first_) reached[node] = true;
    int lost = 0;
    while (reached[lost]) ++lost;
    fail("PrefixTree", "parents", "a forest", "a cycle on or above node " + std::to_string(lost));
  }

  constexpr void place_keys(int slot_alignment) {
    slot_begin_.reserve(parents_.size());
    for (int const length : lengths_) {
      slot_begin_.push_back(slots_);
      slots_ += round_up<std::int64_t>(length, slot_alignment);
    }
    position_.assign(parents_.size(), 0);
    for (int const node : parents_first_) {
      if (parents_[node] != no_parent) position_[node] = path_length(parents_[node]);
      if (position_[node] > std::numeric_limits<int>::max() - lengths_[node])
        fail("PrefixTree", "lengths", "paths of less than 2^31 tokens",
             "a longer one down to node " + std::to_string(node));
    }
  }

  constexpr void sort_requests() {
    first_query_.assign(1, 0);
    first_query_.reserve(requests_.size() + 1);
    first_request_.assign(parents_.size() + 1, 0);
    queries_under_.assign(parents_.size(), 0);
    for (Request const& request : requests_) {
      first_query_.push_back(first_query_.back() + request.query_length);
      ++first_request_[request.node + 1];
      queries_under_[request.node] += request.query_length;
    }
    requests_under_.assign(first_request_.begin() + 1, first_request_.end());
    for (std::size_t i = parents_first_.size(); i-- > 0;) {
      int const node = parents_first_[i];
      if (parents_[node] == no_parent) continue;
      requests_under_[parents_[node]] += requests_under_[node];
      queries_under_[parents_[node]] += queries_under_[node];
    }
    for (std::size_t i = 1; i < first_request_.size(); ++i)
      first_request_[i] += first_request_[i - 1];
    requests_by_node_.resize(requests_.size());
    std::vector<int> next(first_request_.begin(), first_request_.end() - 1);
    for (int i = 0; i < requests(); ++i) requests_by_node_[next[requests_[i].node]++] = i;
  }

  std::vector<int> parents_, lengths_;
  std::vector<Request> requests_;
  std::vector<int> first_child_, children_, parents_first_;
  std::vector<std::int64_t> slot_begin_;
  std::int64_t slots_ = 0;
  std::vector<int> position_;
  std::vector<int> first_query_, first_request_, requests_by_node_, requests_under_, queries_under_;
};

}  // namespace fasttree
