// SPDX-License-Identifier: Apache-2.0
#pragma once
// What work costs on a machine, in microseconds: the constants by which plans are priced, fitted to
// measurements by bench/calibrate.cpp. A machine is a number of slots that take work items side by
// side; all rates are those of one slot while all slots work.

#include <algorithm>

#include <fasttree/plan/tile_policy.hpp>

namespace fasttree {

/// The machine and the heads that a plan is made for.
struct PlanTarget {
  Tiles tiles;
  int group = 1;  ///< query heads per KV head
  int kv_heads = 1;
  int slots = 1;            ///< work items that run at once
  int key_bytes = 512;      ///< of a key and its value, of one KV head
  int row_bytes = 512;      ///< of a query row and its output
  int partial_bytes = 516;  ///< of a partial result of a row: output and log-sum-exp
  int flops = 512;          ///< of a key and a query row

  /// Queries that fit a tile: at least one, so that any ratio of heads has a plan.
  constexpr int queries(TilePolicy const& tile) const {
    return tile.query_rows > group ? tile.query_rows / group : 1;
  }

  /// The most queries of an item that takes the narrow tile, if groups are meant for `used`: none
  /// where that tile is not there, was given up, or has not the rows of one query.
  constexpr int narrow_queries(Tiles const& used) const {
    bool const there = tiles.narrow != tiles.wide && used.narrow == tiles.narrow;
    return there ? tiles.narrow.query_rows / group : 0;
  }
};

/// Work for one KV head, of an item or of many.
struct ItemWork {
  double new_keys = 0;      ///< read for the first time
  double more_keys = 0;     ///< read again
  double wide_rows = 0;     ///< pairs of a key and a row of the wide tile, as tiles pad them
  double narrow_rows = 0;   ///< the same in the narrow tile
  double rows = 0;          ///< query rows
  double partial_rows = 0;  ///< partial results of rows
  /// Rows that are merged, each shared evenly by the items that have partial results of it.
  double merged_rows = 0;

  /// `times` as much of everything.
  friend constexpr ItemWork operator*(double times, ItemWork work) {
    work.new_keys *= times;
    work.more_keys *= times;
    work.wide_rows *= times;
    work.narrow_rows *= times;
    work.rows *= times;
    work.partial_rows *= times;
    work.merged_rows *= times;
    return work;
  }
};

/// A machine. The default is none in particular; see Backend::costs.
struct MachineCosts {
  double launch = 10;     ///< microseconds of a call without work
  double item = 1;        ///< microseconds of an item without work; keys flow in meanwhile
  double partial = 0;     ///< more of one that has partial results; and again while keys flow in
  double memory = 10e3;   ///< bytes per microsecond: keys and values from memory
  double cache = 20e3;    ///< the same, if an item before has read them
  double drift = 0;       ///< how much slower keys come that are far apart, at most; see slowdown
  double results = 20e3;  ///< bytes per microsecond: queries, outputs, partial results
  double wide = 50e3;     ///< flops per microsecond in the wide tile
  double narrow = 50e3;   ///< flops per microsecond in the narrow tile
  double in_turn = 0;     ///< from 0, keys flow in while others are multiplied, to 1, in turn
  double merge = 0;       ///< microseconds of merging a row, whatever its partial results
  double alone = 1;       ///< how much faster a slot is while the others rest

  /// By what keys of an item come slower. All KV heads of a token lie side by side, and where they
  /// have more bytes than `page`, those who read them one each had better keep together: behind
  /// `near` keys of an item they have drifted apart.
  constexpr double slowdown(PlanTarget const& target, double keys) const {
    constexpr double page = 4096, near = 4096;
    double const token = static_cast<double>(target.kv_heads) * target.key_bytes;
    if (keys <= near || token <= page) return 1;
    return 1 + drift * (1 - page / token) * (1 - near / keys);
  }

  /// Microseconds of a slot for one item.
  constexpr double item_time(PlanTarget const& target, ItemWork const& work) const {
    double const read = target.key_bytes * (work.new_keys / memory + work.more_keys / cache) *
                        slowdown(target, work.new_keys + work.more_keys);
    double const closing = work.partial_rows > 0 ? partial : 0;
    double const multiply =
        item + closing + target.flops * (work.wide_rows / wide + work.narrow_rows / narrow);
    double const result_bytes =
        work.rows * target.row_bytes + 2 * work.partial_rows * target.partial_bytes;
    return closing + std::max(multiply, read) + in_turn * std::min(multiply, read) +
           result_bytes / results + work.merged_rows * merge;
  }
};

/// The least time of some work in `items` items or more, all alike.
template <class Costs>
constexpr double least_time_of_items(Costs const& costs, PlanTarget const& target,
                                     ItemWork const& work, double items) {
  double least = items * costs.item_time(target, 1 / items * work);
  for (;;) {
    items *= 2;
    double const time = items * costs.item_time(target, 1 / items * work);
    if (!(time < least)) return least;
    least = time;
  }
}

}  // namespace fasttree
