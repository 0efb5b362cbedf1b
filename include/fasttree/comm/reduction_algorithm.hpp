// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ways to merge partial results over ranks, and what each costs: exact numbers of rounds,
// messages and bytes, in closed form, and the price of these on a link. Comm/reduction_schedule.hpp
// has the messages themselves. With S bytes of records and L = ceil(log2 ranks), a rank sends on
// average
//     one_shot (p - 1) S    tree L S (p a power of two)    ring, all_to_all 2 (p - 1) / p S
//     two_level, in N nodes of g ranks each: 2 (g - 1) / g S within its node, (N - 1) S / g beyond
// in 1, L, 2 (p - 1), 2 and 3 rounds. Tree Attention (arXiv 2408.04093), section 5.3.

#include <array>
#include <bit>
#include <cstdint>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/topology.hpp>

namespace fasttree {

/// How the partial results of all ranks become one: on all ranks, or, by the last two, elsewhere.
enum class ReductionAlgorithm {
  one_shot,           ///< each sends its records to all, and merges what it gets
  tree,               ///< one all-reduce by `merge`: halves of the ranks exchange what they merged
  all_to_all,         ///< each merges its share of the rows, and sends the result to all
  max_then_sum,       ///< two all-reduces: maximum; weighted outputs and weights, as one sum
  three_all_reduces,  ///< the paper's: maximum, sum of weights, sum of weighted outputs, by trees
  ring,               ///< each row goes once around to be merged, and once more to be known
  two_level,       ///< all_to_all in a node, one_shot between the ranks of one number in all nodes
  two_level_tree,  ///< the same, between nodes by a tree
  scatter,         ///< each merges its share of the heads, heads * rank / ranks on, and keeps it
  on_rank_0        ///< each merges its share of the rows, and sends the result to rank 0
};

/// Those that leave the whole result on all ranks.
inline constexpr ReductionAlgorithm all_reduction_algorithms[] = {
    ReductionAlgorithm::one_shot,          ReductionAlgorithm::tree,
    ReductionAlgorithm::all_to_all,        ReductionAlgorithm::max_then_sum,
    ReductionAlgorithm::three_all_reduces, ReductionAlgorithm::ring,
    ReductionAlgorithm::two_level,         ReductionAlgorithm::two_level_tree};

constexpr char const* name(ReductionAlgorithm algorithm) {
  constexpr char const* names[] = {"one_shot",          "tree",     "all_to_all", "max_then_sum",
                                   "three_all_reduces", "ring",     "two_level",  "two_level_tree",
                                   "scatter",           "on_rank_0"};
  return names[static_cast<int>(algorithm)];
}

/// In what outputs are sent. Log-sum-exps, weights and maxima are floats always, and what arrives
/// is merged in float. By fp16 no output, and in sums no weighted one, may be above 65504.
enum class Payload { fp32, fp16, bf16 };

constexpr char const* name(Payload payload) {
  constexpr char const* names[] = {"fp32", "fp16", "bf16"};
  return names[static_cast<int>(payload)];
}

/// On what the bits of a result depend, besides what is merged. On which rank it is, and which run,
/// never.
enum class Reproducibility {
  per_algorithm,  ///< on the number of ranks, the algorithm, its payload and, in two levels, nodes
  across_algorithms  ///< on the number of ranks alone
};

/// An algorithm, what it sends, and what is asked of it: `across_algorithms` merges floats by the
/// tree over ranks (merges_by_tree), and is refused where the algorithm or the payload does not.
struct ReductionMethod {
  ReductionAlgorithm algorithm;
  Payload payload;
  Reproducibility reproducibility;

  constexpr ReductionMethod(ReductionAlgorithm by, Payload outputs_as = Payload::fp32,
                            Reproducibility asked = Reproducibility::per_algorithm)
      : algorithm(by), payload(outputs_as), reproducibility(asked) {}
};

/// What is merged: rows (of queries x query heads), each an output and its log-sum-exp; as they are
/// sent.
struct ReductionSize {
  std::int64_t rows = 0;
  int value_dim = 0;
  Payload payload = Payload::fp32;

