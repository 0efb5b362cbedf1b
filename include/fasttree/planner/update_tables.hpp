// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans that follow their requests from step to step: a token more for each, one request less, one
// more. Each update edits the tables of a plan in place; the law of plans holds after it, and on an
// Error nothing has changed. What a new plan would do better: requests added share nothing, and the
// pieces of those that are left stay as they are. The nodes of a tree may change without any
// update, since a plan speaks of key slots alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/planner/build_plan.hpp>

namespace fasttree {

/// Keys whose slots follow each other: those of a node, or of a part of it.
struct SlotRange {
  std::int64_t slot_begin;
  int length;
};

namespace detail {

/// Memory for `more` elements, so that appending them cannot throw; grows by doubling, as appending
/// would.
template <class T>
constexpr void make_room(std::vector<T>& array, std::size_t more) {
  std::size_t const size = array.size() + more;
  if (array.capacity() < size) array.reserve(std::max(size, 2 * array.capacity()));
}

/// Whether a query is one of [begin, end): one comparison, whose outcome is foreseen where few
/// intervals hold the query, in whatever order they come.
constexpr bool holds(int begin, int end, int query) {
  return static_cast<unsigned>(query - begin) < static_cast<unsigned>(end - begin);
}

// ---- a token more

/// Lists the ranges by which items read the last key of each query, where no other query does. That
/// is one for each, by the law; what a range's interval holds beyond its item's does not matter.
constexpr void find_last_ranges(PlanTables& tables) {
  auto& found = tables.updates.last_ranges;
  found.resize(tables.query_order.size());
  std::span<KeyRange const> const ranges(tables.ranges);
  std::span<int const> const visible_keys(tables.visible_keys);
  std::size_t count = 0;
  for (WorkItem const& item : tables.items) {
    for (int i = item.range_begin; i < item.range_end; ++i) {
      KeyRange const& range = ranges[i];
      int const query = std::max(item.query_begin, range.query_begin);
      if (std::min(item.query_end, range.query_end) - query != 1) continue;
      if (range.length == visible_keys[query] - range.position && count < found.size())
        found[count++] = i;
    }
  }
  found.resize(count);
}

// ---- a request less

/// Takes a query out of all ranges; those that no query attends to any more become [0, 0), which
/// concerns no item.
constexpr void leave_ranges(std::vector<KeyRange>& ranges, int query) {
  for (KeyRange& range : ranges) {
    int const begin = range.query_begin - (range.query_begin > query);
    int const end = range.query_end - (range.query_end > query);
    range.query_begin = begin < end ? begin : 0;
    range.query_end = begin < end ? end : 0;
  }
}

/// Takes a partial result out of the list of its query.
constexpr void drop_partial(PlanTables& tables, int query, int partial) {
  auto& list = tables.merge_partials;
  list.erase(std::find(list.begin() + tables.merge_begin[query], list.end(), partial));
  std::for_each(tables.merge_begin.begin() + query + 1, tables.merge_begin.end(),
                [](int& begin) { --begin; });
  tables.updates.free_partials.push_back(partial);
}

/// Takes a query out of an item, given as it was; the ranges have forgotten the query, the lists of
/// partial results have not. Returns whether the item is left with queries and keys.
constexpr bool leave_item(PlanTables& tables, WorkItem const& item, int query) {
  bool const direct = item.partial_begin == WorkItem::direct;
  int const begin = item.query_begin, end = item.query_end - 1;
  if (!direct) {
    // Those of the queries behind it move up by one, and the last is free.
    int const own = item.partial_begin + query - begin, last = item.partial_begin + end - begin;
    auto const of_query = [&](int i) {
      return tables.merge_partials.begin() + tables.merge_begin[i];
    };
    std::for_each(of_query(query + 1), of_query(item.query_end), [&](int& partial) {
      partial -= static_cast<int>(own < partial && partial <= last);
    });
    tables.updates.free_partials.push_back(last);
  }
  if (begin == end) return false;
  auto const ranges = tables.ranges_of(item);
  bool const has_keys = std::any_of(ranges.begin(), ranges.end(), [&](KeyRange const& range) {
    return range.query_begin < end && range.query_end > begin;
  });
  if (has_keys) return true;
  for (int other = begin; other < end; ++other) {
    int const number = other + (other >= query);
    if (direct) {
      tables.merge_queries.push_back(number);  // of nothing: it yields 0
    } else {
      drop_partial(tables, number, item.partial_begin + other - begin);
    }
  }
  return false;
}

/// Takes a query out of all items.
constexpr void leave_items(PlanTables& tables, int query) {
  auto& items = tables.items;
  auto kept = items.begin(), moved = kept;  // those from `moved` on go to `kept`
  auto const move_up_to = [&](auto end) {
    return kept == moved ? end : std::move(moved, end, kept);
  };
  for (auto item = items.begin(); item != items.end(); ++item) {
    int const begin = item->query_begin, end = item->query_end;
    if (holds(begin, end, query) && !leave_item(tables, *item, query)) {
      kept = move_up_to(item);
      moved = item + 1;
    }
    item->query_begin = begin - (begin > query);
    item->query_end = end - (end > query);
  }
  items.erase(move_up_to(items.end()), items.end());
}

/// Takes a query out of the arrays that have an element for each, and drops its list.
constexpr void leave_lists(PlanTables& tables, int query, int row) {
  auto& begins = tables.merge_begin;
  auto const list = tables.merge_partials.begin();
  int const listed = begins[query + 1] - begins[query];
  tables.merge_partials.erase(list + begins[query], list + begins[query + 1]);
  begins.erase(begins.begin() + query);
  for (std::size_t i = query; i < begins.size(); ++i) begins[i] -= listed;

  std::erase(tables.merge_queries, query);
  for (int& other : tables.merge_queries) other -= other > query;

  tables.path_keys -= tables.visible_keys[query];
  tables.visible_keys.erase(tables.visible_keys.begin() + query);
  tables.query_order.erase(tables.query_order.begin() + query);
  for (int& other : tables.query_order) other -= other > row;
}

// ---- a request more

/// Drops ranges that no item reads, or no query: each request that came and went has left some.
/// Items that read the same ranges are neighbours.
constexpr void drop_unread_ranges(PlanTables& tables) {
  auto& kept = tables.updates.other_ranges;
  kept.clear();
  make_room(kept, tables.ranges.size());
  int from = -1, to = 0;
  for (WorkItem& item : tables.items) {
    if (item.range_begin != from) {
      from = item.range_begin;
      to = static_cast<int>(kept.size());
      for (KeyRange const& range : tables.ranges_of(item))
        if (range.query_begin < range.query_end) kept.push_back(range);
    }
    item.range_begin = to;
    item.range_end = static_cast<int>(kept.size());
  }
  std::swap(tables.ranges, kept);
  tables.updates.ranges_read = static_cast<int>(tables.ranges.size());
  tables.updates.last_ranges.clear();
}

/// What a request adds to a plan.
struct AddedRequest {
  int keys = 0;
  int items = 0;
  int keys_per_item = 0;
  std::int64_t slots = 0;  ///< up to its last key, with room
};

/// Checks the arguments of add_request.
constexpr AddedRequest measure_request(PlanTables const& tables, PlanTarget const& target,
                                       std::span<SlotRange const> path, int room) {
  constexpr char const* function = "add_request";
  constexpr int most = std::numeric_limits<int>::max();
  require(room >= 0, function, "room", "0 or more", room);
  std::int64_t keys = room, slots = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    auto const& [begin, length] = path[i];
    if (length < 0) fail(function, "path[" + std::to_string(i) + "].length", "0 or more", length);
    if (begin < 0 || begin > std::numeric_limits<std::int64_t>::max() - length - room)
      fail(function, "path[" + std::to_string(i) + "].slot_begin", "from 0 to less than 2^63",
           begin);
    slots = std::max(slots, begin + length + (i + 1 == path.size() ? room : 0));
    keys += length;
    require(keys <= most, function, "path", "less than 2^31 keys, with room", keys);
  }
  AddedRequest added{static_cast<int>(keys - room), 0, 0, slots};
  int const longest = std::max(tables.updates.longest_item, 4 * tables.tiles.wide.key_rows);
  added.items = ceil_div<std::int64_t>(added.keys, longest);
  if (added.items > 0) added.keys_per_item = ceil_div<std::int64_t>(added.keys, added.items);
  require_tasks(function, tables.items.size() + added.items, target);
  // The same limits as those of a tree and of a plan.
  auto const require_fewer = [&](char const* what, std::size_t count) {
    require(count < std::size_t{most}, function, what, "less than 2^31 - 1", count);
  };
  require_fewer("queries", tables.query_order.size() + 1);
  require_fewer("partial results", std::size_t{1} * tables.partials + added.items);
  require_fewer("entries of merge lists", tables.merge_partials.size() + added.items);
  require_fewer("ranges", tables.ranges.size() + path.size() + added.items);
  return added;
}

/// Appends the ranges of one query, and says to its items which are theirs.
constexpr void append_ranges(std::vector<KeyRange>& ranges, std::span<SlotRange const> path,
                             int query, int keys_per_item, std::span<WorkItem> items) {
  int position = 0, left = 0;  // of the item that takes keys
  WorkItem* item = items.data();
  for (auto [slot, length] : path) {
    while (length > 0) {
      if (left == 0) {
        if (position > 0) ++item;
        left = keys_per_item;
        item->range_begin = item->range_end = static_cast<int>(ranges.size());
      }
      int const taken = std::min(length, left);
      bool const has_range = item->range_begin < item->range_end;
      if (has_range && ranges.back().slot_begin + ranges.back().length == slot) {
        ranges.back().length += taken;
      } else {
        ranges.push_back({slot, taken, position, query, query + 1});
        ++item->range_end;
      }
      slot += taken, length -= taken, position += taken, left -= taken;
    }
  }
}

/// Takes a partial result that no item writes.
constexpr int take_partial(PlanTables& tables) {
  auto& free = tables.updates.free_partials;
  if (free.empty()) return tables.partials++;
  int const partial = free.back();
  free.pop_back();
  return partial;
}

}  // namespace detail

