// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ways to merge partial results over ranks, and what each costs: exact numbers of rounds,
// messages and bytes, in closed form, and the price of these on a link. Comm/reduction_schedule.hpp
// has the messages themselves. With S bytes of records and L = ceil(log2 ranks), a rank sends on
// average
//     one_shot (p - 1) S    tree L S (p a power of two)    ring, all_to_all 2 (p - 1) / p S
// in 1, L, 2 (p - 1) and 2 rounds. Tree Attention (arXiv 2408.04093), section 5.3.

#include <bit>
#include <cstdint>

#include <fasttree/comm/communicator.hpp>

namespace fasttree {

/// How the partial results of all ranks become one: on all ranks, or, by the last two, elsewhere.
enum class ReductionAlgorithm {
  one_shot,           ///< each sends its records to all, and merges what it gets
  tree,               ///< one all-reduce by `merge`: halves of the ranks exchange what they merged
  all_to_all,         ///< each merges its share of the rows, and sends the result to all
  max_then_sum,       ///< two all-reduces: maximum; weighted outputs and weights, as one sum
  three_all_reduces,  ///< the paper's: maximum, sum of weights, sum of weighted outputs, by trees
  ring,               ///< each row goes once around to be merged, and once more to be known
  scatter,            ///< each merges its share of the heads, heads * rank / ranks on, and keeps it
  on_rank_0           ///< each merges its share of the rows, and sends the result to rank 0
};

/// Those that leave the whole result on all ranks.
inline constexpr ReductionAlgorithm all_reduction_algorithms[] = {
    ReductionAlgorithm::one_shot,          ReductionAlgorithm::tree,
    ReductionAlgorithm::all_to_all,        ReductionAlgorithm::max_then_sum,
    ReductionAlgorithm::three_all_reduces, ReductionAlgorithm::ring};

constexpr char const* name(ReductionAlgorithm algorithm) {
  constexpr char const* names[] = {"one_shot",          "tree", "all_to_all", "max_then_sum",
                                   "three_all_reduces", "ring", "scatter",    "on_rank_0"};
  return names[static_cast<int>(algorithm)];
}

/// What is merged: rows (of queries x query heads), each an output and its log-sum-exp.
struct ReductionSize {
  std::int64_t rows = 0;
  int value_dim = 0;

  constexpr int record_floats() const { return value_dim + 1; }
  constexpr std::int64_t bytes() const {
    return rows * record_floats() * static_cast<std::int64_t>(sizeof(float));
  }
};

/// ceil(log2(n)), n > 0: how often n ranks can be halved.
constexpr int halvings(int n) { return std::bit_width(static_cast<unsigned>(n) - 1); }

/// What a reduction moves, all ranks together. Exact.
constexpr Traffic traffic(ReductionAlgorithm algorithm, int ranks, ReductionSize size) {
  std::int64_t const p = ranks, levels = halvings(ranks), bytes = size.bytes();
  // A block of n ranks in two halves takes n messages: T(n) = n + T(ceil(n/2)) + T(floor(n/2)).
  std::int64_t const messages = p * (levels + 1) - (std::int64_t{1} << levels);
  std::int64_t const maxima = size.rows * static_cast<std::int64_t>(sizeof(float));
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
      return {ranks > 1, p * (p - 1), p * (p - 1) * bytes};
    case ReductionAlgorithm::tree:
      return {levels, messages, messages * bytes};
    case ReductionAlgorithm::all_to_all:
      return {ranks > 1 ? 2 : 0, 2 * p * (p - 1), 2 * (p - 1) * bytes};
    case ReductionAlgorithm::max_then_sum:
      return {2 * levels, 2 * messages, messages * (bytes + maxima)};
    case ReductionAlgorithm::three_all_reduces:
      return {3 * levels, 3 * messages, messages * (bytes + maxima)};
    case ReductionAlgorithm::ring:
      return {2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * bytes};
    case ReductionAlgorithm::scatter:
      return {ranks > 1, p * (p - 1), (p - 1) * bytes};
    case ReductionAlgorithm::on_rank_0: {
      std::int64_t const to_rank_0 = bytes - ReductionSize{size.rows / p, size.value_dim}.bytes();
      return {ranks > 1 ? 2 : 0, (p + 1) * (p - 1), (p - 1) * bytes + to_rank_0};
    }
  }
  return {};
}

/// Microseconds of a reduction on links like this, as if all ranks sent equally much (in a tree of
/// ranks that are no power of two some send twice in a round).
constexpr double price(ReductionAlgorithm algorithm, int ranks, ReductionSize size,
                       LinkCosts const& link) {
  Traffic const moved = traffic(algorithm, ranks, size);
  return static_cast<double>(moved.rounds) * link.latency +
         static_cast<double>(moved.messages) / ranks * link.message +
         static_cast<double>(moved.bytes) / ranks / link.rate;
}

/// The algorithm of the least price that leaves the result on all ranks; of equals, the first.
constexpr ReductionAlgorithm cheapest(int ranks, ReductionSize size, LinkCosts const& link) {
  ReductionAlgorithm best = all_reduction_algorithms[0];
  for (ReductionAlgorithm const other : all_reduction_algorithms)
    if (price(other, ranks, size, link) < price(best, ranks, size, link)) best = other;
  return best;
}

}  // namespace fasttree
