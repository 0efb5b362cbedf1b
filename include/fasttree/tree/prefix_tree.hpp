// SPDX-License-Identifier: Apache-2.0
#pragma once
// The forest of token sequences that requests share: a node holds some tokens, a path from a root
// to a node is a context, a request hangs on a node and attends to the keys on its path.
// Validated once, immutable, on the host; every algorithm is iterative (chains of thousands of
// nodes are real) and usable in constant expressions. All that plans need is computed here, in
// linear time.
//
// Nodes may say where their keys lie. Plans speak of key slots, not of nodes: a tree that was
// edited and keeps the slots of its tokens (a node split in two, an idle one dropped) leaves every
// plan as it is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/tree/tree_order.hpp>

namespace fasttree {

/// A request: the node whose path it attends to, and how many queries it asks at once. Its queries
/// are the last `query_length` positions of the path; each sees the keys up to and with its own
/// position (1 for decoding; a query before the first position sees no key).
struct Request {
  int node;
  int query_length = 1;
};

/// Where the key slots of the nodes lie: node after node, with gaps.
struct SlotLayout {
  int alignment = 1;  ///< a node's first slot is a multiple of this: the page size of a paged cache
  int room = 0;       ///< free slots behind each node that `grows`, for append_tokens
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
  /// \param layout          how nodes share out the key slots
  ///
  /// Errors: `Error` on sizes that differ, a parent or node out of range, a cycle, a negative
  /// length, a path of 2^31 tokens (with room) or more. Time and memory: linear in nodes +
  /// requests.
  constexpr PrefixTree(std::span<int const> parents, std::span<int const> lengths,
                       std::span<Request const> requests, SlotLayout const& layout = {})
      : PrefixTree(parents, lengths, requests, layout.room) {
    require(layout.alignment > 0, "PrefixTree", "layout.alignment", "a positive number",
            layout.alignment);
    for (int node = 0; node < nodes(); ++node) {
      nodes_[node].slot_begin = slots_;
      slots_ += round_up<std::int64_t>(length_with_room(node), layout.alignment);
    }
  }

  /// The same with the first key slot of each node, which the caller keeps from tree to tree.
  ///
  /// \param slot_begins  node -> its first slot; the slots of nodes, with room, do not overlap
  /// \param room         free slots behind each node that `grows`
  ///
  /// Errors: also on negative or overlapping slots. Time: nodes log(nodes) + requests.
  constexpr PrefixTree(std::span<int const> parents, std::span<int const> lengths,
                       std::span<Request const> requests, std::span<std::int64_t const> slot_begins,
                       int room = 0)
      : PrefixTree(parents, lengths, requests, room) {
    place_slots(slot_begins);
  }

  constexpr int nodes() const { return static_cast<int>(nodes_.size()); }
  constexpr int requests() const { return static_cast<int>(requests_.size()); }
  /// Queries of all requests: rows of the query and output arrays, request after request.
  constexpr int queries() const { return first_query_.back(); }
  /// Key slots that the cache must have: up to the last token, with its room.
  constexpr std::int64_t slots() const { return slots_; }
  /// Tokens of the nodes to which some query attends.
  constexpr std::int64_t unique_keys() const { return unique_keys_; }
  /// Free slots behind each node that grows.
  constexpr int room() const { return room_; }
  /// Whether one query alone attends to the node and hangs on it: tokens appended to the node are
  /// that query's alone.
  constexpr bool grows(int node) const {
    if (queries_under(node) != 1) return false;
    auto const on_node = requests_on(node);
    return std::any_of(on_node.begin(), on_node.end(),
                       [&](int request) { return requests_[request].query_length == 1; });
  }

