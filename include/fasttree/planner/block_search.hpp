// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search of MinimalTraffic: blocks of several heights, the longest of them in pieces of several
// lengths, and the groups of the plan of least predicted time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/schedule.hpp>
#include <fasttree/planner/path_parts.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/planner/query_blocks.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// One search; its memory is the scratch of the grouping.
template <class Costs>
class BlockSearch {
 public:
  /// Counts the keys of all paths, in the tree's own order of requests.
  constexpr BlockSearch(Costs const& costs, PrefixTree const& tree, PlanTarget const& target,
                        Grouping& grouping)
      : costs_(costs),
        target_(target),
        tiles_(grouping.tiles),
        grouping_(grouping),
        item_(costs.item_time(target, {})),
        partial_row_(price({.partial_rows = 1})),
        partial_item_(costs.item_time(target, {.partial_rows = 1}) - partial_row_),
        merged_row_(price({.merged_rows = 1})),
        few_queries_(std::min(target.narrow_queries(tiles_), target.queries(tiles_.wide))),
        tree_(tree),
        apart_(apart_prices()),
        paths_(tree, target, apart_, grouping) {}

  /// Finds the blocks and the length of pieces. Lower blocks come closer to a full machine and read
  /// more; pieces come closer still and make partial results.
  constexpr void run() {
    paths_.part(true);
    choose_lower_height();
    if (apart_.gain.empty()) return try_heights(target_.queries(tiles_.wide), 0);
    try_heights(target_.queries(tiles_.wide), few_queries_);
    if (paths_.is_parted()) {
      int const height = std::min(2 * few_queries_, target_.queries(tiles_.wide));
      if (least_load(height) >= worth * best_) return;
      paths_.part(false);
      try_heights(height, few_queries_);
    }
    try_heights(few_queries_, 0);
    if (best_is_parted_) paths_.part(true);
  }

  /// Appends the groups of what was found, those of the longest items first.
  constexpr void append_groups() {
    sort_blocks();
    for (int const i : order_) {
      PricedBlock const& block = best_blocks_[i];
      std::int64_t const pieces = pieces_of(block, longest_piece_);
      open(block.begin, block.end);
      paths_.append({block.begin, block.end}, block.upper);
      if (pieces > 1) cut_group(block, pieces);
    }
  }

  /// The same, but with long paths cut every `piece` keys from their beginning.
  constexpr void append_fixed_pieces(int piece) {
    sort_blocks();
    for (int const i : order_) {
      PricedBlock const& block = best_blocks_[i];
      open(block.begin, block.end);
      paths_.append({block.begin, block.end}, block.upper);
      cut_group_at_multiples(block, piece);
    }
  }

 private:
  static constexpr double unsplit = std::numeric_limits<double>::infinity();
  static constexpr double worth = 0.995;  ///< what a gain must come to
  /// How much dearer pieces are taken to be than is seen here: what is left at the ends of ranges
  /// becomes items of its own, and partial results are waited for.
  static constexpr double of_pieces = 1.25;

  /// Microseconds of work in an item that has much of it, so that the item's own do not count.
  constexpr double price(ItemWork const& work) const {
    constexpr double much = 0x1p20;
    return (costs_.item_time(target_, much * work) - costs_.item_time(target_, {})) / much;
  }

  /// Half the height, in whole steps of rows where a step is some queries; 0 where that is no less.
  constexpr int half(int height) const {
    bool const narrow = height <= few_queries_, some = tiles_.wide.row_step % target_.group == 0;
    int const step = narrow || !some ? 1 : tiles_.wide.row_step / target_.group;
    int const lower = round_up(height / 2, step);
    return lower < height ? lower : 0;
  }

  /// Tries heights, halved again and again, above `above`; and for each, lengths of pieces in steps
  /// of half an octave.
  constexpr void try_heights(int height, int above) {
    for (; height > above; height = half(height)) {
      if (best_ != unsplit && least_load(height) >= worth * best_) return;
      cut(height);
      if (mean_load_ >= worth * best_) return;  // and that of lower blocks is seldom less
      for (double const share : {unsplit, 2.0, 1.41, 1.0, 0.71, 0.5, 0.35, 0.25, 0.18, 0.125}) {
        double const longest = share == unsplit ? unsplit : item_ + share * mean_load_;
        if (longest >= longest_block_ && share != unsplit) continue;
        double const dearer = share == unsplit ? 1 : of_pieces;
        double const time = dearer * predict(longest, worth * best_ / dearer);
        if (best_ == unsplit || time < worth * best_) {
          best_ = time;
          longest_piece_ = longest;
          best_is_parted_ = paths_.is_parted();
          best_blocks_.assign(blocks_.begin(), blocks_.end());
        }
        if (worth * best_ <= mean_load_) return;  // hardly a slot rests: there is nothing to gain
        if (time == unsplit) break;               // and shorter pieces cost no less
      }
    }
  }

