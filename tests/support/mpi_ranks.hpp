// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests that mpirun starts on several ranks: MPI around the test cases, which all ranks run
// alike, and a layer below MPI's names (PMPI) that counts what is really sent. Included by one
// source of a program.

#include <fasttree/comm/mpi_communicator.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace fasttree::test {

/// What this rank has sent by MPI_Isend, and how often it began to send after it had received.
inline Traffic& counted_by_mpi() {
  static Traffic counted;
  return counted;
}

inline bool& sent_last() {
  static bool sent = false;
  return sent;
}

/// What was counted since this was made: of rounds the most of any rank, of the others the sum.
class MpiCounts {
 public:
  MpiCounts() : before_(counted_by_mpi()) {}

  /// Collective.
  Traffic of_all_ranks() const {
    Traffic const& now = counted_by_mpi();
    std::int64_t const rounds = now.rounds - before_.rounds;
    std::int64_t const sums[] = {now.messages - before_.messages, now.bytes - before_.bytes};
    std::int64_t most = 0, all[2] = {};
    MPI_Allreduce(&rounds, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(sums, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return {most, all[0], all[1]};
  }

 private:
  Traffic before_;
};

/// Whether all ranks hold the same bits. Collective, for equally many on all.
inline bool same_on_all_ranks(std::vector<float> const& values) {
  std::vector<float> of_rank_0 = values;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  return std::ranges::equal(values, of_rank_0, [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

/// Begins MPI before the first test case and ends it after the last.
struct MpiAroundTests : doctest::IReporter {
  explicit MpiAroundTests(doctest::ContextOptions const&) {}
  void test_run_start() override { MPI_Init(nullptr, nullptr); }
  void test_run_end(doctest::TestRunStats const&) override { MPI_Finalize(); }
  void report_query(doctest::QueryData const&) override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};

REGISTER_LISTENER("mpi", 1, MpiAroundTests);

}  // namespace fasttree::test

extern "C" int MPI_Isend(void const* message, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  fasttree::Traffic& counted = fasttree::test::counted_by_mpi();
  if (!fasttree::test::sent_last()) ++counted.rounds;
  fasttree::test::sent_last() = true;
  ++counted.messages;
  counted.bytes += std::int64_t{1} * count * bytes;
  return PMPI_Isend(message, count, type, to, tag, communicator, request);
}

extern "C" int MPI_Irecv(void* message, int count, MPI_Datatype type, int from, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  fasttree::test::sent_last() = false;
  return PMPI_Irecv(message, count, type, from, tag, communicator, request);
}
