// SPDX-License-Identifier: Apache-2.0
#pragma once
// The costs that the FastTree paper weighs at an edge (section 4.2): multiplications wasted on
// padded queries and padded keys, and the merge of one more partial result per query.

#include <fasttree/core/integers.hpp>

namespace fasttree {

/// The paper's costs with the constants of its artifact.
struct PaperCosts {
  double alpha = 0.66;  ///< of a padded query row against a key
  double beta = 0.33;   ///< of a padded key against a query row
  double gamma = 0.1;   ///< of merging one more partial result of a query

  /// Padding of `queries` queries of `group` rows against `keys` keys, in tiles of `tile_queries`
  /// queries and `tile_keys` keys.
  constexpr double padding(int tile_queries, int tile_keys, int group, int queries,
                           int keys) const {
    int const padded_queries = (tile_queries - queries % tile_queries) % tile_queries;
    int const padded_keys = tile_keys > keys ? tile_keys - keys : 0;
    return alpha * padded_queries * group * keys + beta * padded_keys * queries * group;
  }

  /// Merging a partial result for each of `queries` queries.
  constexpr double reduction(int queries) const { return gamma * queries; }
};

}  // namespace fasttree
