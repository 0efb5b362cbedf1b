# SPDX-License-Identifier: Apache-2.0
#
# How fasttree's own programs are built: tests, examples, benchmarks. Nothing here reaches a consumer.
#
#   fasttree_test(core/partials.cpp)        one program and one ctest per execution space of Kokkos,
#                                           core.partials.OpenMP, core.partials.Serial, ...; in the
#                                           source, FASTTREE_TEST_SPACE is the space's type
#   fasttree_test(backend/x.cpp ON Cuda)    the same for these spaces alone, where Kokkos has them
#   fasttree_host_test(tree/tree_order.cpp) one program and one ctest, tree.tree_order
#   fasttree_ranks_test(stages/reduce_shards.cpp)
#                                           one program and one ctest, on Kokkos::Serial: its ranks are
#                                           threads that all launch kernels. Nothing without Serial
#   fasttree_mpi_test(comm/mpi_communicator.cpp RANKS 1 2 3)
#                                           one program on Kokkos::Serial, and one ctest for each number of
#                                           ranks, comm.mpi_communicator.3; skipped without MPI. On
#                                           Kokkos::Cuda, where Kokkos has that, if it says DEVICE
#   fasttree_nccl_test(distributed_attention/nccl.cpp RANKS 1 2)
#                                           one program on Kokkos::Cuda, and one ctest for each number of
#                                           ranks; skipped without NCCL, MPI, Kokkos with CUDA, or so many GPUs
#   fasttree_stream_test(backend/cuda/stream.cpp)
#                                           one program and one ctest, whose work runs on a CudaStream: where
#                                           Kokkos has no CUDA, by nvcc alone, and skipped without it or a GPU
#   fasttree_example(first.cpp [arguments]) one program, and one ctest that runs it with these arguments
#   fasttree_stream_example(cuda_stream.cu) the same of a program for nvcc; skipped as fasttree_stream_test
#   fasttree_mpi_example(ranks_mpi.cpp RANKS 3)
#                                           the same on so many ranks; skipped without MPI
#   fasttree_nccl_example(ranks_nccl.cpp RANKS 2)
#                                           the same with a GPU for each; skipped as fasttree_nccl_test
#   fasttree_benchmark(planning.cpp)        one program, and one ctest that runs every case of it once

option(FASTTREE_NATIVE "Build tests, examples and benchmarks for this machine's processor" OFF)
set(FASTTREE_TEST_SPACES "" CACHE STRING "Execution spaces to test; empty for all that Kokkos has")

# Linked by every program. Threads: for ranks of one process.
find_package(Threads REQUIRED)
add_library(fasttree_program INTERFACE)
target_link_libraries(fasttree_program INTERFACE fasttree::fasttree Threads::Threads)
target_compile_options(fasttree_program INTERFACE
  $<$<NOT:$<CONFIG:Debug>>:-O3>
  $<$<AND:$<BOOL:${FASTTREE_NATIVE}>,$<COMPILE_LANGUAGE:CXX>>:-march=native>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr>)
if("OPENMP" IN_LIST Kokkos_DEVICES)  # which Kokkos asks for where it is compiled as C++ alone
  target_compile_options(fasttree_program INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fopenmp>)
endif()

# Linked by every test, beside that.
add_library(fasttree_warnings INTERFACE)
if("CUDA" IN_LIST Kokkos_DEVICES)  # what nvcc hands to the host's compiler is not pedantic
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)  # nor can nvcc precompile
  target_compile_options(fasttree_warnings INTERFACE -Wall -Wextra)
else()
  target_compile_options(fasttree_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra -Werror=all-warnings>)
endif()

# Kokkos spells its devices in capitals; the types are spelled like this.
set(fasttree_spaces "")
foreach(space Serial OpenMP Threads Cuda HIP)
  string(TOUPPER ${space} device)
  if(device IN_LIST Kokkos_DEVICES)
    if(NOT FASTTREE_TEST_SPACES OR space IN_LIST FASTTREE_TEST_SPACES)
      list(APPEND fasttree_spaces ${space})
    endif()
  endif()
endforeach()

# Three threads: more than the cores of a small machine, and no power of two.
function(fasttree_set_test_properties test)
  set_tests_properties(${test} PROPERTIES TIMEOUT 300 ENVIRONMENT
    "OMP_NUM_THREADS=3;OMP_PROC_BIND=false;KOKKOS_NUM_THREADS=3;KOKKOS_DISABLE_WARNINGS=1")