/// Lets every query see one key more, in the slot behind its last. Returns false, and changes
/// nothing, where a query has no free slot that is its own: the room that the tree kept is used up,
/// or a request hangs on a node to which another attends, on an empty one, or asks several queries.
/// Time: linear in queries; the first time also in the ranges of items.
constexpr bool append_tokens(PlanTables& tables) {
  PlanUpdates& updates = tables.updates;
  if (updates.room == 0) return false;
  if (updates.last_ranges.empty()) detail::find_last_ranges(tables);
  for (int const range : updates.last_ranges) ++tables.ranges[range].length;
  for (int& keys : tables.visible_keys) ++keys;
  auto const queries = static_cast<std::int64_t>(tables.query_order.size());
  tables.path_keys += queries;
  tables.unique_keys += queries;
  if (queries > 0) --updates.room;
  return true;
}

/// Takes the query of a row out of the plan; the rows behind it move up by one. Of a request of
/// several queries, take each. Errors: `Error` where there is no such row. Time: linear in queries,
/// items and ranges; besides in the merge lists of the queries with which it shares items.
constexpr void remove_request(PlanTables& tables, int row) {
  auto const queries = tables.query_order.size();
  if (row < 0 || static_cast<std::size_t>(row) >= queries)
    fail("remove_request", "row", "one below " + std::to_string(queries), row);
  detail::make_room(tables.merge_queries, queries - tables.merge_queries.size());
  auto& free = tables.updates.free_partials;
  detail::make_room(free, tables.partials - free.size());
  // Nothing throws from here on.
  auto const& order = tables.query_order;
  int const query = static_cast<int>(std::find(order.begin(), order.end(), row) - order.begin());
  detail::leave_ranges(tables.ranges, query);
  detail::leave_items(tables, query);
  detail::leave_lists(tables, query, row);
  if (order.empty()) {
    tables.updates.room = std::numeric_limits<int>::max();
    tables.updates.last_ranges.clear();
  }
}

