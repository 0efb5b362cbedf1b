// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests that mpirun starts on several ranks with a GPU each: communicators of NCCL, whose ids
// MPI hands out, and graphs of what they enqueue.

#include <fasttree/comm/nccl_communicator.hpp>

#include <chrono>
#include <cstddef>

#include <mpi.h>

#include <fasttree/backend/cuda/error.hpp>

namespace fasttree::test {

inline constexpr std::chrono::seconds nccl_deadline{10};

/// A communicator of all ranks. Collective.
inline NcclCommunicator nccl_communicator(Kokkos::Cuda const& space = {},
                                          std::chrono::nanoseconds deadline = nccl_deadline,
                                          NcclOptions const& options = {}) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ncclUniqueId id{};
  if (rank == 0) id = make_nccl_id();
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  return {space, id, rank, ranks, deadline, options};
}

/// An instance on a stream of its own, which can be captured.
inline Kokkos::Cuda new_stream() {
  cudaStream_t stream;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "new_stream",
              "cudaStreamCreate");
  return Kokkos::Cuda(stream);
}

/// What `enqueue` enqueues on the stream of `space`, to be launched again and again.
class Graph {
 public:
  template <class Enqueue>
  Graph(Kokkos::Cuda const& space, Enqueue const& enqueue) : space_(space) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal));
    enqueue();
    check(cudaStreamEndCapture(space.cuda_stream(), &graph));
    check(cudaGraphGetNodes(graph, nullptr, &nodes_));
    check(cudaGraphInstantiate(&executable_, graph, 0));
    check(cudaGraphDestroy(graph));
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(Graph const&) = delete;
  Graph& operator=(Graph const&) = delete;

  void launch() const { check(cudaGraphLaunch(executable_, space_.cuda_stream())); }
  std::size_t nodes() const { return nodes_; }

 private:
  static void check(cudaError_t code) { cuda::check(code, "Graph", "a call"); }

  Kokkos::Cuda space_;
  cudaGraphExec_t executable_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace fasttree::test
