# SPDX-License-Identifier: Apache-2.0
#
# Accidents of ranks with a GPU each (nccl_faults.cpp): a test for each kind.

fasttree_find_lacking(2)
if(lacking)
  fasttree_skip_without(distributed_attention.nccl_faults ${lacking})
  return()
endif()
add_executable(distributed_attention.nccl_faults distributed_attention/nccl_faults.cpp)
target_link_libraries(distributed_attention.nccl_faults PRIVATE
  fasttree_program fasttree_warnings fasttree::mpi fasttree::nccl)
target_compile_definitions(distributed_attention.nccl_faults PRIVATE FASTTREE_TEST_SPACE=Kokkos::Cuda)
target_include_directories(distributed_attention.nccl_faults PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
foreach(kind killed stopped)
  fasttree_add_fault_test(distributed_attention.nccl_faults ${kind} "one_shot;tree" 2)
  set_property(TEST distributed_attention.nccl_faults.${kind}
    APPEND PROPERTY ENVIRONMENT NCCL_NVLS_ENABLE=0)
endforeach()
