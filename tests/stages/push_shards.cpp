// SPDX-License-Identifier: Apache-2.0
// Pushed rows of ranks that are streams of one device, any number of them: merged against sums in
// double precision, the same bits on all ranks, through the end of the epochs; and what those get
// that wait for a rank which does not come.

#include <fasttree/stages/push_shards.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/comm/reduction_schedule.hpp>
#include "support/random.hpp"
#include "support/space.hpp"
#include "support/tolerance.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using Clock = std::chrono::steady_clock;
using Floats = Kokkos::View<float*, Space>;

constexpr int heads = 2;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// So many instances, which live as long as the program: each has a stream, and devices have few
/// queues for those.
Space const& stream(int i) {
  static std::vector<Space> const all = [] {
    std::vector<Space> made;
    for (int k = 0; k < 6; ++k) {
      cudaStream_t of_its_own;
      fasttree::cuda::check(cudaStreamCreateWithFlags(&of_its_own, cudaStreamNonBlocking), "stream",
                            "make");
      made.emplace_back(of_its_own);
    }
    return made;
  }();
  return all[i];
}

template <class T>
Kokkos::View<T*, Space> on_device(std::vector<T> const& host) {
  Kokkos::View<T*, Space> const memory("test", host.size());
  auto const mirror = Kokkos::create_mirror_view(memory);
  std::ranges::copy(host, mirror.data());
  Kokkos::deep_copy(memory, mirror);
  return memory;
}

std::vector<float> on_host(Floats const& memory) {
  auto const mirror = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), memory);
  return {mirror.data(), mirror.data() + mirror.size()};
}

/// Of one rank.
struct Rank {
  PushedRows pushed;
  Kokkos::View<std::uint64_t*, Space> cells;
  Kokkos::View<std::uint32_t*, Space> epochs;
  Kokkos::View<int, PinnedSpace> missing;
  Kokkos::View<ScheduledMerge*, Space> merges;
  Floats records, outputs, log_sum_exps;
};

struct Ranks {
  Payload payload;
  PushShape shape;
  std::vector<Rank> all;
  std::vector<std::vector<float>> records;

  /// Of so many rows, of outputs and a log-sum-exp.
  Ranks(int ranks, std::int64_t rows, int value_dim, int teams, int threads,
        std::uint32_t first_epoch, std::chrono::nanoseconds deadline, Payload as = Payload::fp32)
      : payload(as),
        shape{rows, ReductionSize{rows, value_dim, as}.record_floats(), value_dim + 1},
        all(ranks),
        records(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      Rank& made = all[rank];
      made.cells = {"test", static_cast<std::size_t>(PushedRows::cells_of(shape, ranks))};
      std::vector<std::uint32_t> epochs(teams + 1, first_epoch);
      epochs.back() = 0;
      made.epochs = on_device(epochs);
      made.missing = decltype(made.missing)("test");
      made.records = Floats("test", shape.rows * shape.merged_width);
      made.outputs = Floats("test", shape.rows * (shape.merged_width - 1));
      made.log_sum_exps = Floats("test", shape.rows);
      auto const schedule = make_reduction_schedule(ReductionAlgorithm::one_shot, rank, ranks);
      made.merges = on_device(schedule.rounds[0].merges);
      PushedRows& pushed = made.pushed;
      pushed.shape = shape;
      pushed.rank = rank;
      pushed.ranks = ranks;
      pushed.teams = teams;
      pushed.threads = threads;
      pushed.deadline = static_cast<std::uint64_t>(deadline.count());
      pushed.epochs = made.epochs.data();
      pushed.failed = reinterpret_cast<int*>(pushed.epochs + teams);
      pushed.missing = made.missing.data();
    }
    for (Rank& rank : all)
      for (int of_rank = 0; of_rank < ranks; ++of_rank)
        rank.pushed.cells[of_rank] = all[of_rank].cells.data();
  }

  /// Random records; some without keys, on all ranks or on one.
  void fill(std::uint64_t seed) {
    Random random(seed);
    for (auto& of : records) of.resize(shape.rows * shape.merged_width);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      bool const nowhere = random.one_in(10);
      for (auto& of : records) {
        bool const has_keys = !nowhere && !random.one_in(4);
        float* const record = of.data() + row * shape.merged_width;
        for (int i = 0; i < shape.merged_width - 1; ++i)
          record[i] = has_keys ? random.real(3) : std::numeric_limits<float>::quiet_NaN();
        record[shape.merged_width - 1] = has_keys ? random.real(9) : -infinity;
      }
    }
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      auto const mirror = Kokkos::create_mirror_view(all[rank].records);
      std::ranges::copy(records[rank], mirror.data());
      Kokkos::deep_copy(all[rank].records, mirror);
    }
    Kokkos::fence();
  }

  void enqueue(int rank, std::int64_t rows) const {
    Rank const& of = all[rank];
    int const value_dim = shape.merged_width - 1;
    std::int64_t const queries = rows / heads;
    Results<float, LogBase::e> results;
    results.outputs = {
        of.outputs.data(), {queries, heads, value_dim}, {heads * value_dim, value_dim, 1}};
    results.log_sum_exps = {
        reinterpret_cast<NaturalLogSumExp*>(of.log_sum_exps.data()), {queries, heads}, {heads, 1}};
    detail::push_shards(stream(rank), of.pushed, payload, rows, of.records.data(), of.merges.data(),
                        static_cast<int>(of.merges.size()),
                        detail::WriteRecord<float, LogBase::e>{results, queries, value_dim});
  }

  /// The largest error of rank 0 in units of a tolerance, as in stages/reduce_shards.cpp.
  /// `output_roundoff`: of outputs beyond that, relative to their magnitude.
  double worst_error(std::int64_t rows, double output_roundoff = 0) const {
    int const value_dim = shape.merged_width - 1;
    double const u = 16 * unit_roundoff<float> * static_cast<double>(all.size());
    auto const outputs = on_host(all[0].outputs), log_sum_exps = on_host(all[0].log_sum_exps);
    double worst = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      // Rows of a head follow each other in records, those of a query in results.
      std::int64_t const at = row % (rows / heads) * heads + row / (rows / heads);
      double sum = 0;
      std::vector<double> merged(value_dim);
      for (auto const& of : records) {
        float const* const record = of.data() + row * shape.merged_width;
        if (record[value_dim] == -infinity) continue;
        double const weight = std::exp(double{record[value_dim]});
        sum += weight;
        for (int i = 0; i < value_dim; ++i) merged[i] += weight * record[i];
      }
      worst =
          std::max(worst, error_in(u * 12, log_sum_exps[at], sum > 0 ? std::log(sum) : -infinity));
      for (int i = 0; i < value_dim; ++i)
        worst = std::max(worst, error_in((u + output_roundoff) * 3, outputs[at * value_dim + i],
                                         sum > 0 ? merged[i] / sum : 0));
    }
    return worst;
  }
};

}  // namespace

