# SPDX-License-Identifier: Apache-2.0
#
# Has ranks of PROGRAM (mpi_faults.cpp, nccl_faults.cpp) meet with an accident of this KIND, for each of
# RANKS and ALGORITHMS, and counts those that say that they found what they should: all but rank 1, which
# had it. MPIRUN is the command up to the number of ranks.

cmake_minimum_required(VERSION 3.25)

# Open MPI ends all ranks when one dies, unless it is told to let them recover. It then says nothing
# reliable about exit statuses.
set(ENV{OMPI_MCA_orte_enable_recovery} 1)

foreach(algorithm IN LISTS ALGORITHMS)
  foreach(ranks IN LISTS RANKS)
    execute_process(COMMAND ${MPIRUN} ${ranks} ${PROGRAM} ${KIND} ${algorithm}
      OUTPUT_VARIABLE output ERROR_VARIABLE errors TIMEOUT 60 RESULT_VARIABLE result)
    message("${KIND}, ${algorithm}, ${ranks} ranks:\n${output}")
    set(expected 1)  # what MPI_Abort ends says nothing
    if(KIND STREQUAL "abort")
      set(found 0)
      if(NOT result MATCHES "[Tt]imeout")
        set(found 1)
      endif()
    else()
      if(KIND STREQUAL "straggler")
        set(expected ${ranks})
      else()
        math(EXPR expected "${ranks} - 1")
      endif()
      string(REGEX MATCHALL "rank [0-9]+: right: " found "${output}")
      list(LENGTH found found)
    endif()
    if(NOT found EQUAL expected OR output MATCHES "WRONG" OR result MATCHES "[Tt]imeout")
      message(FATAL_ERROR "${found} of ${expected} ranks are right; ${result}\n${errors}")
    endif()
  endforeach()
endforeach()
