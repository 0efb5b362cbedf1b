// SPDX-License-Identifier: Apache-2.0
// Ranks that are not there: what they move is what the closed forms say, up to 4096 of them, and
// where all send equally much, so is the time; nodes; and the prices in words.

#include <fasttree/comm/simulate_reduction.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <fasttree/comm/explain_reduction.hpp>
#include <fasttree/comm/self_communicator.hpp>

namespace {

using namespace fasttree;

constexpr LinkCosts fast{.latency = 1, .rate = 40e3, .message = 0.1};
constexpr LinkCosts slow{.latency = 5, .rate = 5e3, .message = 0.25};

std::vector<ReductionAlgorithm> all_algorithms() {
  std::vector<ReductionAlgorithm> all(std::begin(all_reduction_algorithms),
                                      std::end(all_reduction_algorithms));
  all.push_back(ReductionAlgorithm::scatter);
  all.push_back(ReductionAlgorithm::on_rank_0);
  return all;
}

}  // namespace

TEST_CASE("what is moved is what the formulas say, whatever the nodes") {
  for (Payload const payload : {Payload::fp32, Payload::bf16})
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (int const ranks_per_node : {1, 2, 3, 4, 8, ranks}) {
        if (ranks % ranks_per_node != 0) continue;
        Topology const topology{ranks, ranks_per_node, fast, slow};
        ReductionSize const size{.rows = 37, .value_dim = 17, .payload = payload};
        for (ReductionAlgorithm const algorithm : all_algorithms()) {
          CAPTURE(ranks);
          CAPTURE(ranks_per_node);
          CAPTURE(name(algorithm));
          auto const found = simulate_reduction(algorithm, topology, size);
          CHECK(found.all() == traffic(algorithm, ranks, size, ranks_per_node));
          if (topology.nodes() == 1) CHECK(found.between == Traffic{});
          if (ranks_per_node == 1) CHECK(found.within == Traffic{});
        }
      }
}

TEST_CASE("16 bits for each output, and a float for its log-sum-exp") {
  CHECK(ReductionSize{3, 128}.bytes() == 3 * 4 * 129);
  CHECK(ReductionSize{3, 128, Payload::fp16}.bytes() == 3 * (2 * 128 + 4));
  CHECK(ReductionSize{3, 7, Payload::bf16}.bytes() == 3 * (2 * 8 + 4));
}

TEST_CASE("thousands of ranks") {
  ReductionSize const size{.rows = 4096, .value_dim = 128};
  for (int const ranks : {1000, 4096})
    for (ReductionAlgorithm const algorithm : all_algorithms()) {
      CAPTURE(ranks);
      CAPTURE(name(algorithm));
      auto const found = simulate_reduction(algorithm, {ranks, 8, fast, slow}, size);
      CHECK(found.all() == traffic(algorithm, ranks, size, 8));
    }
}

TEST_CASE("between nodes, two_level sends no more than each rank's share of a node's rows") {
  ReductionSize const size{.rows = 64, .value_dim = 128};
  Topology const topology{64, 8, fast, slow};
  auto const found = simulate_reduction(ReductionAlgorithm::two_level, topology, size);
  CHECK(found.between == Traffic{1, 64 * 7, 8 * 7 * size.bytes()});
  CHECK(found.within == Traffic{2, 2 * 64 * 7, 2 * 8 * 7 * size.bytes()});
  auto const by_tree = simulate_reduction(ReductionAlgorithm::two_level_tree, topology, size);
  CHECK(by_tree.between == Traffic{3, 3 * 64, 3 * 8 * size.bytes()});
  CHECK(by_tree.within == found.within);
  // A tree over nodes of a power of two has its last rounds between them, all rows in each message.
  auto const tree = simulate_reduction(ReductionAlgorithm::tree, topology, size);
  CHECK(tree.within == Traffic{3, 3 * 64, 3 * 64 * size.bytes()});
  CHECK(tree.between == Traffic{3, 3 * 64, 3 * 64 * size.bytes()});
}

TEST_CASE("where all ranks send equally much the price is the time") {
  ReductionSize const size{.rows = 960, .value_dim = 64};
  for (int const ranks : {1, 2, 4, 8, 32, 64})
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
      CAPTURE(ranks);
      CAPTURE(name(algorithm));
      Topology const topology{ranks, ranks, fast, slow};
      CHECK(simulate_reduction(algorithm, topology, size).time ==
            doctest::Approx(price(algorithm, topology, size)));
    }
  for (int const ranks_per_node : {1, 2, 4, 8}) {
    Topology const topology{32, ranks_per_node, fast, slow};
    for (auto const algorithm : {ReductionAlgorithm::two_level, ReductionAlgorithm::two_level_tree})
      CHECK(simulate_reduction(algorithm, topology, size).time ==
            doctest::Approx(price(algorithm, topology, size)));
  }
  // In other trees some ranks send twice.
  CHECK(simulate_reduction(ReductionAlgorithm::tree, {7, 7, fast, slow}, size).time >=
        price(ReductionAlgorithm::tree, 7, size, fast));
}

TEST_CASE("in many nodes two levels are cheapest, and the virtual clock agrees") {
  ReductionSize const size{.rows = 32, .value_dim = 128};
  Topology const topology{128, 8, fast, slow};
  CHECK(cheapest(topology, size) == ReductionAlgorithm::two_level);
  double const best = simulate_reduction(ReductionAlgorithm::two_level, topology, size).time;
  for (ReductionAlgorithm const other : all_reduction_algorithms)
    CHECK(simulate_reduction(other, topology, size).time >= best);
  CHECK(cheapest({4096, 8, fast, slow}, size) == ReductionAlgorithm::two_level_tree);
}

