// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules for splitting long contexts: long pieces cost fewer partial results, short ones fill the
// machine.

#include <algorithm>
#include <cstdint>

#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>

namespace fasttree {

/// One length of pieces for all groups, if items read so many keys in all: about four items per
/// slot of the machine, none below four key tiles nor above the tiles' `most_keys`, so that a
/// machine that is full anyway splits little.
constexpr int even_piece(PlanTarget const& target, std::int64_t keys) {
  std::int64_t const items =
      ceil_div<std::int64_t>(std::int64_t{4} * target.slots, target.kv_heads);
  int const tile = target.tiles.wide.key_rows;
  std::int64_t const piece = round_up<std::int64_t>(ceil_div(keys, items), tile);
  return static_cast<int>(
      std::clamp<std::int64_t>(piece, 4 * tile, std::max(4 * tile, target.tiles.most_keys)));
}

/// Gives all groups pieces of that length.
constexpr void split_evenly(PlanTarget const& target, Grouping& grouping) {
  auto const keys_of = [&](KeyGroup const& group) {
    std::int64_t keys = 0;
    for (int i = group.range_begin; i < group.range_end; ++i) keys += grouping.ranges[i].length;
    return keys;
  };
  std::int64_t work = 0;  // keys that items read, over all query tiles
  for (KeyGroup const& group : grouping.groups)
    work += keys_of(group) * ceil_div(group.query_end - group.query_begin, group.queries_per_item);
  int const piece = even_piece(target, work);
  for (KeyGroup& group : grouping.groups) group.keys_per_item = piece;
}

}  // namespace fasttree
