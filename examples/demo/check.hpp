// SPDX-License-Identifier: Apache-2.0
#pragma once
// The check of outputs: the tests' own oracle, in double precision, and the tolerance that it computes
// for every row from the number of keys and the magnitudes of the inputs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "../../tests/support/oracle.hpp"
#include "../../tests/support/tolerance.hpp"
#include "arrays.hpp"
#include "progress.hpp"
#include "workload.hpp"

namespace fasttree::examples {

/// The facts of a row as the tolerance takes them. It lets every key be a tile and a partial result of its
/// own; here tiles hold `tile_keys` keys, and pieces at least two tiles, but where a node or piece ends.
/// So a key's share of a sum is rounded once per key of its tile, and corrected (at 14 roundings, as
/// tolerance.hpp counts them) once per tile and once per partial result.
inline test::RowFacts in_tiles(test::RowFacts facts, int path_nodes, int tile_keys) {
  int const pieces = facts.keys / (2 * tile_keys) + path_nodes;
  int const tiles = facts.keys / tile_keys + path_nodes + pieces;
  facts.keys = std::min(facts.keys, tile_keys / 14 + 1 + tiles + pieces);
  return facts;
}

/// The largest error of some outputs, relative to its tolerance.
struct WorstError {
  double share = 0;  ///< of the tolerance; above 1 is wrong
  double error = 0, tolerance = 0;

  void include(double found, double exact, double tolerated) {
    double const now = test::error_in(tolerated, found, exact);
    if (now < share || (now == share && tolerance > 0)) return;
    *this = {now, now == 0 ? 0.0 : std::abs(found - exact), tolerated};
  }
};

/// The requests to check: all, or evenly spaced ones that an oracle is through with in some seconds.
inline std::vector<int> requests_to_check(PrefixTree const& tree, int query_heads) {
  constexpr double most = 4e7;  // products of a query head and a key
  double work = 0;
  for (int i = 0; i < tree.requests(); ++i)
    work += double(tree.path_length(tree.request(i).node)) * query_heads + tree.nodes();
  auto const requests = static_cast<std::int64_t>(tree.requests());
  std::int64_t const checked =
      work > most ? std::max<std::int64_t>(1, std::int64_t(requests * (most / work))) : requests;
  std::vector<int> chosen;
  for (std::int64_t i = 0; i < checked; ++i)
    chosen.push_back(static_cast<int>(i * requests / checked));
  return chosen;
}

/// Checks outputs of one step, from several plans; returns the worst error of each.
template <class Shape>
class OutputCheck {
 public:
  using Stored = typename Shape::element_type;
  using Outputs = std::vector<typename Arrays<Shape>::OnHost>;

  OutputCheck(Workload const& workload, Shape const& shape, Arrays<Shape> const& arrays,
              Outputs outputs, int tile_keys)
      : workload_(workload),
        shape_(shape),
        arrays_(arrays),
        outputs_(std::move(outputs)),
        tile_keys_(tile_keys) {}

  std::vector<WorstError> run(std::vector<int> const& requests) const {
    auto const count = static_cast<int>(requests.size());
    int const step = 4 * std::max(1, static_cast<int>(Host().concurrency()));
    std::vector<std::vector<WorstError>> worst(count, std::vector<WorstError>(outputs_.size()));
    Progress progress("checking in double precision", count);
    for (int begin = 0; begin < count; begin += step) {
      Kokkos::parallel_for("fasttree-demo::check",
                           Kokkos::RangePolicy<Host, Kokkos::Schedule<Kokkos::Dynamic>>(
                               begin, std::min(begin + step, count), Kokkos::ChunkSize(1)),
                           [&](int i) { check_request(requests[i], worst[i]); });
      progress.at(begin);
    }
    std::vector<WorstError> all(outputs_.size());
    for (auto const& one : worst)
      for (std::size_t i = 0; i < all.size(); ++i)
        if (one[i].share >= all[i].share) all[i] = one[i];
    return all;
  }

 private:
  /// The same tree with one request alone has the same slots.
  void check_request(int request, std::vector<WorstError>& worst) const {
    Forest const& forest = workload_.forest();
    Request const alone[] = {workload_.tree().request(request)};
    PrefixTree const tree(forest.parents, forest.lengths, alone);
    std::size_t const row = shape_.query_heads * Shape::head_dim;
    test::Answer const answer = test::attention_oracle<Shape, Stored>(
        tree, shape_, arrays_.host_queries().subspan(request * row, row), arrays_.host_keys(),
        arrays_.host_values());
    int path_nodes = 0;
    for (int node = alone[0].node; node != PrefixTree::no_parent; node = tree.parent(node))
      ++path_nodes;
    for (int head = 0; head < shape_.query_heads; ++head) {
      test::RowFacts const facts = in_tiles(answer.rows[head], path_nodes, tile_keys_);
      for (int d = 0; d < Shape::value_dim; ++d) {
        double const exact = answer.outputs[head * Shape::value_dim + d];
        double const tolerance = test::output_tolerance<Stored>(facts, Shape::head_dim, exact);
        for (std::size_t i = 0; i < outputs_.size(); ++i)
          worst[i].include(static_cast<float>(outputs_[i](request, head, d)), exact, tolerance);
      }
    }
  }

  Workload const& workload_;
  Shape const& shape_;
  Arrays<Shape> const& arrays_;
  Outputs outputs_;
  int tile_keys_;
};

}  // namespace fasttree::examples