endfunction()

function(fasttree_add_test_program test source)
  add_executable(${test} ${source})
  target_link_libraries(${test} PRIVATE fasttree_program fasttree_warnings fasttree_test_main)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${test} REUSE_FROM fasttree_test_main)
  endif()
  add_test(NAME ${test} COMMAND ${test})
  fasttree_set_test_properties(${test})
endfunction()

# core/partials.cpp -> core.partials
function(fasttree_test_name source result)
  cmake_path(REMOVE_EXTENSION source LAST_ONLY)
  string(REPLACE "/" "." source ${source})
  set(${result} ${source} PARENT_SCOPE)
endfunction()

function(fasttree_test source)
  cmake_parse_arguments(PARSE_ARGV 1 this "" "" "ON")
  fasttree_test_name(${source} name)
  foreach(space IN LISTS fasttree_spaces)
    if(this_ON AND NOT space IN_LIST this_ON)
      continue()
    endif()
    fasttree_add_test_program(${name}.${space} ${source})
    target_compile_definitions(${name}.${space} PRIVATE FASTTREE_TEST_SPACE=Kokkos::${space})
  endforeach()
endfunction()

# Not where nvcc compiles: no test of the host alone has to do with a GPU.
function(fasttree_host_test source)
  if("CUDA" IN_LIST Kokkos_DEVICES)
    return()
  endif()
  fasttree_test_name(${source} name)
  fasttree_add_test_program(${name} ${source})
endfunction()

function(fasttree_ranks_test source)
  if(NOT "SERIAL" IN_LIST Kokkos_DEVICES)
    return()
  endif()
  fasttree_test_name(${source} name)
  fasttree_add_test_program(${name} ${source})
  target_compile_definitions(${name} PRIVATE FASTTREE_TEST_SPACE=Kokkos::Serial)
endfunction()

# More ranks than cores, by any user; each rank on all cores. What Open MPI asks for, by environment, so
# that other MPIs do not mind; and it leaks.
set(fasttree_mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  ASAN_OPTIONS=detect_leaks=0)

function(fasttree_set_mpi_test_properties test ranks)
  fasttree_set_test_properties(${test})
  set_tests_properties(${test} PROPERTIES PROCESSORS ${ranks})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${fasttree_mpi_environment})
endfunction()

# In the place of a test that needs something, for instance MPI, that of someone, or GPUs.
function(fasttree_skip_without test what)
  add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "skipped: CMake found no ${what}")
  set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
endfunction()

# Runs a program on so many ranks, with arguments.
function(fasttree_add_mpi_run test program ranks)
  add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
    ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${program}> ${MPIEXEC_POSTFLAGS} ${ARGN})
  fasttree_set_mpi_test_properties(${test} ${ranks})
endfunction()

function(fasttree_add_mpi_test_program test source space)
  add_executable(${test} ${source})
  target_link_libraries(${test} PRIVATE
    fasttree_program fasttree_warnings fasttree_test_main fasttree::mpi)
  target_compile_definitions(${test} PRIVATE FASTTREE_TEST_SPACE=Kokkos::${space})
endfunction()

function(fasttree_mpi_test source)
  cmake_parse_arguments(PARSE_ARGV 1 this "DEVICE" "" "RANKS")
  fasttree_test_name(${source} name)
  set(space Serial)
  if("CUDA" IN_LIST Kokkos_DEVICES)
    set(space Cuda)
  endif()
  if(NOT TARGET fasttree::mpi)
    fasttree_skip_without(${name} MPI)
    return()
  elseif(space STREQUAL "Cuda" AND NOT this_DEVICE OR NOT "SERIAL" IN_LIST Kokkos_DEVICES)
    return()
  endif()
  fasttree_add_mpi_test_program(${name} ${source} ${space})
  foreach(ranks IN LISTS this_RANKS)
    fasttree_add_mpi_run(${name}.${ranks} ${name} ${ranks})
  endforeach()
endfunction()

# Ranks of NCCL are started by MPI, and have a GPU each.
set(fasttree_gpus 0)
if(TARGET fasttree::nccl)
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCHALL "GPU [0-9]+:" gpus "${gpus}")
  list(LENGTH gpus fasttree_gpus)
endif()

