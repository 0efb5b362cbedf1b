// SPDX-License-Identifier: Apache-2.0
// What a consumer over MPI does.

#include <fasttree/comm/mpi_communicator.hpp>

#include <chrono>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  {
    fasttree::MpiCommunicator const communicator(MPI_COMM_WORLD, std::chrono::seconds(10));
    ranks = communicator.size();
  }
  MPI_Finalize();
  return ranks > 0 ? 0 : 1;
}