  /// No plan of blocks of a height loads a slot with less: as few items as can be, with equal work;
  /// each key is read once as new, and again where that many queries at once are too few; each is
  /// multiplied in the faster tile.
  constexpr double least_load(int height) const {
    auto const new_keys = static_cast<double>(tree_.unique_keys());
    double const more_keys = std::max(0.0, paths_.least_reads(height) - new_keys);
    double const products = paths_.seen_keys() * target_.group;
    double const rows = static_cast<double>(paths_.readers()) * target_.group;
    ItemWork work{.new_keys = new_keys, .more_keys = more_keys, .rows = rows};
    double const items = std::max(1, ceil_div(paths_.readers(), height));
    work.wide_rows = products;
    double const wide = costs_.item_time(target_, 1 / items * work);
    work.wide_rows = 0, work.narrow_rows = products;
    double const narrow = costs_.item_time(target_, 1 / items * work);
    return items * std::min(wide, narrow) * target_.kv_heads / target_.slots;
  }

  constexpr ApartPrices apart_prices() const {
    auto& gain = grouping_.scratch.gain;
    gain.assign(1, 0);
    bool any = false;
    for (int queries = 1; queries <= few_queries_; ++queries) {
      int const rows = queries * target_.group;
      double const wide = round_up(rows, tiles_.wide.row_step);
      double const narrow = round_up(rows, tiles_.narrow.row_step);
      gain.push_back(price({.new_keys = 1, .wide_rows = wide}) -
                     price({.new_keys = 1, .narrow_rows = narrow}));
      any = any || gain.back() > 0;
    }
    if (!any) gain.clear();
    return {gain, partial_item_, target_.group * (2 * partial_row_ + merged_row_)};
  }

  // ---- blocks

  /// Finds the height at which the lower parts take least.
  constexpr void choose_lower_height() {
    double least = unsplit;
    for (int height = few_queries_; height > 0 && paths_.is_parted(); height /= 2) {
      blocks_.clear();
      mean_load_ = 0;
      add_blocks(paths_.lower, height);
      if (mean_load_ >= least) break;
      least = mean_load_;
      lower_height_ = height;
    }
  }

  /// Makes the blocks of a height.
  constexpr void cut(int height) {
    blocks_.clear();
    longest_block_ = mean_load_ = 0;
    add_blocks(paths_.upper, height);
    if (paths_.is_parted()) add_blocks(paths_.lower, lower_height_);
    mean_load_ *= static_cast<double>(target_.kv_heads) / target_.slots;
    require(mean_load_ >= 0 && mean_load_ < unsplit, "MinimalTraffic", "costs",
            "finite times, 0 or more", mean_load_);
  }