TEST_CASE("in the one link of a node messages queue") {
  ReductionSize const size{.rows = 960, .value_dim = 64};
  constexpr LinkCosts link{.latency = 5, .rate = 5e3, .message = 0};
  Topology const shared{12, 4, fast, link, true};
  double const one = static_cast<double>(size.bytes()) / link.rate;
  auto const time = [&](ReductionAlgorithm algorithm) {
    return simulate_reduction(algorithm, shared, size).time;
  };
  // Four ranks send to eight, after three in their node; or each sends a quarter of the rows to two.
  double const within = static_cast<double>(size.bytes()) / fast.rate + fast.message;
  CHECK(time(ReductionAlgorithm::one_shot) == doctest::Approx(3 * within + 4 * 8 * one + 5));
  double const quarter = static_cast<double>(size.bytes()) / 4 / fast.rate + fast.message;
  CHECK(time(ReductionAlgorithm::two_level) ==
        doctest::Approx(2 * (3 * quarter + fast.latency) + 2 * one + 5));
}

TEST_CASE("rings of keys and of queries move what the formulas say, in the time of the price") {
  ReductionSize const results{.rows = 4096, .value_dim = 16};
  for (int const ranks : {1, 2, 3, 4, 8, 64, 1000, 4096})
    for (std::int64_t const messages : {1, 3}) {
      if (messages > 1 && ranks > 1000) continue;
      CAPTURE(ranks);
      CAPTURE(messages);
      RingSize const size{std::int64_t{ranks} * 3000, std::int64_t{ranks} * 64, messages};
      Topology const topology{ranks, ranks, fast, slow};
      auto const pass_kv = simulate_pass_kv(topology, size);
      CHECK(pass_kv.all() == pass_kv_traffic(ranks, size));
      CHECK(pass_kv.time == doctest::Approx(price(pass_kv.all(), topology)));
      auto const pass_q = simulate_pass_q(topology, size, results);
      CHECK(pass_q.all() == pass_q_traffic(ranks, size, results));
      if (ranks % 3 != 0 && ranks != 1000)  // all send equally much
        CHECK(pass_q.time == doctest::Approx(price(pass_q.all(), topology)));
      if (ranks == 1 || ranks > 64) continue;
      CHECK(simulate_pass_q(topology, size, results, 50).time == doctest::Approx(pass_q.time + 50));
      // Attention to the shard at hand hides its first message, or is hidden by it.
      double const message = pass_kv.time / (ranks - 1) / static_cast<double>(messages);
      for (double const attention : {0.1 * message, 10 * message}) {
        double const step =
            std::max(message, attention) + static_cast<double>(messages - 1) * message;
        CHECK(simulate_pass_kv(topology, size, attention).time ==
              doctest::Approx((ranks - 1) * step + attention));
      }
    }
  Topology const nodes{16, 4, fast, slow};
  auto const found = simulate_pass_kv(nodes, {16 * 3000, 0, 1});
  CHECK(found.between == Traffic{15, 15 * 8, 15 * 4 * 3000});
  CHECK(found.within == Traffic{0, 15 * 24, 15 * 12 * 3000});
}

TEST_CASE("nodes are found where ranks are numbered one node after the other") {
  using Nodes = std::vector<std::uint64_t>;
  CHECK(count_ranks_per_node(Nodes{7}) == 1);
  CHECK(count_ranks_per_node(Nodes{7, 7, 7}) == 3);
  CHECK(count_ranks_per_node(Nodes{7, 7, 3, 3, 5, 5}) == 2);
  CHECK(count_ranks_per_node(Nodes{7, 7, 3, 3, 3, 5}) == 1);  // not alike
  CHECK(count_ranks_per_node(Nodes{7, 7, 3, 3, 5}) == 1);
  CHECK(count_ranks_per_node(Nodes{7, 3, 7, 3}) == 1);  // in turn
  CHECK(count_ranks_per_node(Nodes{7, 7, 3, 3, 7, 7}) == 1);
  Topology const alone = topology_of(SelfCommunicator());
  CHECK(alone.ranks == 1);
  CHECK(alone.nodes() == 1);
  CHECK_THROWS_WITH_AS(
      simulate_reduction(ReductionAlgorithm::two_level, {6, 4, fast, slow}, {1, 8}),
      "fasttree::make_reduction_schedule: ranks_per_node: expected a divisor of 6, found 4", Error);
}

TEST_CASE("prices in words") {
  CHECK(explain_reduction({8, 4, {1, 10e3, 0}, {2, 5e3, 0}}, {.rows = 10, .value_dim = 24}) ==
        R"(8 ranks in 2 nodes merge 10 rows of 25 floats
                      rounds    messages         bytes          us
one_shot                   1         7.0          7000         3.4  cheapest
tree                       3         3.0          3000         6.6
all_to_all                 2        14.0          1750         4.3
max_then_sum               6         6.0          3120        12.6
three_all_reduces          9         9.0          3120        18.6
ring                      14        14.0          1750        28.4
two_level                  3         7.0          1750         4.2
two_level_tree             3         7.0          1750         4.2
scatter                    1         7.0           875         2.2
on_rank_0                  2         7.9           988         4.2
)");
  std::string const with_rings = explain_reduction({8, 4, {1, 10e3, 0}, {2, 5e3, 0}},
                                                   {.rows = 10, .value_dim = 24}, {80000, 1920, 2});
  CHECK(with_rings.ends_with(R"(
pass_kv                   14        28.0         70000        42.0
pass_q                     8        14.0          2555        16.5
)"));
}
