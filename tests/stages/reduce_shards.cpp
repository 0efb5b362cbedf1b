// SPDX-License-Identifier: Apache-2.0
// Partial results of ranks merged by every algorithm, against sums in double precision: the same
// bits on all ranks, ranks without keys and what they hold there, and what was really moved.

#include <fasttree/stages/reduce_shards.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include <fasttree/comm/in_process_communicator.hpp>
#include <fasttree/comm/self_communicator.hpp>
#include "support/random.hpp"
#include "support/second_call.hpp"
#include "support/tolerance.hpp"

namespace {

using namespace fasttree;
using fasttree::test::Random;
using Space = Kokkos::Serial;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::chrono::seconds long_deadline{60};
constexpr int heads = 3, value_dim = 8;

/// Of one rank: outputs (queries, heads, value_dim) and log-sum-exps (queries, heads).
struct Part {
  std::vector<float> outputs, log_sum_exps;

  explicit Part(int queries)
      : outputs(queries * heads * value_dim), log_sum_exps(queries * heads) {}
  friend bool operator==(Part const& a, Part const& b) {
    auto const same = [](float x, float y) {
      return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    };
    return std::ranges::equal(a.outputs, b.outputs, same) &&
           std::ranges::equal(a.log_sum_exps, b.log_sum_exps, same);
  }
};

/// Random parts; some rows have no keys on some ranks, some on none, and hold nan there.
std::vector<Part> random_parts(int ranks, int queries, std::uint64_t seed) {
  Random random(seed);
  std::vector<Part> parts(ranks, Part(queries));
  for (int row = 0; row < queries * heads; ++row) {
    bool const nowhere = random.one_in(10);
    for (Part& part : parts) {
      bool const has_keys = !nowhere && !random.one_in(4);
      part.log_sum_exps[row] = has_keys ? random.real(9) : -infinity;
      for (int i = 0; i < value_dim; ++i)
        part.outputs[row * value_dim + i] =
            has_keys ? random.real(3) : std::numeric_limits<float>::quiet_NaN();
    }
  }
  return parts;
}

template <class Reduction>
void put(Reduction const& reduction, Part const& part, int queries) {
  auto const outputs = reduction.outputs(queries);
  auto const log_sum_exps = reduction.log_sum_exps(queries);
  for (int row = 0; row < queries * heads; ++row) {
    log_sum_exps(row / heads, row % heads).value = part.log_sum_exps[row];
    for (int i = 0; i < value_dim; ++i)
      outputs(row / heads, row % heads, i) = part.outputs[row * value_dim + i];
  }
}

Results<float, LogBase::e> results_in(Part& part, int queries) {
  Results<float, LogBase::e> results;
  results.outputs = {
      part.outputs.data(), {queries, heads, value_dim}, {heads * value_dim, value_dim, 1}};
  results.log_sum_exps = {
      reinterpret_cast<NaturalLogSumExp*>(part.log_sum_exps.data()), {queries, heads}, {heads, 1}};
  return results;
}

struct Reduced {
  std::vector<Part> parts;  ///< of each rank
  Traffic moved;            ///< by all
};

/// Reduces twice on one plan, and keeps the second, to which `late` comes 20 ms after the others.
Reduced reduce(std::vector<Part> const& parts, int queries, ReductionMethod method,
               int planned_queries, int ranks_per_node = 0, int late = -1) {
  int const ranks = static_cast<int>(parts.size());
  Reduced reduced{std::vector<Part>(ranks, Part(queries)), {}};
  std::vector<Traffic> moved(ranks);
  auto const body = [&](InProcessCommunicator& communicator) {
    int const rank = communicator.rank();
    auto reduction =
        plan_reduction(Space{}, communicator, planned_queries, heads, value_dim, method);
    for (int i = 0; i < 2; ++i) {
      put(reduction, parts[rank], queries);
      if (i == 1 && rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      reduce_shards(Space{}, communicator, reduction, queries,
                    results_in(reduced.parts[rank], queries));
    }
    moved[rank] = communicator.traffic();
  };
  run_in_process(Space{}, ranks, long_deadline, body, ranks_per_node);
  for (Traffic const& one : moved) {
    reduced.moved.rounds = std::max(reduced.moved.rounds, one.rounds / 2);
    reduced.moved.messages += one.messages / 2;
    reduced.moved.bytes += one.bytes;
  }
  reduced.moved.bytes /= 2;
  return reduced;
}

/// The largest error in units of a tolerance: a merge is wrong by some roundings of the magnitudes
/// that it merges, and there are no more merges than ranks.
/// `output_roundoff`: of outputs beyond that, relative to their magnitude.
double worst_error(std::vector<Part> const& parts, Part const& found, double output_roundoff = 0) {
  double const u = 16 * unit_roundoff<float> * static_cast<double>(parts.size());
  double worst = 0;
  for (std::size_t row = 0; row < found.log_sum_exps.size(); ++row) {
    double sum = 0;
    for (Part const& part : parts) sum += std::exp(double{part.log_sum_exps[row]});
    worst = std::max(worst, test::error_in(u * 12, found.log_sum_exps[row],
                                           sum > 0 ? std::log(sum) : -infinity));
    for (int i = 0; i < value_dim; ++i) {
      double output = 0;
      for (Part const& part : parts)
        if (part.log_sum_exps[row] != -infinity)
          output += std::exp(double{part.log_sum_exps[row]}) * part.outputs[row * value_dim + i];
      worst = std::max(worst,
                       test::error_in((u + output_roundoff) * 3, found.outputs[row * value_dim + i],
                                      sum > 0 ? output / sum : 0));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("every algorithm merges partial results of any number of ranks, to one set of bits") {
  for (int const ranks : {1, 2, 3, 5, 6, 7, 8, 13})
    for (int const queries : {1, 4, 17}) {
      CAPTURE(ranks);
      CAPTURE(queries);
      auto const parts = random_parts(ranks, queries, 100 * ranks + queries);
      for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
        CAPTURE(name(algorithm));
        auto const reduced = reduce(parts, queries, algorithm, queries + ranks % 3);
        CHECK(worst_error(parts, reduced.parts[0]) <= 1);
        for (int rank = 1; rank < ranks; ++rank) CHECK(reduced.parts[rank] == reduced.parts[0]);
      }
    }
}

TEST_CASE("the same bits in every run, whichever rank comes last") {
  for (int const ranks : {3, 8}) {
    auto const parts = random_parts(ranks, 4, ranks);
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
      for (Payload const payload : {Payload::fp32, Payload::bf16}) {
        CAPTURE(name(algorithm));
        auto const first = reduce(parts, 4, {algorithm, payload}, 4, 1);
        for (int late = 0; late < ranks; late += 2)
          for (Part const& part : reduce(parts, 4, {algorithm, payload}, 4, 1, late).parts)
            CHECK(part == first.parts[0]);
      }
  }
}

TEST_CASE("across_algorithms: the same bits by all that it lets pass, in nodes of any size") {
  for (int const ranks : {1, 2, 3, 6, 7, 8, 12}) {
    auto const parts = random_parts(ranks, 20, ranks);
    auto const tree = reduce(parts, 20, ReductionAlgorithm::tree, 20).parts[0];
    int passed = 0;
    for (int ranks_per_node = 1; ranks_per_node <= ranks; ++ranks_per_node) {
      if (ranks % ranks_per_node != 0) continue;
      for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
        CAPTURE(ranks);
        CAPTURE(ranks_per_node);
        CAPTURE(name(algorithm));
        ReductionMethod const method{algorithm, Payload::fp32, Reproducibility::across_algorithms};
        if (!merges_by_tree(algorithm, {ranks, ranks_per_node})) {
          CHECK_THROWS_AS(reduce(parts, 20, method, 20, ranks_per_node), Error);
          continue;
        }
        ++passed;
        for (Part const& part : reduce(parts, 20, method, 20, ranks_per_node).parts)
          CHECK(part == tree);
      }
    }
    CHECK(passed >= 3);
    // Of which the option is the reason: a ring and sums merge to other bits.
    if (ranks < 3) continue;
    for (auto const other : {ReductionAlgorithm::ring, ReductionAlgorithm::max_then_sum})
      CHECK_FALSE(reduce(parts, 20, other, 20).parts[0] == tree);
  }
}

TEST_CASE("the bits of a row do not depend on how many are merged with it") {
  constexpr int ranks = 7, queries = 11;
  auto const parts = random_parts(ranks, queries, 5);
  auto const row_of = [](Part const& part, int query) {
    Part row(1);
    std::copy_n(part.outputs.begin() + query * heads * value_dim, heads * value_dim,
                row.outputs.begin());
    std::copy_n(part.log_sum_exps.begin() + query * heads, heads, row.log_sum_exps.begin());
    return row;
  };
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
    if (!merges_by_tree(algorithm, {ranks, ranks})) continue;
    CAPTURE(name(algorithm));
    Part const whole = reduce(parts, queries, algorithm, queries).parts[0];
    for (int query = 0; query < queries; query += 5) {
      std::vector<Part> alone;
      for (Part const& part : parts) alone.push_back(row_of(part, query));
      CHECK(reduce(alone, 1, algorithm, queries).parts[0] == row_of(whole, query));
    }
  }
}

TEST_CASE("a payload of 16 bits rounds outputs once a round, and all ranks get the same bits") {
  for (int const ranks : {1, 2, 3, 5, 6, 7, 8, 13})
    for (int const ranks_per_node : {1, ranks % 2 == 0 ? 2 : ranks})
      for (Payload const payload : {Payload::fp16, Payload::bf16})
        for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
          CAPTURE(ranks);
          CAPTURE(ranks_per_node);
          CAPTURE(name(payload));
          CAPTURE(name(algorithm));
          auto const parts = random_parts(ranks, 9, 31 * ranks);
          auto const reduced = reduce(parts, 9, {algorithm, payload}, 10, ranks_per_node);
          double const u = payload == Payload::fp16 ? unit_roundoff<half> : unit_roundoff<bfloat16>;
          auto const rounds =
              static_cast<double>(traffic(algorithm, ranks, {}, ranks_per_node).rounds);
          double const least = ranks * 0x1p-25;  // a half below 2^-14 has no relative precision
          double const error = worst_error(parts, reduced.parts[0], rounds * u * 1.01 + least);
          CHECK(error <= 1);
          // It is really sent in 16 bits.
          if (ranks > 1) CHECK(worst_error(parts, reduced.parts[0]) > 1);
          for (int rank = 1; rank < ranks; ++rank) CHECK(reduced.parts[rank] == reduced.parts[0]);
          ReductionSize const size{9 * heads, value_dim, payload};
          CHECK(reduced.moved == traffic(algorithm, ranks, size, ranks_per_node));
        }
}

TEST_CASE("of 16 bits scatter and on_rank_0 have a rank's own") {
  for (Payload const payload : {Payload::fp16, Payload::bf16})
    for (int const ranks : {2, 5}) {
      auto const parts = random_parts(ranks, 6, ranks);
      Part const whole = reduce(parts, 6, {ReductionAlgorithm::one_shot, payload}, 6).parts[0];
      auto const scattered = reduce(parts, 6, {ReductionAlgorithm::scatter, payload}, 6);
      for (int rank = 0; rank < ranks; ++rank)
        for (int row = 0; row < 6 * heads; ++row) {
          int const head = row % heads;
          bool const mine = head >= heads * rank / ranks && head < heads * (rank + 1) / ranks;
          if (mine) CHECK(scattered.parts[rank].log_sum_exps[row] == whole.log_sum_exps[row]);
          for (int i = row * value_dim; mine && i < (row + 1) * value_dim; ++i)
            CHECK(scattered.parts[rank].outputs[i] == whole.outputs[i]);
        }
      double const u = payload == Payload::fp16 ? unit_roundoff<half> : unit_roundoff<bfloat16>;
      auto const on_rank_0 = reduce(parts, 6, {ReductionAlgorithm::on_rank_0, payload}, 6);
      CHECK(worst_error(parts, on_rank_0.parts[0], 2.02 * u + ranks * 0x1p-25) <= 1);
    }
}

TEST_CASE("two levels, whatever the nodes") {
  for (int const ranks : {1, 4, 6, 8, 12})
    for (int const ranks_per_node : {1, 2, 3, 4, 6}) {
      if (ranks % ranks_per_node != 0) continue;
      CAPTURE(ranks);
      CAPTURE(ranks_per_node);
      auto const parts = random_parts(ranks, 7, ranks);
      auto const first = reduce(parts, 7, ReductionAlgorithm::two_level, 8, ranks_per_node);
      CHECK(worst_error(parts, first.parts[0]) <= 1);
      for (auto const algorithm :
           {ReductionAlgorithm::two_level, ReductionAlgorithm::two_level_tree}) {
        auto const found = reduce(parts, 7, algorithm, 8, ranks_per_node);
        for (Part const& part : found.parts) CHECK(part == first.parts[0]);
        CHECK(found.moved == traffic(algorithm, ranks, {7 * heads, value_dim}, ranks_per_node));
      }
    }
}

TEST_CASE("of results that lie elsewhere a rank gets its own, in the same bits, and no more") {
  for (int const ranks : {1, 2, 3, 5, 8})
    for (int const queries : {1, 6}) {
      CAPTURE(ranks);
      CAPTURE(queries);
      auto const parts = random_parts(ranks, queries, ranks);
      Part const whole = reduce(parts, queries, ReductionAlgorithm::tree, queries).parts[0];
      auto const scattered = reduce(parts, queries, ReductionAlgorithm::scatter, queries + 1);
      auto const on_rank_0 = reduce(parts, queries, ReductionAlgorithm::on_rank_0, queries);
      for (int rank = 0; rank < ranks; ++rank) {
        Part expected(queries);  // 0 where nothing is written
        if (rank == 0) expected = whole;
        CHECK(on_rank_0.parts[rank] == expected);
        expected = Part(queries);
        for (int query = 0; query < queries; ++query)
          for (int head = heads * rank / ranks; head < heads * (rank + 1) / ranks; ++head) {
            int const row = query * heads + head;
            expected.log_sum_exps[row] = whole.log_sum_exps[row];
            for (int i = row * value_dim; i < (row + 1) * value_dim; ++i)
              expected.outputs[i] = whole.outputs[i];
          }
        CHECK(scattered.parts[rank] == expected);
      }
    }
}

TEST_CASE("infinite log-sum-exps: one is all there is, of two nothing is known") {
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
    CAPTURE(name(algorithm));
    auto parts = random_parts(5, 2, 7);
    for (Part& part : parts)
      for (int row = 0; row < 3; ++row) part.log_sum_exps[row] = -infinity;
    parts[3].log_sum_exps[0] = infinity;  // alone
    parts[1].log_sum_exps[1] = 4;         // beside another
    parts[3].log_sum_exps[1] = infinity;
    parts[3].log_sum_exps[2] = parts[4].log_sum_exps[2] = infinity;
    for (Part& part : parts)
      for (int i = 0; i < 3 * value_dim; ++i) part.outputs[i] = static_cast<float>(i);
    parts[1].outputs[value_dim] = std::numeric_limits<float>::quiet_NaN();  // of weight 0
    for (Part const& found : reduce(parts, 2, algorithm, 2).parts) {
      CHECK(found.log_sum_exps[0] == infinity);
      CHECK(found.log_sum_exps[1] == infinity);
      CHECK(std::isnan(found.log_sum_exps[2]));
      for (int i = 0; i < 2 * value_dim; ++i) CHECK(found.outputs[i] == static_cast<float>(i));
      for (int i = 2 * value_dim; i < 3 * value_dim; ++i) CHECK(std::isnan(found.outputs[i]));
    }
  }
}