  constexpr void add_blocks(PathPart const& part, int height) {
    auto& scratch = grouping_.scratch;
    auto& begins = scratch.block_begins;
    cut_into_blocks(part.shared, height, {item_, price({.more_keys = 1})}, begins,
                    {.last = scratch.last_block, .window = scratch.window});
    bool const upper = &part == &paths_.upper;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      QueryBlock const block{begins[i], begins[i + 1]};
      double const new_keys = part.new_keys(block), more_keys = part.shared_keys(block.begin);
      if (new_keys + more_keys == 0) continue;
      bool const narrow = block.queries() <= few_queries_, partial = paths_.is_parted(block);
      double const keys = new_keys + more_keys, rows = target_.group * block.queries();
      double const key_rows =
          narrow ? keys * round_up(block.queries() * target_.group, tiles_.narrow.row_step)
                 : paths_.wide_rows(block, keys);
      double const time = costs_.item_time(target_, {.new_keys = new_keys,
                                                     .more_keys = more_keys,
                                                     .wide_rows = narrow ? 0 : key_rows,
                                                     .narrow_rows = narrow ? key_rows : 0,
                                                     .rows = rows,
                                                     .partial_rows = partial ? rows : 0,
                                                     .merged_rows = partial ? rows / 2 : 0});
      blocks_.push_back({block.begin, block.end, upper, partial, keys, time});
      longest_block_ = std::max(longest_block_, time);
      mean_load_ += time;
    }
  }

  // ---- pieces

  /// What an unsplit block takes without work.
  constexpr double item_of(PricedBlock const& b) const { return b.partial ? partial_item_ : item_; }

  constexpr std::int64_t key_tiles(PricedBlock const& block) const {
    return ceil_div<std::int64_t>(static_cast<std::int64_t>(block.keys), tiles_.wide.key_rows);
  }

  /// Into how many pieces of whole tiles of keys a block is cut, so that none takes much longer
  /// than `longest` or has too many keys.
  constexpr std::int64_t pieces_of(PricedBlock const& block, double longest) const {
    std::int64_t const least =
        block.keys <= tiles_.most_keys
            ? 1
            : ceil_div<std::int64_t>(static_cast<std::int64_t>(block.keys), tiles_.most_keys);
    if (block.time <= longest) return least;
    std::int64_t const tiles = key_tiles(block);
    double const work = block.time - item_of(block);
    double const fit = (longest - partial_item_) * static_cast<double>(tiles);
    std::int64_t const in_piece = fit > work ? static_cast<std::int64_t>(fit / work) : 1;
    return std::max(least, ceil_div(tiles, in_piece));
  }

  /// What each of several pieces takes besides its keys. Rows of parted paths are merged anyway.
  constexpr double time_without_keys(PricedBlock const& block, std::int64_t pieces) const {
    int const rows = target_.group * (block.end - block.begin);
    auto const all = static_cast<double>(pieces);
    double const written = partial_row_ * rows * (all - block.partial);
    double const merged = block.partial ? 0 : merged_row_ * rows;
    return partial_item_ + (written + merged) / all;
  }

  /// The time of the longest of so many pieces.
  constexpr double piece_time(PricedBlock const& block, std::int64_t pieces) const {
    if (pieces == 1) return block.time;
    auto const keys =
        static_cast<double>(ceil_div(key_tiles(block), pieces) * tiles_.wide.key_rows);
    return time_without_keys(block, pieces) +
           (block.time - item_of(block)) * std::min(1.0, keys / block.keys);
  }

  /// The time of the present blocks in pieces, or infinity where what cuts cost lets no machine,
  /// however full, do them within `limit`.
  constexpr double predict(double longest, double limit) {
    double const most = (limit - mean_load_) * target_.slots / target_.kv_heads;
    if (most <= 0) return unsplit;
    schedule_.clear();
    double cuts = 0;
    for (PricedBlock const& block : blocks_) {
      std::int64_t const pieces = pieces_of(block, longest);
      schedule_.add(piece_time(block, pieces), pieces * target_.kv_heads);
      if (pieces == 1) continue;
      cuts += static_cast<double>(pieces) * time_without_keys(block, pieces) - item_of(block);
      if (cuts >= most) return unsplit;
    }
    return schedule_.time(target_.slots, costs_.alone);
  }

  // ---- groups

  /// Puts the best blocks into order_, those of the longest pieces first (a counting sort).
  constexpr void sort_blocks() {
    auto& next = grouping_.scratch.next_in_class;
    auto& classes = grouping_.scratch.class_of_block;
    next.assign(TimeClass::count + 1, 0);
    classes.clear();
    for (PricedBlock const& block : best_blocks_) {
      classes.push_back(TimeClass::of(piece_time(block, pieces_of(block, longest_piece_))));
      ++next[classes.back() + 1];
    }
    for (int i = 0; i < TimeClass::count; ++i) next[i + 1] += next[i];
    order_.resize(best_blocks_.size());
    for (std::size_t i = 0; i < best_blocks_.size(); ++i)
      order_[next[classes[i]]++] = static_cast<int>(i);
  }

  constexpr void open(int query_begin, int query_end) {
    open_group(query_begin, query_end, query_end - query_begin, std::numeric_limits<int>::max(),
               grouping_);
  }

  /// Takes the ranges of the group that was opened last out of it, to be put back in pieces.
  constexpr void take_ranges_back() {
    auto const begin = grouping_.ranges.begin() + grouping_.groups.back().range_begin;
    grouping_.scratch.ranges.assign(begin, grouping_.ranges.end());
    grouping_.ranges.erase(begin, grouping_.ranges.end());
    grouping_.groups.pop_back();
  }

  /// Appends the keys [from, to) of a range to the group that was opened last, and widens it to the
  /// queries of the block that read them.
  constexpr void append_part(KeyRange range, int from, int to, PricedBlock const& block) {
    range.slot_begin += from;
    range.position += from;
    range.length = to - from;
    grouping_.ranges.push_back(range);
    KeyGroup& group = grouping_.groups.back();
    group.range_end = static_cast<int>(grouping_.ranges.size());
    group.query_begin = std::min(group.query_begin, std::max(range.query_begin, block.begin));
    group.query_end = std::max(group.query_end, std::min(range.query_end, block.end));
    group.queries_per_item = group.query_end - group.query_begin;
  }

  /// Cuts the group that was opened last into pieces that take equally long.
  constexpr void cut_group(PricedBlock const& block, std::int64_t pieces) {
    take_ranges_back();
    auto const key_time = [&](KeyRange const& range) {
      int const queries =
          std::min(range.query_end, block.end) - std::max(range.query_begin, block.begin);
      bool const is_new = range.query_begin >= block.begin;
      auto const rows =
          round_up<std::int64_t>(std::int64_t{queries} * target_.group, tiles_.wide.row_step);
      return price({.new_keys = is_new ? 1.0 : 0.0,
                    .more_keys = is_new ? 0.0 : 1.0,
                    .wide_rows = static_cast<double>(rows)});
    };
    double whole = 0;
    for (KeyRange const& range : grouping_.scratch.ranges) whole += range.length * key_time(range);
    int const tile = tiles_.wide.key_rows;
    bool is_first = true;
    double room = 0;  // of the present piece
    for (KeyRange const& range : grouping_.scratch.ranges) {
      double const one = key_time(range);
      for (int from = 0; from < range.length;) {
        if (is_first || room < one * tile / 2) {
          is_first = false;
          open(block.end, block.begin);  // no queries yet
          room += whole / static_cast<double>(pieces);
        }
        int const rest = range.length - from;
        double const fit = std::max(1.0, (room + one * tile / 2) / (one * tile));
        int const taken = fit * tile < rest ? static_cast<int>(fit) * tile : rest;
        append_part(range, from, from + taken, block);
        room -= taken * one;
        from += taken;
      }
    }
  }

  /// Cuts the group that was opened last at multiples of `piece` along each path.
  constexpr void cut_group_at_multiples(PricedBlock const& block, int piece) {
    take_ranges_back();
    auto& ranges = grouping_.scratch.ranges;
    std::sort(ranges.begin(), ranges.end(), [](KeyRange const& a, KeyRange const& b) {
      return a.position != b.position ? a.position < b.position : a.query_begin < b.query_begin;
    });
    std::size_t open_ranges = 0, next = 0;  // [0, open_ranges): with keys from `begin` on
    for (std::int64_t begin = 0; open_ranges > 0 || next < ranges.size(); begin += piece) {
      std::int64_t const end = begin + piece;
      while (next < ranges.size() && ranges[next].position < end)
        ranges[open_ranges++] = ranges[next++];
      open(block.end, block.begin);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < open_ranges; ++i) {
        KeyRange const range = ranges[i];
        auto const from = static_cast<int>(std::max<std::int64_t>(begin - range.position, 0));
        auto const to =
            static_cast<int>(std::min<std::int64_t>(end - range.position, range.length));
        append_part(range, from, to, block);
        if (to < range.length) ranges[kept++] = range;
      }
      open_ranges = kept;
    }
  }

  Costs const& costs_;
  PlanTarget const& target_;
  Tiles const tiles_;
  Grouping& grouping_;
  double item_, partial_row_, partial_item_, merged_row_;  ///< prices, those of items without work
  int few_queries_;       ///< of a block that takes the narrow tile
  int lower_height_ = 1;  ///< of blocks of lower parts
  PrefixTree const& tree_;
  ApartPrices apart_;
  PathParts paths_;
  std::vector<PricedBlock>& blocks_ = grouping_.scratch.blocks;
  std::vector<PricedBlock>& best_blocks_ = grouping_.scratch.best_blocks;
  std::vector<int>& order_ = grouping_.scratch.block_order;
  double longest_block_ = 0, mean_load_ = 0;         // of the present blocks
  double best_ = unsplit, longest_piece_ = unsplit;  // of the best
  bool best_is_parted_ = false;
  Schedule schedule_;
};

}  // namespace fasttree
