// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of blocks, and their cutting into pieces along the keys: of equal time, or at multiples of
// a length along each path.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <fasttree/plan/grouping.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/planner/query_blocks.hpp>

namespace fasttree {

/// Opens a group whose queries one item takes, with all keys that are appended.
constexpr void open_block(QueryBlock block, Grouping& grouping) {
  open_group(block.begin, block.end, block.queries(), std::numeric_limits<int>::max(), grouping);
}

namespace detail {

/// Takes the ranges of the group that was opened last out of it, to be put back in pieces.
constexpr void take_ranges_back(Grouping& grouping) {
  auto const begin = grouping.ranges.begin() + grouping.groups.back().range_begin;
  grouping.scratch.ranges.assign(begin, grouping.ranges.end());
  grouping.ranges.erase(begin, grouping.ranges.end());
  grouping.groups.pop_back();
}

/// Opens the group of a piece, which has no queries yet.
constexpr void open_piece(QueryBlock block, Grouping& grouping) {
  open_block({block.end, block.begin}, grouping);
}

/// Appends the keys [from, to) of a range to the group that was opened last, and widens it to the
/// queries of the block that read them.
constexpr void append_part(KeyRange range, int from, int to, QueryBlock block, Grouping& grouping) {
  range.slot_begin += from;
  range.position += from;
  range.length = to - from;
  grouping.ranges.push_back(range);
  KeyGroup& group = grouping.groups.back();
  group.range_end = static_cast<int>(grouping.ranges.size());
  group.query_begin = std::min(group.query_begin, std::max(range.query_begin, block.begin));
  group.query_end = std::max(group.query_end, std::min(range.query_end, block.end));
  group.queries_per_item = group.query_end - group.query_begin;
}

}  // namespace detail

/// Cuts the group that was opened last into pieces that take equally long, in whole tiles of
/// `tile` keys of a range. `key_time(range)` is what a key takes.
template <class KeyTime>
constexpr void cut_evenly(QueryBlock block, std::int64_t pieces, int tile, KeyTime const& key_time,
                          Grouping& grouping) {
  detail::take_ranges_back(grouping);
  double whole = 0;
  for (KeyRange const& range : grouping.scratch.ranges) whole += range.length * key_time(range);
  bool is_first = true;
  double room = 0;  // of the present piece
  for (KeyRange const& range : grouping.scratch.ranges) {
    double const one = key_time(range);
    for (int from = 0; from < range.length;) {
      if (is_first || room < one * tile / 2) {
        is_first = false;
        detail::open_piece(block, grouping);
        room += whole / static_cast<double>(pieces);
      }
      int const rest = range.length - from;
      double const fit = std::max(1.0, (room + one * tile / 2) / (one * tile));
      int const taken = fit * tile < rest ? static_cast<int>(fit) * tile : rest;
      detail::append_part(range, from, from + taken, block, grouping);
      room -= taken * one;
      from += taken;
    }
  }
}

/// Cuts the group that was opened last at multiples of `piece` along each path.
constexpr void cut_at_multiples(QueryBlock block, int piece, Grouping& grouping) {
  detail::take_ranges_back(grouping);
  auto& ranges = grouping.scratch.ranges;
  std::sort(ranges.begin(), ranges.end(), [](KeyRange const& a, KeyRange const& b) {
    return a.position != b.position ? a.position < b.position : a.query_begin < b.query_begin;
  });
  std::size_t open_ranges = 0, next = 0;  // [0, open_ranges): with keys from `begin` on
  for (std::int64_t begin = 0; open_ranges > 0 || next < ranges.size(); begin += piece) {
    std::int64_t const end = begin + piece;
    while (next < ranges.size() && ranges[next].position < end)
      ranges[open_ranges++] = ranges[next++];
    detail::open_piece(block, grouping);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < open_ranges; ++i) {
      KeyRange const range = ranges[i];
      auto const from = static_cast<int>(std::max<std::int64_t>(begin - range.position, 0));
      auto const to = static_cast<int>(std::min<std::int64_t>(end - range.position, range.length));
      detail::append_part(range, from, to, block, grouping);
      if (to < range.length) ranges[kept++] = range;
    }
    open_ranges = kept;
  }
}

}  // namespace fasttree