TEST_CASE("what is moved is what the formulas say, for 1 to 64 ranks") {
  std::vector<ReductionAlgorithm> all(std::begin(all_reduction_algorithms),
                                      std::end(all_reduction_algorithms));
  all.push_back(ReductionAlgorithm::scatter);
  all.push_back(ReductionAlgorithm::on_rank_0);
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (ReductionAlgorithm const algorithm : all) {
      CAPTURE(ranks);
      CAPTURE(name(algorithm));
      auto const reduced = reduce(random_parts(ranks, 2, ranks), 2, algorithm, 2);
      CHECK(reduced.moved == traffic(algorithm, ranks, {2 * heads, value_dim}, ranks));
    }
}

TEST_CASE("a reduction does not allocate") {
  constexpr int ranks = 3;
  auto const parts = random_parts(ranks, 5, 1);
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    for (Payload const payload : {Payload::fp32, Payload::fp16, Payload::bf16}) {
      CAPTURE(name(algorithm));
      CAPTURE(name(payload));
      auto const body = [&](InProcessCommunicator& communicator, auto const& call_twice) {
        auto reduction =
            plan_reduction(Space{}, communicator, 5, heads, value_dim, {algorithm, payload});
        Part result(5);
        call_twice([&] {
          put(reduction, parts[communicator.rank()], 5);
          reduce_shards(Space{}, communicator, reduction, 5, results_in(result, 5));
        });
      };
      CHECK(test::allocated_by_second_call(Space{}, ranks, body) == 0);
    }
}

