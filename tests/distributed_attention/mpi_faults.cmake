# SPDX-License-Identifier: Apache-2.0
#
# Accidents of ranks that are processes (mpi_faults.cpp): a test for each kind.

# Of ranks of a program that does as mpi_faults.cpp.
function(fasttree_add_fault_test program kind algorithms ranks)
  set(test ${program}.${kind})
  add_test(NAME ${test} COMMAND ${CMAKE_COMMAND}
    "-DMPIRUN=${MPIEXEC_EXECUTABLE};${MPIEXEC_PREFLAGS};${MPIEXEC_NUMPROC_FLAG}"
    -DPROGRAM=$<TARGET_FILE:${program}> -DKIND=${kind} "-DALGORITHMS=${algorithms}" "-DRANKS=${ranks}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/distributed_attention/run_mpi_faults.cmake)
  fasttree_set_mpi_test_properties(${test} 8)
  set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)  # they look at the clock
endfunction()

if(NOT TARGET fasttree::mpi)
  fasttree_skip_without(distributed_attention.mpi_faults MPI)
  return()
elseif(NOT "SERIAL" IN_LIST Kokkos_DEVICES OR "CUDA" IN_LIST Kokkos_DEVICES)
  return()
endif()

# Others, MPICH's among them, end the ranks that are to find out that one is dead.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version
  OUTPUT_VARIABLE version ERROR_VARIABLE version RESULT_VARIABLE failed)
if(NOT version MATCHES "Open MPI|OpenRTE")
  fasttree_skip_without(distributed_attention.mpi_faults "Open MPI")
  return()
endif()

add_executable(distributed_attention.mpi_faults distributed_attention/mpi_faults.cpp)
target_link_libraries(distributed_attention.mpi_faults PRIVATE
  fasttree_program fasttree_warnings fasttree::mpi)
target_compile_definitions(distributed_attention.mpi_faults PRIVATE FASTTREE_TEST_SPACE=Kokkos::Serial)
target_include_directories(distributed_attention.mpi_faults PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})

fasttree_add_fault_test(distributed_attention.mpi_faults killed "one_shot;tree;ring" "2;3;8")
fasttree_add_fault_test(distributed_attention.mpi_faults stopped "all_to_all;tree;three_all_reduces" "2;5")
fasttree_add_fault_test(distributed_attention.mpi_faults straggler "one_shot;max_then_sum;two_level" "3;8")
fasttree_add_fault_test(distributed_attention.mpi_faults plan "tree" "2;5")
fasttree_add_fault_test(distributed_attention.mpi_faults abort "tree" "2;5")