  constexpr int parent(int node) const { return nodes_[node].parent; }
  constexpr int length(int node) const { return nodes_[node].length; }
  /// The logical slot of the node's first key; the others follow.
  constexpr std::int64_t slot_begin(int node) const { return nodes_[node].slot_begin; }
  /// The position, along the path, of the node's first key: tokens of all nodes above it.
  constexpr int position(int node) const { return nodes_[node].position; }
  /// Tokens of the path that ends with this node.
  constexpr int path_length(int node) const { return position(node) + length(node); }
  constexpr std::span<int const> children(int node) const {
    return slice(children_, first_child_, node);
  }
  /// The requests that hang on this very node.
  constexpr std::span<int const> requests_on(int node) const {
    return slice(requests_by_node_, first_request_, node);
  }
  /// How many requests, and how many queries, hang on this node or below it.
  constexpr int requests_under(int node) const { return nodes_[node].requests_under; }
  constexpr int queries_under(int node) const { return nodes_[node].queries_under; }
  /// All nodes, parents before children.
  constexpr std::span<int const> parents_first() const { return parents_first_; }

  /// All requests in depth-first order, and the place in it of the first one on or under a node.
  constexpr std::span<int const> depth_first_requests() const { return depth_first_; }
  constexpr std::span<int const> first_places() const { return first_places_; }

  constexpr Request const& request(int request) const { return requests_[request]; }
  /// The request's first row in the query and output arrays.
  constexpr int first_query(int request) const { return first_query_[request]; }

 private:
  /// What is asked of a node, side by side: planners visit nodes in an order that memory has not.
  struct Node {
    int parent, length;
    int position = 0;
    int requests_under = 0, queries_under = 0;
    std::int64_t slot_begin = 0;
  };

  /// All but the slots.
  constexpr PrefixTree(std::span<int const> parents, std::span<int const> lengths,
                       std::span<Request const> requests, int room)
      : requests_(requests.begin(), requests.end()), room_(room) {
    validate(parents, lengths);
    nodes_.reserve(parents.size());
    for (std::size_t i = 0; i < parents.size(); ++i)
      nodes_.push_back({.parent = parents[i], .length = lengths[i]});
    sort_children();
    sort_nodes();
    sort_requests();
    place_keys();
  }

  constexpr std::int64_t length_with_room(int node) const {
    return std::int64_t{1} * length(node) + (room_ > 0 && grows(node) ? room_ : 0);
  }

  static constexpr std::span<int const> slice(std::vector<int> const& all,
                                              std::vector<int> const& first, int i) {
    return std::span<int const>(all).subspan(first[i], first[i + 1] - first[i]);
  }

  constexpr void validate(std::span<int const> parents, std::span<int const> lengths) const {
    constexpr char const* function = "PrefixTree";
    require(lengths.size() == parents.size(), function, "lengths.size()", parents.size(),
            lengths.size());
    constexpr std::size_t most = std::numeric_limits<int>::max() - 1;
    require(parents.size() <= most, function, "parents.size()", "less than 2^31 - 1",
            parents.size());
    require(requests_.size() <= most, function, "requests.size()", "less than 2^31 - 1",
            requests_.size());
    int const nodes = static_cast<int>(parents.size());
    require(room_ >= 0, function, "room", "0 or more", room_);
    for (int node = 0; node < nodes; ++node) {
      if (parents[node] < no_parent || parents[node] >= nodes)
        fail(function, "parents[" + std::to_string(node) + "]",
             "-1 or a node below " + std::to_string(nodes), parents[node]);
      if (lengths[node] < 0)
        fail(function, "lengths[" + std::to_string(node) + "]", "0 or more", lengths[node]);
    }
    std::int64_t queries = 0;
    for (int i = 0; i < requests(); ++i) {
      if (requests_[i].node < 0 || requests_[i].node >= nodes)
        fail(function, "requests[" + std::to_string(i) + "].node",
             "a node below " + std::to_string(nodes), requests_[i].node);
      if (requests_[i].query_length < 0)
        fail(function, "requests[" + std::to_string(i) + "].query_length", "0 or more",
             requests_[i].query_length);
      queries += requests_[i].query_length;
    }
    require(queries <= static_cast<std::int64_t>(most), function, "requests",
            "less than 2^31 - 1 queries in all", queries);
  }

  constexpr void sort_children() {
    first_child_.assign(nodes_.size() + 1, 0);
    for (Node const& node : nodes_)
      if (node.parent != no_parent) ++first_child_[node.parent + 1];
    for (std::size_t i = 1; i < first_child_.size(); ++i) first_child_[i] += first_child_[i - 1];
    children_.resize(first_child_.back());
    std::vector<int> next(first_child_.begin(), first_child_.end() - 1);
    for (int node = 0; node < nodes(); ++node)
      if (parent(node) != no_parent) children_[next[parent(node)]++] = node;
  }

