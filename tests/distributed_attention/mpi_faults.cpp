// SPDX-License-Identifier: Apache-2.0
// A step of attention over processes, then one before which rank 1 meets with an accident:
//     killed     by SIGKILL
//     stopped    by SIGSTOP, for good
//     straggler  late, but by the deadline: no error
//     abort      stopped, and what remains is ended by MPI_Abort
//     plan       killed before the others plan
// Each rank that lives says on a line what it found; run_mpi_faults.cmake reads them. No rank calls
// MPI_Finalize after an accident, since that waits for all.

#include <fasttree/distributed_attention.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include <fasttree/comm/mpi_communicator.hpp>
#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Shape = AttentionShape<float, 16>;

constexpr auto deadline = 2000ms;
constexpr int victim = 1;

/// The numbers of the ranks' processes.
std::vector<int> processes(int ranks) {
  int const mine = static_cast<int>(getpid());
  std::vector<int> all(ranks);
  MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  return all;
}

void accident(std::string const& kind) {
  if (kind == "straggler") std::this_thread::sleep_for(deadline / 2);
  if (kind == "killed" || kind == "plan") std::raise(SIGKILL);
  if (kind == "stopped" || kind == "abort") std::raise(SIGSTOP);
}

int run(std::string const& kind, ReductionAlgorithm algorithm) {
  MpiCommunicator communicator(MPI_COMM_WORLD, deadline);
  int const rank = communicator.rank(), ranks = communicator.size();
  auto const pids = processes(ranks);
  if (kind == "plan" && rank == victim) accident(kind);
  // Rows of 43 KB, which MPI does not send before they are asked for.
  Problem<Shape> const problem(level_forest({1, 40}, {40, 12}), Shape{.query_heads = 16});
  auto const local = shard_problem(problem, InterleavedShards{4}, {rank, ranks});
  auto const held = contiguous_cache(local);
  Arrays<float, LogBase::e, Problem<Shape>> const first(problem), second(problem);
  Space const space{};
  if (kind != "plan") MPI_Barrier(MPI_COMM_WORLD);  // until all have begun
  bool right = true;
  auto begin = Clock::now();
  auto const steps = [&] {
    auto plan = make_distributed_plan(space, communicator, local.tree, problem.shape, algorithm);
    auto const workspace = make_workspace(space, plan.attention);
    auto const step = [&](auto const& arrays) {
      distributed_attention(space, communicator, plan, arrays.queries, held.cache, arrays.outputs,
                            arrays.log_sum_exps, workspace);
    };
    step(first);
    right = worst_error(problem, first.read()) <= 1;
    if (rank == victim) accident(kind);
    begin = Clock::now();
    step(second);
    right = right && worst_error(problem, second.read()) <= 1;
  };
  std::string error;
  try {
    steps();
  } catch (Error const& caught) {
    error = caught.what();
  }
  // That of the plan and its window too.
  double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (kind == "straggler" && error.empty() && right) {
    MPI_Barrier(MPI_COMM_WORLD);
    std::printf("rank %d: right: no error\n", rank);
    return 0;
  }
  if (kind == "abort") MPI_Abort(MPI_COMM_WORLD, 3);
  if (kind == "stopped" && rank == 0) kill(pids[victim], SIGKILL);
  bool const in_time = seconds < 1.1 * std::chrono::duration<double>(deadline).count();
  right = right && in_time && error.starts_with("fasttree::MpiCommunicator: ") &&
          error.ends_with(": expected a message within 2.000000 s, found none");
  end(rank, right, error + " after " + std::to_string(seconds) + " s");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int result = 2;
  {
    Kokkos::ScopeGuard const kokkos(argc, argv);
    if (argc > 2) result = run(argv[1], algorithm_named(argv[2]));
  }
  MPI_Finalize();
  return result;
}