TEST_CASE("what is refused, and what ranks disagree about") {
  SelfCommunicator self;
  auto reduction = plan_reduction(Space{}, self, 5, heads, value_dim);
  Part result(6);
  CHECK_THROWS_WITH_AS(reduce_shards(Space{}, self, reduction, 6, results_in(result, 6)),
                       "fasttree::reduce_shards: queries: expected at most 5, found 6", Error);
  CHECK_THROWS_WITH_AS(plan_reduction(Space{}, self, -1, heads, value_dim),
                       "fasttree::plan_reduction: queries: expected 0 or more, found -1", Error);
  ReductionMethod const asked[] = {
      {ReductionAlgorithm::ring, Payload::fp32, Reproducibility::across_algorithms},
      {ReductionAlgorithm::tree, Payload::bf16, Reproducibility::across_algorithms}};
  CHECK_THROWS_WITH_AS(plan_reduction(Space{}, self, 5, heads, value_dim, asked[0]),
                       "fasttree::plan_reduction: method.algorithm: expected one that merges by "
                       "the tree over ranks, as one_shot, found ring",
                       Error);
  CHECK_THROWS_WITH_AS(plan_reduction(Space{}, self, 5, heads, value_dim, asked[1]),
                       "fasttree::plan_reduction: method.payload: expected fp32, to be "
                       "reproducible across algorithms, found bf16",
                       Error);
  CHECK_THROWS_AS(run_in_process(Space{}, 2, long_deadline,
                                 [](InProcessCommunicator& communicator) {
                                   plan_reduction(Space{}, communicator, 4, heads, value_dim,
                                                  all_reduction_algorithms[communicator.rank()]);
                                 }),
                  Error);
  CHECK_THROWS_AS(run_in_process(Space{}, 2, long_deadline,
                                 [](InProcessCommunicator& communicator) {
                                   plan_reduction(Space{}, communicator, 4, heads, value_dim,
                                                  {ReductionAlgorithm::three_all_reduces,
                                                   Payload(1 + communicator.rank())});
                                 }),
                  Error);
  CHECK_THROWS_AS(run_in_process(Space{}, 2, long_deadline,
                                 [](InProcessCommunicator& communicator) {
                                   plan_reduction(Space{}, communicator, 4, heads,
                                                  7 + communicator.rank(),  // in as many words
                                                  {ReductionAlgorithm::tree, Payload::bf16});
                                 }),
                  Error);
  CHECK_THROWS_AS(run_in_process(Space{}, 3, long_deadline,
                                 [](InProcessCommunicator& communicator) {
                                   auto planned =
                                       plan_reduction(Space{}, communicator, 4, heads, value_dim);
                                   int const queries = communicator.rank() == 1 ? 3 : 4;
                                   Part part(queries);
                                   put(planned, part, queries);
                                   reduce_shards(Space{}, communicator, planned, queries,
                                                 results_in(part, queries));
                                 }),
                  Error);
}
