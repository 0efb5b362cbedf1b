// SPDX-License-Identifier: Apache-2.0
// A step of attention over processes with a GPU each, then one before which rank 1 meets with an
// accident: it is killed, or stopped for good. The other says on a line what it found;
// run_mpi_faults.cmake reads it. No rank calls MPI_Finalize, since that waits for all.

#include <fasttree/distributed_attention.hpp>

#include <chrono>
#include <csignal>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "support/faults.hpp"
#include "support/nccl_ranks.hpp"
#include "support/ranks.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Shape = AttentionShape<float, 16>;

constexpr auto deadline = 2000ms;

void run(std::string const& kind, ReductionAlgorithm algorithm) {
  Space const space = new_stream();
  auto communicator = nccl_communicator(space, deadline);
  int const rank = communicator.rank();
  int process = static_cast<int>(getpid());
  MPI_Bcast(&process, 1, MPI_INT, 1, MPI_COMM_WORLD);
  Problem<Shape> const problem(level_forest({1, 40}, {40, 12}), Shape{.query_heads = 16});
  auto const local = shard_problem(problem, InterleavedShards{4}, {rank, communicator.size()});
  auto const held = contiguous_cache(local);
  Arrays<float, LogBase::e, Problem<Shape>> const array(problem);
  auto plan = make_distributed_plan(space, communicator, local.tree, problem.shape, algorithm);
  auto const workspace = make_workspace(space, plan.attention);
  auto const step = [&] {
    distributed_attention(space, communicator, plan, array.queries, held.cache, array.outputs,
                          array.log_sum_exps, workspace);
    communicator.wait(space);
  };
  step();
  bool right = worst_error(problem, array.read()) <= 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) std::raise(kind == "killed" ? SIGKILL : SIGSTOP);
  auto const begin = Clock::now();
  std::string error;
  try {
    step();
  } catch (Error const& caught) {
    error = caught.what();
  }
  double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (kind == "stopped") kill(process, SIGKILL);
  right = right && seconds < 1.1 * std::chrono::duration<double>(deadline).count() &&
          error.starts_with("fasttree::NcclCommunicator: ");
  bool const idle = cudaStreamSynchronize(space.cuda_stream()) == cudaSuccess;
  end(rank, right && idle,
      error + " after " + std::to_string(seconds) + " s; the device is " +
          (idle ? "idle" : "not idle"));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::ScopeGuard const kokkos(argc, argv);
  if (argc > 2) run(argv[1], algorithm_named(argv[2]));
  return 2;
}
