// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cuts a row of queries into blocks at the least price. A cut is paid with an item and with the
// keys that the queries on both sides of it share, which are read once more:
//     price(cuts) = sum over cuts i of (item + key * shared[i]),
// least under a bound on the height of blocks, by dynamic programming over the queries with a
// sliding minimum, of two halves (van Herk 1992): exact, in linear time, without a branch for each.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace fasttree {

/// Neighbouring queries.
struct QueryBlock {
  int begin, end;

  constexpr int queries() const { return end - begin; }
};

/// Prices of a cut, not negative.
struct CutPrice {
  double item, key;
};

/// The value of `shared` where a block must begin: nothing is shared and nothing may be joined.
inline constexpr int forced_cut = -1;

/// Memory of `cut_into_blocks`: prices by queries.
struct CutScratch {
  std::vector<double>& least;       ///< of the blocks before the query
  std::vector<double>& with_block;  ///< the same, and of a block that begins with it
  std::vector<double>& stretch;     ///< least of those with a block that begins in the last stretch
};

namespace detail {

/// Appends where the blocks of [begin, end) begin: of more queries than one may have, where a block
/// must begin with the first only.
constexpr void cut_run(std::vector<int> const& shared, int begin, int end, int height,
                       CutPrice price, std::vector<int>& blocks, CutScratch const& scratch) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto& [least, with_block, stretch] = scratch;
  // A block before a query begins in the query's own stretch of `height` queries or in the one
  // before, at most `height` away: the least is known of each beginning of the one and each end of
  // the other.
  if (stretch.size() < shared.size() + height) stretch.resize(shared.size() + height);
  std::fill_n(stretch.begin() + begin, height, infinity);
  stretch[begin] = 0;
  for (int first = begin; first < end; first += height) {
    int const last = std::min(first + height, end);
    double own = infinity;
    for (int query = first; query < last; ++query) {
      double const cut = price.item + price.key * std::max(shared[query], 0);
      least[query] = std::min(own, stretch[query]);
      with_block[query] = least[query] + cut;
      own = std::min(own, stretch[query] + cut);
    }
    double of_end = infinity;
    for (int query = last; query-- > first;)
      stretch[query + height] = of_end = std::min(of_end, with_block[query]);
  }
  auto const first_block = static_cast<std::ptrdiff_t>(blocks.size());
  auto const prices = with_block.begin();
  auto block = std::min_element(prices + (end - height), prices + end);
  for (;;) {
    int const at = static_cast<int>(block - prices);
    blocks.push_back(at);
    if (at == begin) break;
    block = std::find(prices + std::max(begin, at - height), prices + (at - 1), least[at]);
  }
  std::reverse(blocks.begin() + first_block, blocks.end());
}

}  // namespace detail

/// Writes the blocks of least price that have at most `height` queries each.
///
/// \param shared   per query: the keys that it shares with the query before it, or `forced_cut`
/// \param blocks   out: where blocks begin, and the number of queries
/// \param scratch  memory, reused
///
/// Time: linear in the number of queries, whatever the height.
constexpr void cut_into_blocks(std::vector<int> const& shared, int height, CutPrice price,
                               std::vector<int>& blocks, CutScratch const& scratch) {
  int const queries = static_cast<int>(shared.size());
  scratch.least.resize(queries);
  scratch.with_block.resize(queries);
  blocks.clear();
  for (int begin = 0, end = 0; begin < queries; begin = end) {
    for (end = begin + 1; end < queries && shared[end] != forced_cut;) ++end;
    if (end - begin <= height) {
      blocks.push_back(begin);
    } else {
      detail::cut_run(shared, begin, end, height, price, blocks, scratch);
    }
  }
  blocks.push_back(queries);
}

}  // namespace fasttree
