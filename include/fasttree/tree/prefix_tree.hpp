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

/// A node as planners see it that walk up many paths: in depth-first order, in which the lower ends
/// of paths lie side by side in memory.
struct PathNode {
  int parent;  ///< its place in this order, or no_parent
  int length = 0;
  int position = 0;
  int requests = 0;     ///< on or below it,
  int queries = 0;      ///< and how many they ask,
  int query_begin = 0;  ///< from which on, numbered in this order
  std::int64_t slot_begin = 0;

  constexpr int path_length() const { return position + length; }
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
      path_nodes_[place(node)].slot_begin = slots_;
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
  constexpr int queries() const { return queries_; }
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
                       [&](int i) { return request(i).query_length == 1; });
  }

  constexpr int parent(int node) const { return nodes_[node].parent; }
  constexpr int length(int node) const { return nodes_[node].length; }
  /// The logical slot of the node's first key; the others follow.
  constexpr std::int64_t slot_begin(int node) const { return path_node(node).slot_begin; }
  /// The position, along the path, of the node's first key: tokens of all nodes above it.
  constexpr int position(int node) const { return path_node(node).position; }
  /// Tokens of the path that ends with this node.
  constexpr int path_length(int node) const { return path_node(node).path_length(); }
  constexpr std::span<int const> children(int node) const {
    return slice(children_, first_child_[node], first_child_[node + 1]);
  }
  /// The requests that hang on this very node.
  constexpr std::span<int const> requests_on(int node) const {
    return slice(depth_first_requests_, first_request_[place(node)],
                 first_request_[place(node) + 1]);
  }
  /// How many requests, and how many queries, hang on this node or below it.
  constexpr int requests_under(int node) const { return path_node(node).requests; }
  constexpr int queries_under(int node) const { return path_node(node).queries; }

  /// All nodes in depth-first order, parents before children; and their records, in that order.
  constexpr std::span<int const> parents_first() const { return depth_first_nodes_; }
  constexpr std::span<PathNode const> path_nodes() const { return path_nodes_; }
  constexpr PathNode const& path_node(int node) const { return path_nodes_[place(node)]; }
  /// All requests in depth-first order, and for each the place of its node among path_nodes().
  constexpr std::span<int const> depth_first_requests() const { return depth_first_requests_; }
  constexpr std::span<int const> bottoms() const { return bottoms_; }
  /// The number of the first query of each in that order; behind the last, that of all queries.
  constexpr std::span<int const> query_begins() const { return query_begins_; }
  /// By nodes: how many requests come before those on and under it in that order.
  constexpr std::span<int const> first_places() const { return first_places_; }

  constexpr Request const& request(int request) const { return requests_[request].asked; }
  /// The request's first row in the query and output arrays.
  constexpr int first_query(int request) const { return requests_[request].first_query; }
  /// Tokens of the request's path.
  constexpr int request_keys(int request) const { return requests_[request].keys; }

 private:
  struct Node {
    int parent, length;
    int place = 0;  ///< in depth-first order
  };

  struct PlacedRequest {
    Request asked;
    int first_query;
    int keys = 0;
  };

  /// All but the slots.
  constexpr PrefixTree(std::span<int const> parents, std::span<int const> lengths,
                       std::span<Request const> requests, int room)
      : room_(room) {
    validate(parents, lengths, requests);
    nodes_.reserve(parents.size());
    for (std::size_t i = 0; i < parents.size(); ++i)
      nodes_.push_back({.parent = parents[i], .length = lengths[i]});
    sort_children();
    sort_nodes();
    sort_requests(requests);
    number_queries();
    place_keys();
  }

  constexpr int place(int node) const { return nodes_[node].place; }

  constexpr int room_behind(int node) const { return room_ > 0 && grows(node) ? room_ : 0; }
  constexpr std::int64_t length_with_room(int node) const {
    return std::int64_t{1} * length(node) + room_behind(node);
  }

  static constexpr std::span<int const> slice(std::vector<int> const& all, int begin, int end) {
    return std::span<int const>(all).subspan(begin, end - begin);
  }

  constexpr void validate(std::span<int const> parents, std::span<int const> lengths,
                          std::span<Request const> requests) const {
    constexpr char const* function = "PrefixTree";
    require(lengths.size() == parents.size(), function, "lengths.size()", parents.size(),
            lengths.size());
    constexpr std::size_t most = std::numeric_limits<int>::max() - 1;
    require(parents.size() <= most, function, "parents.size()", "less than 2^31 - 1",
            parents.size());
    require(requests.size() <= most, function, "requests.size()", "less than 2^31 - 1",
            requests.size());
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
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto const [node, query_length] = requests[i];
      if (node < 0 || node >= nodes)
        fail(function, "requests[" + std::to_string(i) + "].node",
             "a node below " + std::to_string(nodes), node);
      if (query_length < 0)
        fail(function, "requests[" + std::to_string(i) + "].query_length", "0 or more",
             query_length);
      queries += query_length;
    }
    require(queries <= static_cast<std::int64_t>(most), function, "requests",
            "less than 2^31 - 1 queries in all", queries);
  }

  /// A counting sort of `count` numbers by keys below `keys`: all = the numbers, ascending for each
  /// key; first = where those of each key begin.
  template <class KeyOf>
  static constexpr void sort_by(int keys, int count, KeyOf key_of, std::vector<int>& all,
                                std::vector<int>& first) {
    first.assign(keys + 1, 0);
    int sorted = 0;
    for (int i = 0; i < count; ++i) {
      int const key = key_of(i);
      if (key < 0) continue;
      ++first[key];
      ++sorted;
    }
    for (int key = 1; key <= keys; ++key) first[key] += first[key - 1];
    all.resize(sorted);
    for (int i = count; i-- > 0;)
      if (int const key = key_of(i); key >= 0) all[--first[key]] = i;
  }

  constexpr void sort_children() {
    sort_by(
        nodes(), nodes(), [&](int node) { return parent(node); }, children_, first_child_);
  }

  constexpr void sort_nodes() {
    path_nodes_.reserve(nodes_.size());
    depth_first_nodes_.reserve(nodes_.size());
    std::vector<int> next(nodes_.size());  // the first of them behind the others
    for (int root = 0; root < nodes(); ++root) {
      if (parent(root) != no_parent) continue;
      next[0] = root;
      for (int left = 1; left > 0;) {
        int const node = next[--left], above = parent(node);
        nodes_[node].place = static_cast<int>(path_nodes_.size());
        depth_first_nodes_.push_back(node);
        path_nodes_.push_back(
            {.parent = above == no_parent ? no_parent : place(above), .length = length(node)});
        for (int i = first_child_[node + 1]; i-- > first_child_[node];) next[left++] = children_[i];
      }
    }
    if (depth_first_nodes_.size() == nodes_.size()) return;
    std::vector<bool> reached(nodes_.size(), false);
    for (int const node : depth_first_nodes_) reached[node] = true;
    int lost = 0;
    while (reached[lost]) ++lost;
    fail("PrefixTree", "parents", "a forest", "a cycle on or above node " + std::to_string(lost));
  }

  constexpr void sort_requests(std::span<Request const> requests) {
    requests_.reserve(requests.size());
    for (Request const& request : requests) {
      requests_.push_back({request, queries_});
      queries_ += request.query_length;
    }
    sort_by(
        nodes(), this->requests(), [&](int i) { return place(request(i).node); },
        depth_first_requests_, first_request_);
  }

  /// Numbers queries in depth-first order and counts them, and requests, up the tree.
  constexpr void number_queries() {
    bottoms_.reserve(requests_.size());
    query_begins_.reserve(requests_.size() + 1);
    first_places_.resize(nodes_.size());
    int queries = 0;
    for (int place = 0; place < nodes(); ++place) {
      int const begin = first_request_[place], end = first_request_[place + 1];
      first_places_[depth_first_nodes_[place]] = begin;
      PathNode& node = path_nodes_[place];
      node.query_begin = queries;
      for (int i = begin; i < end; ++i) {
        bottoms_.push_back(place);
        query_begins_.push_back(queries);
        queries += request(depth_first_requests_[i]).query_length;
      }
      node.requests = end - begin;
      node.queries = queries - node.query_begin;
    }
    query_begins_.push_back(queries);
    for (int place = nodes(); place-- > 0;) {
      PathNode const& node = path_nodes_[place];
      if (node.parent == no_parent) continue;
      path_nodes_[node.parent].requests += node.requests;
      path_nodes_[node.parent].queries += node.queries;
    }
  }

  constexpr void place_keys() {
    for (int place = 0; place < nodes(); ++place) {
      int const number = depth_first_nodes_[place];
      PathNode& node = path_nodes_[place];
      if (node.parent != no_parent) node.position = path_nodes_[node.parent].path_length();
      std::int64_t const end = std::int64_t{1} * node.position + node.length + room_behind(number);
      if (end > std::numeric_limits<int>::max())
        fail("PrefixTree", "lengths", "paths of less than 2^31 tokens",
             "a longer one down to node " + std::to_string(number));
      if (node.queries > 0) unique_keys_ += node.length;
    }
    for (int i = 0; i < requests(); ++i)
      requests_[depth_first_requests_[i]].keys = path_nodes_[bottoms_[i]].path_length();
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
      path_nodes_[place(node)].slot_begin = slot_begins[node];
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

  std::vector<Node> nodes_;
  std::vector<PlacedRequest> requests_;
  std::vector<int> children_, first_child_;             // by nodes
  std::vector<int> depth_first_nodes_, first_request_;  // by places
  std::vector<PathNode> path_nodes_;                    // by places
  std::vector<int> depth_first_requests_, bottoms_, query_begins_;
  std::vector<int> first_places_;  // by nodes
  std::int64_t slots_ = 0, unique_keys_ = 0;
  int room_ = 0, queries_ = 0;
};

}  // namespace fasttree
