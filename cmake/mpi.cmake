# SPDX-License-Identifier: Apache-2.0
#
# The target fasttree::mpi, where MPI is found: fasttree, and what comm/mpi_communicator.hpp needs.
# Shared by this build and by the installed package.

set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX GLOBAL)
if(MPI_CXX_FOUND AND NOT TARGET fasttree::mpi)
  add_library(fasttree_mpi INTERFACE)
  add_library(fasttree::mpi ALIAS fasttree_mpi)
  target_link_libraries(fasttree_mpi INTERFACE fasttree::fasttree MPI::MPI_CXX)
endif()
