// SPDX-License-Identifier: Apache-2.0
#pragma once
// A forest as a server keeps it between plans: arrays that are edited token by token and request by
// request, with the slots in which the keys of each node lie. Beside each edit stands the update
// that a plan needs for it, if any.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <fasttree/planner/update_tables.hpp>
#include <fasttree/tree/prefix_tree.hpp>
#include "random.hpp"
#include "random_forest.hpp"

namespace fasttree::test {

class EditedForest {
 public:
  /// \param room  slots that are kept free behind each node that grows
  EditedForest(Forest const& forest, int room) : forest_(forest), room_(room) {
    PrefixTree const tree(forest.parents, forest.lengths, forest.requests, SlotLayout{1, room});
    for (int node = 0; node < tree.nodes(); ++node) slot_begins_.push_back(tree.slot_begin(node));
    slots_ = tree.slots();
  }

  PrefixTree tree(int room = 0) const {
    return PrefixTree(forest_.parents, forest_.lengths, forest_.requests, slot_begins_, room);
  }
  int requests() const { return static_cast<int>(forest_.requests.size()); }
  /// Slots that were given out: what the cache must have.
  std::int64_t slots() const { return slots_; }

  /// The slots of a path.
  std::vector<SlotRange> path(int node) const {
    std::vector<SlotRange> ranges;
    for (; node != PrefixTree::no_parent; node = forest_.parents[node])
      ranges.push_back({slot_begins_[node], forest_.lengths[node]});
    std::reverse(ranges.begin(), ranges.end());
    return ranges;
  }

  /// The first row of a request.
  int row(int request) const {
    int row = 0;
    for (int i = 0; i < request; ++i) row += forest_.requests[i].query_length;
    return row;
  }

  /// A token for each request that asks, in the slot behind its last; in a node of its own, where
  /// other nodes have come to hang below.
  void append_tokens() {
    for (int i = 0; i < requests(); ++i) {
      if (forest_.requests[i].query_length == 0) continue;
      int const node = forest_.requests[i].node;
      if (std::ranges::count(forest_.parents, node) > 0) {
        std::int64_t const slot = slot_begins_[node] + forest_.lengths[node];
        forest_.requests[i].node = add_node(node, 0, 0);
        slot_begins_.back() = slot;
      }
      ++forest_.lengths[forest_.requests[i].node];
    }
  }

  /// Gives each request a node of its own, in which there is a token and room.
  void give_own_nodes() {
    for (Request& request : forest_.requests) request.node = add_node(request.node, 1, room_);
  }

  void remove_request(int request) { forest_.requests.erase(forest_.requests.begin() + request); }
  void add_request(int node) { forest_.requests.push_back({node}); }

  /// A new node behind all slots so far, with room behind it.
  int add_node(int parent, int length, int room) {
    forest_.parents.push_back(parent);
    forest_.lengths.push_back(length);
    slot_begins_.push_back(slots_);
    slots_ += length + room;
    return nodes() - 1;
  }

  /// Cuts a node in two: all that hung on it or below it is then below its second part.
  void split_node(int node, int length) {
    int const second = nodes();
    for (int& parent : forest_.parents)
      if (parent == node) parent = second;
    for (Request& request : forest_.requests)
      if (request.node == node) request.node = second;
    forest_.parents.push_back(node);
    forest_.lengths.push_back(forest_.lengths[node] - length);
    slot_begins_.push_back(slot_begins_[node] + length);
    forest_.lengths[node] = length;
  }

  /// Drops a node that nothing hangs on; the last node takes its number.
  void drop_node(int node) {
    int const last = nodes() - 1;
    for (int& parent : forest_.parents)
      if (parent == last) parent = node;
    for (Request& request : forest_.requests)
      if (request.node == last) request.node = node;
    for (auto* array : {&forest_.parents, &forest_.lengths}) {
      (*array)[node] = (*array)[last];
      array->pop_back();
    }
    slot_begins_[node] = slot_begins_[last];
    slot_begins_.pop_back();
  }

  bool is_idle(int node) const {
    return std::ranges::count(forest_.parents, node) == 0 &&
           std::ranges::none_of(forest_.requests,
                                [&](Request const& request) { return request.node == node; });
  }

  /// One random edit, and the update of `plan` that it needs: plan.append_tokens(),
  /// .remove_request(row), .add_request(path, room), or .make_anew(). Returns what was done.
  template <class Plan>
  std::string edit(Random& random, Plan&& plan) {
    enum Edit { append, remove, add_on_node, add_on_new_node, add_without_keys, split, drop };
    constexpr Edit edits[] = {append,      append,          append,           remove, remove,
                              add_on_node, add_on_new_node, add_without_keys, split,  split,
                              drop};
    int const node = random.integer(0, std::max(0, nodes() - 1));
    switch (edits[random.integer(0, std::size(edits) - 1)]) {
      case append:
        if (plan.append_tokens()) {
          append_tokens();
          return "a token for each request";
        }
        if (!random.one_in(2)) return "no room for tokens";
        give_own_nodes();
        plan.make_anew();
        return "a plan anew";
      case remove: {
        if (requests() == 0) break;
        int const request = random.integer(0, requests() - 1);
        int const queries = forest_.requests[request].query_length;
        for (int i = 0; i < queries; ++i) plan.remove_request(row(request));
        remove_request(request);
        return "request " + std::to_string(request) + " removed";
      }
      case add_on_node:
        if (nodes() == 0 || !random.one_in(3)) break;  // leaves no room
        plan.add_request(path(node), 0);
        add_request(node);
        return "a request on node " + std::to_string(node);
      case add_on_new_node: {
        int const parent = nodes() == 0 || random.one_in(8) ? PrefixTree::no_parent : node;
        add_request(add_node(parent, random.integer(1, 40), room_));
        plan.add_request(path(nodes() - 1), room_);
        return "a request on a new node under " + std::to_string(parent);
      }
      case add_without_keys:
        if (!random.one_in(4)) break;
        add_request(add_node(PrefixTree::no_parent, 0, 0));
        plan.add_request(path(nodes() - 1), 0);
        return "a request without keys";
      case split:
        if (nodes() == 0 || forest_.lengths[node] < 2) break;
        split_node(node, random.integer(0, forest_.lengths[node]));
        return "node " + std::to_string(node) + " split";
      case drop:
        if (nodes() == 0 || !is_idle(node)) break;
        drop_node(node);
        return "node " + std::to_string(node) + " dropped";
      default:
        break;
    }
    return "nothing";
  }

 private:
  int nodes() const { return static_cast<int>(forest_.parents.size()); }

  Forest forest_;
  int room_;
  std::vector<std::int64_t> slot_begins_;
  std::int64_t slots_ = 0;
};

}  // namespace fasttree::test