/// Appends a request of one query, in the last row, which attends to the keys of `path`, from the
/// root down. It reads them alone, in items no longer than those of the plan, ahead of all others.
///
/// \param room  free slots behind the last key that are the request's own; append_tokens will find
///              no more room than this, nor any where the end of the path is empty
///
/// Errors: `Error` on negative lengths, slots or room, and where the plan outgrows its limits.
/// Time: linear in items (to move them) and in the path; at times in ranges, of which those are
/// dropped that removed requests have left.
constexpr void add_request(PlanTables& tables, PlanTarget const& target,
                           std::span<SlotRange const> path, int room = 0) {
  detail::AddedRequest const added = detail::measure_request(tables, target, path, room);
  int const query = static_cast<int>(tables.query_order.size());
  if (tables.ranges.size() > 2 * std::size_t(tables.updates.ranges_read) + 64)
    detail::drop_unread_ranges(tables);
  detail::make_room(tables.query_order, 1);
  detail::make_room(tables.visible_keys, 1);
  detail::make_room(tables.merge_queries, 1);
  detail::make_room(tables.merge_begin, 2);
  detail::make_room(tables.merge_partials, added.items);
  detail::make_room(tables.items, added.items);
  detail::make_room(tables.ranges, path.size() + added.items);
  auto& last_ranges = tables.updates.last_ranges;
  detail::make_room(last_ranges, 1);
  // Nothing throws from here on.
  tables.query_order.push_back(query);
  tables.visible_keys.push_back(added.keys);
  tables.items.insert(tables.items.begin(), added.items,
                      WorkItem{query, query + 1, 0, 0, WorkItem::direct});
  auto const items = std::span(tables.items).first(added.items);
  detail::append_ranges(tables.ranges, path, query, added.keys_per_item, items);
  if (tables.merge_begin.empty()) tables.merge_begin.push_back(0);
  if (added.items != 1) {
    tables.merge_queries.push_back(query);
    for (WorkItem& item : items) {
      item.partial_begin = detail::take_partial(tables);
      tables.merge_partials.push_back(item.partial_begin);
    }
  }
  tables.merge_begin.push_back(static_cast<int>(tables.merge_partials.size()));
  tables.slots = std::max(tables.slots, added.slots);
  tables.path_keys += added.keys;
  tables.unique_keys += added.keys;
  if (path.empty() || path.back().length == 0) room = 0;  // no range ends where tokens would go
  tables.updates.room = std::min(tables.updates.room, room);
  if (room > 0 && !last_ranges.empty())
    last_ranges.push_back(static_cast<int>(tables.ranges.size()) - 1);
}

}  // namespace fasttree