  constexpr void sort_nodes() {
    parents_first_.reserve(nodes_.size());
    for (int node = 0; node < nodes(); ++node)
      if (parent(node) == no_parent) parents_first_.push_back(node);
    for (std::size_t i = 0; i < parents_first_.size(); ++i)
      for (int const child : children(parents_first_[i])) parents_first_.push_back(child);
    if (parents_first_.size() == nodes_.size()) return;
    std::vector<bool> reached(nodes_.size(), false);
    for (int const node : parents_first_) reached[node] = true;
    int lost = 0;
    while (reached[lost]) ++lost;
    fail("PrefixTree", "parents", "a forest", "a cycle on or above node " + std::to_string(lost));
  }

  constexpr void place_keys() {
    for (int const node : parents_first_) {
      if (parent(node) != no_parent) nodes_[node].position = path_length(parent(node));
      if (position(node) > std::numeric_limits<int>::max() - length_with_room(node))
        fail("PrefixTree", "lengths", "paths of less than 2^31 tokens",
             "a longer one down to node " + std::to_string(node));
      if (queries_under(node) > 0) unique_keys_ += length(node);
    }
  }

  /// Takes the first slot of each node, refuses slots that overlap, and finds the last one.
  constexpr void place_slots(std::span<std::int64_t const> slot_begins) {
    constexpr char const* function = "PrefixTree";
    require(slot_begins.size() == nodes_.size(), function, "slot_begins.size()", nodes_.size(),
            slot_begins.size());
    std::vector<int> by_slot;
    for (int node = 0; node < nodes(); ++node) {
      std::int64_t const most = std::numeric_limits<std::int64_t>::max() - length_with_room(node);
      if (slot_begins[node] < 0 || slot_begins[node] > most)
        fail(function, "slot_begins[" + std::to_string(node) + "]", "from 0 to less than 2^63",
             slot_begins[node]);
      nodes_[node].slot_begin = slot_begins[node];
      if (length_with_room(node) > 0) by_slot.push_back(node);
    }
    std::sort(by_slot.begin(), by_slot.end(),
              [&](int a, int b) { return slot_begins[a] < slot_begins[b]; });
    for (int const node : by_slot) {
      if (slot_begins[node] < slots_)
        fail(function, "slot_begins[" + std::to_string(node) + "]",
             "slots of its own, from " + std::to_string(slots_) + " on", slot_begins[node]);
      slots_ = slot_begins[node] + length_with_room(node);
    }
  }

  constexpr void sort_requests() {
    first_query_.assign(1, 0);
    first_query_.reserve(requests_.size() + 1);
    first_request_.assign(nodes_.size() + 1, 0);
    for (Request const& request : requests_) {
      first_query_.push_back(first_query_.back() + request.query_length);
      ++first_request_[request.node + 1];
      ++nodes_[request.node].requests_under;
      nodes_[request.node].queries_under += request.query_length;
    }
    for (int i = nodes(); i-- > 0;) {
      Node const& node = nodes_[parents_first_[i]];
      if (node.parent == no_parent) continue;
      nodes_[node.parent].requests_under += node.requests_under;
      nodes_[node.parent].queries_under += node.queries_under;
    }
    for (std::size_t i = 1; i < first_request_.size(); ++i)
      first_request_[i] += first_request_[i - 1];
    requests_by_node_.resize(requests_.size());
    std::vector<int> next(first_request_.begin(), first_request_.end() - 1);
    for (int i = 0; i < requests(); ++i) requests_by_node_[next[requests_[i].node]++] = i;
    depth_first_order(
        *this, [](int) { return false; }, depth_first_, first_places_);
  }

  std::vector<Node> nodes_;
  std::vector<Request> requests_;
  std::vector<int> first_child_, children_, parents_first_;
  std::int64_t slots_ = 0, unique_keys_ = 0;
  int room_ = 0;
  std::vector<int> first_query_, first_request_, requests_by_node_;
  std::vector<int> depth_first_, first_places_;
};

}  // namespace fasttree
