// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan as a picture of its tree: what each work item reads of a node is a patch in the item's colour.

#include <fasttree/plan/plan_tables.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../support/picture_layout.hpp"
#include "../support/text.hpp"
#include "workload.hpp"

namespace fasttree::examples {

/// Puts the picture of a plan together. Every request has one query, so that the number of a query is
/// its request's column.
class PlanPicture {
 public:
  PlanPicture(Workload const& workload, PlanTables const& tables)
      : workload_(workload), tree_(workload.tree()), tables_(tables) {
    picture_.requests = tree_.requests();
    place_nodes();
    for (int item = 0; item < static_cast<int>(tables_.items.size()); ++item) add_item(item);
    add_legend();
    picture_.caption =
        "Across: the requests, a dot under the last node of each path. Down: the tokens of their "
        "paths, "
        "heights by the square root. A colour is a work item: keys that are read at once, for all "
        "the "
        "requests below them.";
  }

  TreePicture& picture() { return picture_; }

 private:
  /// The columns under a node, and parents before children.
  void place_nodes() {
    std::vector<int> column(tree_.requests());
    for (int i = 0; i < tree_.requests(); ++i) column[tables_.query_order[i]] = i;
    auto const order = tree_.parents_first();
    std::vector<int> begin(tree_.nodes(), tree_.requests());
    for (std::size_t i = order.size(); i-- > 0;) {
      int const node = order[i], parent = tree_.parent(node);
      for (int const request : tree_.requests_on(node))
        begin[node] = std::min(begin[node], column[request]);
      if (parent != PrefixTree::no_parent) begin[parent] = std::min(begin[parent], begin[node]);
    }
    place_.resize(tree_.nodes());
    for (int const node : order) {
      int const parent = tree_.parent(node);
      place_[node] = static_cast<int>(picture_.nodes.size());
      int const end = begin[node] + tree_.requests_under(node);
      std::string const label = workload_.label(node);
      picture_.nodes.push_back({parent == PrefixTree::no_parent ? -1 : place_[parent],
                                begin[node],
                                end,
                                tree_.length(node),
                                -1,
                                label,
                                {},
                                {}});
    }
  }

  static std::string counted(std::int64_t number, char const* what) {
    return group_thousands(number) + " " + what + (number == 1 ? "" : "s");
  }

  std::string describe(int item) const {
    WorkItem const& work = tables_.items[item];
    return "item " + std::to_string(item) + ": " +
           counted(work.query_end - work.query_begin, "request") + " x " +
           counted(keys(item), "key");
  }

  std::int64_t keys(int item) const {
    std::int64_t sum = 0;
    for (KeyRange const& range : tables_.ranges_of(tables_.items[item])) sum += range.length;
    return sum;
  }

  /// Slots of nodes follow each other in the order of their numbers.
  void add_item(int item) {
    WorkItem const& work = tables_.items[item];
    std::string const tooltip = describe(item);
    for (KeyRange const& range : tables_.ranges_of(work)) {
      int node = 0;
      for (int step = tree_.nodes(); step > 0; step /= 2)
        while (node + step < tree_.nodes() && tree_.slot_begin(node + step) <= range.slot_begin)
          node += step;
      std::int64_t const end = range.slot_begin + range.length;
      for (; node < tree_.nodes() && tree_.slot_begin(node) < end; ++node) {
        std::int64_t const first = tree_.slot_begin(node);
        PictureNode& drawn = picture_.nodes[place_[node]];
        PicturePatch patch;
        patch.begin_request = std::max({work.query_begin, range.query_begin, drawn.begin_request});
        patch.end_request = std::min({work.query_end, range.query_end, drawn.end_request});
        patch.begin_token = static_cast<int>(std::max<std::int64_t>(range.slot_begin - first, 0));
        patch.end_token = static_cast<int>(std::min<std::int64_t>(end - first, drawn.length));
        patch.colour = item;
        patch.tooltip = tooltip + "\n" + drawn.label;
        if (patch.begin_request < patch.end_request && patch.begin_token < patch.end_token)
          drawn.patches.push_back(patch);
      }
    }
  }

  /// The items of most work; the others count as one line.
  void add_legend() {
    std::vector<int> items(tables_.items.size());
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<int>(i);
    std::vector<std::int64_t> work(items.size());
    for (int const item : items)
      work[item] = keys(item) * (tables_.items[item].query_end - tables_.items[item].query_begin);
    std::stable_sort(items.begin(), items.end(), [&](int a, int b) { return work[a] > work[b]; });
    constexpr std::size_t shown = 7;
    for (std::size_t i = 0; i < std::min(shown, items.size()); ++i)
      picture_.legend.push_back({items[i], describe(items[i])});
    if (items.size() > shown)
      picture_.legend.push_back(
          {-1, "and " + counted(static_cast<std::int64_t>(items.size() - shown), "item") +
                   " of less work"});
  }

  Workload const& workload_;
  PrefixTree const& tree_;
  PlanTables const& tables_;
  TreePicture picture_;
  std::vector<int> place_;  ///< node -> its place in the picture
};

}  // namespace fasttree::examples