namespace {

/// Calls of fewer rows and of all, as epochs begin anew.
void merge_call_after_call(int ranks, std::int64_t planned_rows, int value_dim, Payload payload) {
  CAPTURE(ranks);
  CAPTURE(planned_rows);
  CAPTURE(name(payload));
  int const teams = static_cast<int>(std::min<std::int64_t>(planned_rows, 16));
  Ranks of(ranks, planned_rows, value_dim, teams, 3, PushedRows::last_epoch - 5,
           std::chrono::seconds(5), payload);
  double const u = payload == Payload::fp32   ? 0
                   : payload == Payload::fp16 ? unit_roundoff<fasttree::half>
                                              : unit_roundoff<bfloat16>;
  double const least = u > 0 ? ranks * 0x1p-25 : 0;  // a half below 2^-14 has no relative precision
  for (int call = 0; call < 14; ++call) {
    std::int64_t const rows = call % 3 == 1 ? (planned_rows + 2) / 4 * 2 : planned_rows;
    of.fill(100 * ranks + call);
    for (int i = 0; i < ranks; ++i) of.enqueue((i + call) % ranks, rows);
    Kokkos::fence();
    REQUIRE(*of.all[0].missing.data() == 0);
    CHECK(of.worst_error(rows, 1.01 * u + least) <= 1);
    if (u > 0 && rows > 2) CHECK(of.worst_error(rows) > 1);  // it is really sent in 16 bits
    auto const same = [](Floats const& a, Floats const& b, std::size_t floats) {
      return std::memcmp(on_host(a).data(), on_host(b).data(), floats * sizeof(float)) == 0;
    };
    for (Rank const& rank : of.all) {
      CHECK(same(rank.outputs, of.all[0].outputs, rows * value_dim));
      CHECK(same(rank.log_sum_exps, of.all[0].log_sum_exps, rows));
    }
  }
}

}  // namespace

TEST_CASE("rows of any number of ranks, call after call, fewer and all, as epochs begin anew") {
  for (int const ranks : {2, 3, 5, 6})
    for (Payload const payload : {Payload::fp32, Payload::fp16, Payload::bf16}) {
      merge_call_after_call(ranks, 2, 8, payload);
      merge_call_after_call(ranks, 14, 128, payload);
      merge_call_after_call(ranks, 300, 33, payload);
    }
}

TEST_CASE("a rank that does not come is known by name, and what follows does not wait") {
  constexpr std::chrono::milliseconds deadline{300};
  Ranks of(3, 40, 128, 16, 2, 2, deadline);
  of.fill(1);
  auto const begin = Clock::now();
  for (int call = 0; call < 5; ++call)
    for (int const rank : {0, 2}) of.enqueue(rank, 40);
  Kokkos::fence();
  auto const took = Clock::now() - begin;
  CHECK(took > deadline);
  CHECK(took < 2 * deadline);
  CHECK(*of.all[0].missing.data() == 2);
  CHECK(*of.all[2].missing.data() == 2);
  CHECK(*of.all[1].missing.data() == 0);
}

TEST_CASE("the host ends a wait") {
  Ranks of(2, 4, 16, 2, 2, 2, std::chrono::seconds(20));
  of.fill(1);
  auto const begin = Clock::now();
  of.enqueue(0, 4);
  *static_cast<int volatile*>(of.all[0].missing.data()) = -1;
  Kokkos::fence();
  CHECK(Clock::now() - begin < std::chrono::seconds(2));
}