  /// Two outputs of 16 bits take the place of a float.
  constexpr int output_floats() const {
    return payload == Payload::fp32 ? value_dim : (value_dim + 1) / 2;
  }
  constexpr int record_floats() const { return output_floats() + 1; }
  constexpr std::int64_t bytes() const {
    return rows * record_floats() * static_cast<std::int64_t>(sizeof(float));
  }
};

/// Floats of each row in the exchanges of a reduction, one after the other; 0 for none.
constexpr std::array<int, 3> exchanged_floats(ReductionAlgorithm algorithm, ReductionSize size) {
  if (algorithm == ReductionAlgorithm::three_all_reduces) return {1, 1, size.output_floats()};
  if (algorithm == ReductionAlgorithm::max_then_sum) return {1, size.record_floats(), 0};
  return {size.record_floats(), 0, 0};
}

/// ceil(log2(n)), n > 0: how often n ranks can be halved.
constexpr int halvings(int n) { return std::bit_width(static_cast<unsigned>(n) - 1); }

/// What a tree of n ranks moves. A block of n ranks in two halves takes n messages:
/// T(n) = n + T(ceil(n/2)) + T(floor(n/2)).
constexpr Traffic tree_traffic(int n, std::int64_t bytes) {
  int const levels = halvings(n);
  std::int64_t const messages = std::int64_t{n} * (levels + 1) - (std::int64_t{1} << levels);
  return {levels, messages, messages * bytes};
}

constexpr bool is_two_level(ReductionAlgorithm algorithm) {
  return algorithm == ReductionAlgorithm::two_level ||
         algorithm == ReductionAlgorithm::two_level_tree;
}

/// Whether an algorithm merges by the tree of the ranks [0, p), halved down to single ranks, the
/// lower half being the larger: all that do so give the same bits. A tree over nodes is a part of
/// that one where these can be halved to the last, or have one rank each.
constexpr bool merges_by_tree(ReductionAlgorithm algorithm, Topology const& topology) {
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
    case ReductionAlgorithm::tree:
    case ReductionAlgorithm::all_to_all:
    case ReductionAlgorithm::scatter:
    case ReductionAlgorithm::on_rank_0:
      return true;
    case ReductionAlgorithm::two_level:
    case ReductionAlgorithm::two_level_tree:
      return topology.ranks_per_node == 1 ||
             std::has_single_bit(static_cast<unsigned>(topology.nodes()));
    case ReductionAlgorithm::max_then_sum:
    case ReductionAlgorithm::three_all_reduces:
    case ReductionAlgorithm::ring:
      break;
  }
  return false;
}

/// What one in two levels moves between its n nodes; a node's g ranks share the rows.
constexpr Traffic traffic_between_nodes(ReductionAlgorithm algorithm, int n, int g,
                                        std::int64_t bytes) {
  std::int64_t const pairs = std::int64_t{n} * (n - 1);
  Traffic const of_one = algorithm == ReductionAlgorithm::two_level_tree
                             ? tree_traffic(n, bytes)
                             : Traffic{n > 1, pairs, pairs * bytes};
  return {of_one.rounds, g * of_one.messages, of_one.bytes};
}