# Sets `lacking` to what there is not of what so many ranks need.
function(fasttree_find_lacking ranks)
  set(lacking "" PARENT_SCOPE)
  if(NOT TARGET fasttree::nccl OR NOT TARGET fasttree::mpi OR NOT "CUDA" IN_LIST Kokkos_DEVICES)
    set(lacking "NCCL, MPI and Kokkos with CUDA" PARENT_SCOPE)
  elseif(fasttree_gpus LESS ranks)
    set(lacking "${ranks} GPUs" PARENT_SCOPE)
  endif()
endfunction()

# The same with a GPU for each rank; without multicast, which not every machine has.
function(fasttree_add_nccl_run test program ranks)
  fasttree_find_lacking(${ranks})
  if(lacking)
    fasttree_skip_without(${test} ${lacking})
    return()
  endif()
  fasttree_add_mpi_run(${test} ${program} ${ranks} ${ARGN})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT NCCL_NVLS_ENABLE=0)
endfunction()

function(fasttree_nccl_test source)
  cmake_parse_arguments(PARSE_ARGV 1 this "" "" "RANKS")
  fasttree_test_name(${source} name)
  fasttree_find_lacking(0)
  if(NOT lacking)
    fasttree_add_mpi_test_program(${name} ${source} Cuda)
    target_link_libraries(${name} PRIVATE fasttree::nccl)
  endif()
  foreach(ranks IN LISTS this_RANKS)
    fasttree_add_nccl_run(${name}.${ranks} ${name} ${ranks})
  endforeach()
endfunction()

# Sources for nvcc in the language of CMake that Kokkos, without CUDA, knows nothing of.
function(fasttree_add_stream_program program source)
  set_source_files_properties(${source} PROPERTIES LANGUAGE CUDA)
  add_executable(${program} ${source})
  target_link_libraries(${program} PRIVATE fasttree_program)
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# Also where there is no GPU, which the program finds out by itself.
function(fasttree_add_stream_run test program)
  add_test(NAME ${test} COMMAND ${program})
  fasttree_set_test_properties(${test})
  set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no GPU")
endfunction()

function(fasttree_stream_test source)
  fasttree_test_name(${source} name)
  if("CUDA" IN_LIST Kokkos_DEVICES)
    fasttree_test(${source} ON Cuda)
  elseif(NOT FASTTREE_NVCC)
    fasttree_skip_without(${name} nvcc)
  else()
    fasttree_add_stream_program(${name} ${source})
    target_link_libraries(${name} PRIVATE fasttree_warnings fasttree_test_main)
    target_compile_definitions(${name} PRIVATE FASTTREE_TEST_SPACE=Kokkos::DefaultHostExecutionSpace)
    fasttree_add_stream_run(${name} ${name})
  endif()
endfunction()

function(fasttree_stream_example source)
  fasttree_test_name(${source} name)
  if(NOT FASTTREE_NVCC)
    fasttree_skip_without(example.${name} nvcc)
    return()
  endif()
  fasttree_add_stream_program(${name} ${source})
  fasttree_add_stream_run(example.${name} ${name})
endfunction()

function(fasttree_example source)
  fasttree_test_name(${source} name)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE fasttree_program)
  add_test(NAME example.${name} COMMAND ${name} ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  fasttree_set_test_properties(example.${name})
endfunction()

function(fasttree_mpi_example source)
  cmake_parse_arguments(PARSE_ARGV 1 this "" "RANKS" "")
  fasttree_test_name(${source} name)
  if(NOT TARGET fasttree::mpi)
    fasttree_skip_without(example.${name} MPI)
    return()
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE fasttree_program fasttree::mpi)
  fasttree_add_mpi_run(example.${name} ${name} ${this_RANKS})
endfunction()

function(fasttree_nccl_example source)
  cmake_parse_arguments(PARSE_ARGV 1 this "" "RANKS" "")
  fasttree_test_name(${source} name)
  fasttree_find_lacking(0)
  if(NOT lacking)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE fasttree_program fasttree::mpi fasttree::nccl)
  endif()
  fasttree_add_nccl_run(example.${name} ${name} ${this_RANKS})
endfunction()

function(fasttree_benchmark source)
  fasttree_test_name(${source} name)
  add_executable(bench_${name} ${source})
  target_link_libraries(bench_${name} PRIVATE fasttree_program benchmark::benchmark)
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)  # the oracle
  add_test(NAME bench.${name} COMMAND bench_${name} --benchmark_min_time=0)
  fasttree_set_test_properties(bench.${name})
endfunction()
