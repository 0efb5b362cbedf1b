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
#include <fasttree/plan/predict.hpp>
#include <fasttree/plan/schedule.hpp>
#include <fasttree/planner/block_pieces.hpp>
#include <fasttree/planner/path_parts.hpp>
#include <fasttree/planner/policies.hpp>
#include <fasttree/planner/query_blocks.hpp>
#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree {

/// One search; its memory is the scratch of the grouping.
template <class Costs>
class BlockSearch {
 public:
  /// Counts the keys of all paths, in the tree's own order of requests. `along_paths`: pieces are
  /// to be cut by append_fixed_pieces, so that each has some keys of all rows.
  constexpr BlockSearch(Costs const& costs, PrefixTree const& tree, PlanTarget const& target,
                        bool along_paths, Grouping& grouping)
      : costs_(costs),
        target_(target),
        tiles_(grouping.tiles),
        grouping_(grouping),
        along_paths_(along_paths),
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
    cut_lower();
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
      std::int64_t const pieces = pieces_of(best_blocks_[i], longest_piece_);
      QueryBlock const block = append_group(best_blocks_[i]);
      auto const time = [&](KeyRange const& range) { return key_time(range, block); };
      if (pieces > 1) cut_evenly(block, pieces, tiles_.wide.key_rows, time, grouping_);
    }
  }

  /// The same, but with long paths cut every `piece` keys from their beginning.
  constexpr void append_fixed_pieces(int piece) {
    sort_blocks();
    for (int const i : order_) cut_at_multiples(append_group(best_blocks_[i]), piece, grouping_);
  }

 private:
  static constexpr double unsplit = std::numeric_limits<double>::infinity();
  static constexpr double worth = 0.995;  ///< what a gain must come to
  static constexpr int few_tiles = 32;    ///< of keys: pieces of more are halved if that is faster
  /// How much dearer pieces are taken to be than is seen here: what is left at the ends of ranges
  /// becomes items of its own, and partial results are waited for.
  static constexpr double of_pieces = 1.25;

  /// Of the items of blocks in as few pieces as take least.
  struct BlockTimes {
    double sum = 0, longest = 0;
  };

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

  /// Hardly a plan of blocks of a height loads a slot with less: equal items, as few as can be or
  /// more where that takes less; each key is read once as new, and again where that many queries at
  /// once are too few; each is multiplied in the faster tile.
  constexpr double least_load(int height) const {
    auto const new_keys = static_cast<double>(tree_.unique_keys());
    double const more_keys = std::max(0.0, paths_.least_reads(height) - new_keys);
    double const products = paths_.seen_keys() * target_.group;
    double const rows = static_cast<double>(paths_.readers()) * target_.group;
    ItemWork work{.new_keys = new_keys, .more_keys = more_keys, .rows = rows};
    double const items = std::max(1, ceil_div(paths_.readers(), height));
    work.wide_rows = products;
    double const wide = least_time_of_items(costs_, target_, work, items);
    work.wide_rows = 0, work.narrow_rows = products;
    double const narrow = least_time_of_items(costs_, target_, work, items);
    return std::min(wide, narrow) * target_.kv_heads / target_.slots;
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
    gain.push_back(0);
    if (!any) gain.clear();
    return {gain, partial_item_, target_.group * (2 * partial_row_ + merged_row_)};
  }

  // ---- blocks

  /// Makes the blocks of the lower parts, of the height at which they take least.
  constexpr void cut_lower() {
    blocks_.clear();
    for (int height = few_queries_; height > 0 && paths_.is_parted(); height /= 2) {
      auto const before = static_cast<std::ptrdiff_t>(blocks_.size());
      BlockTimes const times = add_blocks(paths_.lower, height);
      if (before > 0 && times.sum >= lower_times_.sum) {
        blocks_.erase(blocks_.begin() + before, blocks_.end());
        break;
      }
      blocks_.erase(blocks_.begin(), blocks_.begin() + before);
      lower_times_ = times;
    }
    lower_blocks_ = static_cast<std::ptrdiff_t>(blocks_.size());
  }

  /// Makes the blocks of a height, behind those of the lower parts.
  constexpr void cut(int height) {
    bool const parted = paths_.is_parted();
    blocks_.erase(blocks_.begin() + (parted ? lower_blocks_ : 0), blocks_.end());
    BlockTimes const upper = add_blocks(paths_.upper, height);
    BlockTimes const lower = parted ? lower_times_ : BlockTimes{};
    longest_block_ = std::max(upper.longest, lower.longest);
    mean_load_ = (upper.sum + lower.sum) * target_.kv_heads / target_.slots;
    require(mean_load_ >= 0 && mean_load_ < unsplit, "MinimalTraffic", "costs",
            "finite times, 0 or more", mean_load_);
  }

  /// Appends the blocks of a height of a part.
  constexpr BlockTimes add_blocks(PathPart const& part, int height) {
    BlockTimes times;
    auto& scratch = grouping_.scratch;
    auto& begins = scratch.block_begins;
    cut_into_blocks(part.shared, height, {item_, price({.more_keys = 1})}, begins,
                    {scratch.least, scratch.with_block, scratch.stretch});
    bool const upper = &part == &paths_.upper;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      QueryBlock const block{begins[i], begins[i + 1]};
      ItemWork const work = work_of_block(block, upper);
      double const keys = work.new_keys + work.more_keys;
      if (keys == 0) continue;
      double const time = costs_.item_time(target_, work);
      PricedBlock priced{block.begin, block.end, upper, work.partial_rows > 0, 1, keys, time, time};
      double const few_keys = few_tiles * tiles_.wide.key_rows;
      while (keys > few_keys * static_cast<double>(priced.pieces)) {
        double const half = piece_time(priced, 2 * priced.pieces, work);
        if (!(2 * half < priced.piece_time)) break;
        priced.pieces *= 2;
        priced.piece_time = half;
      }
      blocks_.push_back(priced);
      times.sum += static_cast<double>(priced.pieces) * priced.piece_time;
      times.longest = std::max(times.longest, priced.piece_time);
    }
    return times;
  }

  /// What an item does that reads all keys of a block.
  constexpr ItemWork work_of_block(QueryBlock block, bool upper) const {
    PathPart const& part = upper ? paths_.upper : paths_.lower;
    double const new_keys = part.new_keys(block), more_keys = part.shared_keys(block.begin);
    bool const narrow = block.queries() <= few_queries_;
    double const keys = new_keys + more_keys, rows = target_.group * block.queries();
    double const key_rows =
        narrow ? keys * round_up(block.queries() * target_.group, tiles_.narrow.row_step)
               : paths_.wide_rows(block, keys);
    bool const partial = paths_.is_parted(block);
    return {.new_keys = new_keys,
            .more_keys = more_keys,
            .wide_rows = narrow ? 0 : key_rows,
            .narrow_rows = narrow ? key_rows : 0,
            .rows = rows,
            .partial_rows = partial ? rows : 0,
            .merged_rows = partial ? rows / 2 : 0};
  }

  // ---- pieces

  constexpr std::int64_t key_tiles(PricedBlock const& block) const {
    return ceil_div<std::int64_t>(static_cast<std::int64_t>(block.keys), tiles_.wide.key_rows);
  }

  /// Into how many pieces of whole tiles of keys a block is cut, so that none takes much longer
  /// than `longest` or has too many keys.
  constexpr std::int64_t pieces_of(PricedBlock const& block, double longest) const {
    std::int64_t least = block.pieces;
    if (block.keys > tiles_.most_keys)
      least = std::max(
          least, ceil_div<std::int64_t>(static_cast<std::int64_t>(block.keys), tiles_.most_keys));
    if (block.time <= longest) return least;
    std::int64_t const tiles = key_tiles(block);
    double const work = block.time - item_;
    double const fit = (longest - partial_item_) * static_cast<double>(tiles);
    std::int64_t const in_piece = fit > work ? static_cast<std::int64_t>(fit / work) : 1;
    return std::max(least, ceil_div(tiles, in_piece));
  }

  /// Rows of all pieces, counted in each. A row is in one, and where keys are shared in another;
  /// besides, those that see a key at a cut are on both of its sides.
  constexpr double rows_of_pieces(PricedBlock const& block, double rows,
                                  std::int64_t pieces) const {
    auto const all = static_cast<double>(pieces);
    if (along_paths_ || !block.upper) return rows * all;
    double const queries = paths_.upper_pairs({block.begin, block.end}) / block.keys;
    double const more = std::clamp(queries - 1, 0.0, 1.0) * rows;
    return std::min(rows * all, rows + more + (all - 1) * queries * target_.group);
  }

  /// The time of the longest of so many pieces.
  constexpr double piece_time(PricedBlock const& block, std::int64_t pieces) const {
    if (pieces == block.pieces) return block.piece_time;
    return piece_time(block, pieces, work_of_block({block.begin, block.end}, block.upper));
  }
  /// The same of a block of some work. Rows of parted paths are merged anyway.
  constexpr double piece_time(PricedBlock const& block, std::int64_t pieces,
                              ItemWork const& work) const {
    auto const keys =
        static_cast<double>(ceil_div(key_tiles(block), pieces) * tiles_.wide.key_rows);
    ItemWork piece = std::min(1.0, keys / block.keys) * work;
    piece.rows = piece.partial_rows = rows_of_pieces(block, work.rows, pieces) / pieces;
    piece.merged_rows = work.rows / static_cast<double>(pieces + block.partial);
    return costs_.item_time(target_, piece);
  }

  /// The time of the present blocks in pieces, or infinity where what cuts cost lets no machine,
  /// however full, do them within `limit`.
  constexpr double predict(double longest, double limit) {
    double const most = (limit - mean_load_) * target_.slots / target_.kv_heads;
    if (most <= 0) return unsplit;
    schedule_.clear();
    double cuts = 0;
    bool any_partial = false;
    for (PricedBlock const& block : blocks_) {
      std::int64_t const pieces = pieces_of(block, longest);
      double const time = piece_time(block, pieces);
      schedule_.add(time, pieces * target_.kv_heads);
      any_partial = any_partial || block.partial || pieces > 1;
      if (pieces == block.pieces) continue;
      cuts +=
          static_cast<double>(pieces) * time - static_cast<double>(block.pieces) * block.piece_time;
      if (cuts >= most) return unsplit;
    }
    return time_of_all(schedule_, target_, costs_, any_partial);
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

  constexpr QueryBlock append_group(PricedBlock const& priced) {
    QueryBlock const block{priced.begin, priced.end};
    open_block(block, grouping_);
    paths_.append(block, priced.upper);
    return block;
  }

  /// What a key of a range takes in an item of a block.
  constexpr double key_time(KeyRange const& range, QueryBlock block) const {
    int const queries =
        std::min(range.query_end, block.end) - std::max(range.query_begin, block.begin);
    bool const is_new = range.query_begin >= block.begin;
    auto const rows =
        round_up<std::int64_t>(std::int64_t{queries} * target_.group, tiles_.wide.row_step);
    return price({.new_keys = is_new ? 1.0 : 0.0,
                  .more_keys = is_new ? 0.0 : 1.0,
                  .wide_rows = static_cast<double>(rows)});
  }

  Costs const& costs_;
  PlanTarget const& target_;
  Tiles const tiles_;
  Grouping& grouping_;
  bool const along_paths_;
  double item_, partial_row_, partial_item_, merged_row_;  ///< prices, those of items without work
  int few_queries_;  ///< of a block that takes the narrow tile
  PrefixTree const& tree_;
  ApartPrices apart_;
  PathParts paths_;
  std::vector<PricedBlock>& blocks_ = grouping_.scratch.blocks;
  std::vector<PricedBlock>& best_blocks_ = grouping_.scratch.best_blocks;
  std::vector<int>& order_ = grouping_.scratch.block_order;
  std::ptrdiff_t lower_blocks_ = 0;                  // that come first where paths are parted
  BlockTimes lower_times_;                           // of these
  double longest_block_ = 0, mean_load_ = 0;         // of the present blocks
  double best_ = unsplit, longest_piece_ = unsplit;  // of the best
  bool best_is_parted_ = false;
  Schedule schedule_;
};

}  // namespace fasttree
