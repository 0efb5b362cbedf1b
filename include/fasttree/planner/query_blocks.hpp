// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cuts a row of queries into blocks at the least price. A cut is paid with an item and with the
// keys that the queries on both sides of it share, which are read once more:
//     price(cuts) = sum over cuts i of (item + key * shared[i]),
// least under a bound on the height of blocks, by dynamic programming over the queries with a
// sliding minimum: exact, in linear time.

#include <algorithm>
#include <vector>

#include <fasttree/plan/grouping.hpp>

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

/// Memory of `cut_into_blocks`.
struct CutScratch {
  std::vector<int>& last;           ///< query -> where the last of the blocks before it begins
  std::vector<BlockBegin>& window;  ///< where the present block may begin, cheapest first
};

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
  auto& [last, window] = scratch;
  last.resize(queries + 1);
  window.resize(queries);
  double least = 0;         // price of the blocks so far
  int front = 0, back = 0;  // of the window
  for (int query = 0; query < queries; ++query) {
    if (shared[query] == forced_cut) front = back;
    double const with_block = least + price.item + price.key * std::max(shared[query], 0);
    while (back > front && window[back - 1].price > with_block) --back;
    window[back++] = {query, with_block};
    if (window[front].query + height <= query) ++front;
    last[query + 1] = window[front].query;
    least = window[front].price;
  }
  blocks.clear();
  for (int end = queries; end > 0; end = last[end]) blocks.push_back(last[end]);
  std::reverse(blocks.begin(), blocks.end());
  blocks.push_back(queries);
}

}  // namespace fasttree