/// What a reduction moves, all ranks together. Exact. Only those in two levels ask for the nodes.
constexpr Traffic traffic(ReductionAlgorithm algorithm, int ranks, ReductionSize size,
                          int ranks_per_node = 1) {
  std::int64_t const p = ranks, bytes = size.bytes();
  Traffic const tree = tree_traffic(ranks, bytes);
  std::int64_t const maxima = size.rows * static_cast<std::int64_t>(sizeof(float));
  switch (algorithm) {
    case ReductionAlgorithm::one_shot:
      return {ranks > 1, p * (p - 1), p * (p - 1) * bytes};
    case ReductionAlgorithm::tree:
      return tree;
    case ReductionAlgorithm::all_to_all:
      return {ranks > 1 ? 2 : 0, 2 * p * (p - 1), 2 * (p - 1) * bytes};
    case ReductionAlgorithm::max_then_sum:
      return {2 * tree.rounds, 2 * tree.messages, tree.bytes + tree.messages * maxima};
    case ReductionAlgorithm::three_all_reduces:
      return {3 * tree.rounds, 3 * tree.messages, tree.bytes + tree.messages * maxima};
    case ReductionAlgorithm::ring:
      return {2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * bytes};
    case ReductionAlgorithm::two_level:
    case ReductionAlgorithm::two_level_tree: {
      int const g = ranks_per_node, n = ranks / g;
      Traffic const between = traffic_between_nodes(algorithm, n, g, bytes);
      return {(g > 1 ? 2 : 0) + between.rounds, 2 * p * (g - 1) + between.messages,
              2 * n * (g - 1) * bytes + between.bytes};
    }
    case ReductionAlgorithm::scatter:
      return {ranks > 1, p * (p - 1), (p - 1) * bytes};
    case ReductionAlgorithm::on_rank_0: {
      std::int64_t const to_rank_0 =
          bytes - ReductionSize{size.rows / p, size.value_dim, size.payload}.bytes();
      return {ranks > 1 ? 2 : 0, (p + 1) * (p - 1), (p - 1) * bytes + to_rank_0};
    }
  }
  return {};
}

/// Microseconds in which ranks move this on such links, if all send equally much.
constexpr double price(Traffic const& moved, int ranks, LinkCosts const& link) {
  return static_cast<double>(moved.rounds) * link.latency +
         static_cast<double>(moved.messages) / ranks * link.message +
         static_cast<double>(moved.bytes) / ranks / link.rate;
}

/// Microseconds of a reduction on links that are all like this, as if all ranks sent equally much
/// (in a tree of ranks that are no power of two some send twice in a round).
constexpr double price(ReductionAlgorithm algorithm, int ranks, ReductionSize size,
                       LinkCosts const& link) {
  return price(traffic(algorithm, ranks, size), ranks, link);
}

/// The same in nodes. Of several nodes all but those in two levels are priced as if every link were
/// one between nodes; comm/simulate_reduction.hpp follows each message. Prices do not know
/// one_link_per_node.
constexpr double price(ReductionAlgorithm algorithm, Topology const& topology, ReductionSize size) {
  int const p = topology.ranks, g = topology.ranks_per_node, n = topology.nodes();
  if (n == 1) return price(traffic(algorithm, p, size, g), p, topology.within);
  if (!is_two_level(algorithm)) return price(algorithm, p, size, topology.between);
  Traffic const between = traffic_between_nodes(algorithm, n, g, size.bytes());
  Traffic within = traffic(algorithm, p, size, g);
  within.rounds -= between.rounds;
  within.messages -= between.messages;
  within.bytes -= between.bytes;
  return price(within, p, topology.within) + price(between, p, topology.between);
}

/// The algorithm of the least price that leaves the result on all ranks and is as reproducible; of
/// equals, the first.
constexpr ReductionAlgorithm cheapest(
    Topology const& topology, ReductionSize size,
    Reproducibility reproducibility = Reproducibility::per_algorithm) {
  ReductionAlgorithm best = all_reduction_algorithms[0];
  for (ReductionAlgorithm const other : all_reduction_algorithms) {
    if (reproducibility == Reproducibility::across_algorithms && !merges_by_tree(other, topology))
      continue;
    if (price(other, topology, size) < price(best, topology, size)) best = other;
  }
  return best;
}

constexpr ReductionAlgorithm cheapest(int ranks, ReductionSize size, LinkCosts const& link) {
  return cheapest({ranks, ranks, link, link}, size);
}

}  // namespace fasttree
