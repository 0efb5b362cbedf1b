# SPDX-License-Identifier: Apache-2.0
#
# Where Kokkos has no CUDA: nvcc for what fasttree compiles with it alone, as FASTTREE_NVCC, and as the
# compiler of CMake's language CUDA. In this order:
#   find  from PATH, CUDA_HOME or /usr/local/cuda
#   pypi  the wheels that NVIDIA publishes for Python, pinned by hash: 105 MB, kept in FASTTREE_NVCC_DIR
# Without it, or with one that is too old, what needs it is skipped: tests say so, the README's fragments are left out.

set(FASTTREE_NVCC_FROM find CACHE STRING "Where to take nvcc from, in this order; empty for nowhere")
set(FASTTREE_NVCC_DIR ${PROJECT_BINARY_DIR}/nvcc CACHE PATH "Where the wheels of nvcc are kept")
set(fasttree_nvcc_minimum 12.4)

# Puts nvcc below `prefix`; sets `fault` to what keeps it from being had, or to empty.
function(fasttree_install_nvcc prefix)
  set(fault "" PARENT_SCOPE)
  file(LOCK ${FASTTREE_NVCC_DIR} DIRECTORY GUARD FUNCTION)
  if(EXISTS ${prefix}/complete)
    return()
  endif()
  find_program(FASTTREE_PYTHON NAMES python3 python)
  mark_as_advanced(FASTTREE_PYTHON)
  if(NOT FASTTREE_PYTHON)
    set(fault "no python3" PARENT_SCOPE)
    return()
  endif()
  message(STATUS "fasttree: nvcc from pypi: downloading")
  file(REMOVE_RECURSE ${prefix})
  file(MAKE_DIRECTORY ${prefix})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TMPDIR=${prefix} ${FASTTREE_PYTHON} -m pip install
      --disable-pip-version-check --no-cache-dir --timeout 10 --retries 1
      --no-deps --only-binary :all: --require-hashes
      --target ${prefix} --requirement ${PROJECT_SOURCE_DIR}/cmake/nvcc.txt
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed)
    string(STRIP "${output}" output)
    string(REGEX REPLACE ".*\n" "" output "${output}")
    set(fault "pip install: ${output}" PARENT_SCOPE)
    return()
  endif()
  file(CREATE_LINK lib ${prefix}/nvidia/cu13/lib64 SYMBOLIC)  # where nvcc looks for it
  file(TOUCH ${prefix}/complete)
endfunction()

# Sets FASTTREE_NVCC, from the first of FASTTREE_NVCC_FROM that has one.
function(fasttree_locate_nvcc)
  foreach(origin IN LISTS FASTTREE_NVCC_FROM)
    if(origin STREQUAL "find")
      find_program(FASTTREE_NVCC nvcc PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
    else()
      fasttree_install_nvcc(${FASTTREE_NVCC_DIR}/pypi)
      if(NOT fault STREQUAL "")
        message(STATUS "fasttree: nvcc from pypi: not to be had, ${fault}")
        continue()
      endif()
      set(FASTTREE_NVCC ${FASTTREE_NVCC_DIR}/pypi/nvidia/cu13/bin/nvcc CACHE FILEPATH "" FORCE)
    endif()
    if(FASTTREE_NVCC)
      return()
    endif()
  endforeach()
endfunction()

if(FASTTREE_NVCC_FROM STREQUAL "" OR "CUDA" IN_LIST Kokkos_DEVICES)
  set(FASTTREE_NVCC OFF)
elseif(NOT FASTTREE_NVCC)
  fasttree_locate_nvcc()
endif()
mark_as_advanced(FASTTREE_NVCC)
if(FASTTREE_NVCC)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)  # of an attempt before
  endif()
  set(ENV{CUDACXX} ${FASTTREE_NVCC})
  check_language(CUDA)  # whether it works with the host's compiler
  if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "fasttree: ${FASTTREE_NVCC} does not work with the host's compiler")
    set(FASTTREE_NVCC OFF)
  endif()
endif()
if(FASTTREE_NVCC)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80)  # code for an A100, and what newer GPUs translate when it is loaded
  endif()
  enable_language(CUDA)
  file(REAL_PATH ${FASTTREE_NVCC} fasttree_nvcc_wanted)
  file(REAL_PATH ${CMAKE_CUDA_COMPILER} fasttree_nvcc_used)
  if(NOT fasttree_nvcc_wanted STREQUAL fasttree_nvcc_used)
    message(STATUS "fasttree: a build folder keeps its compilers: ${FASTTREE_NVCC} is for a new one")
    set(FASTTREE_NVCC ${CMAKE_CUDA_COMPILER})
  endif()
  message(STATUS "fasttree: nvcc ${CMAKE_CUDA_COMPILER_VERSION} from ${FASTTREE_NVCC}")
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS fasttree_nvcc_minimum)
    message(STATUS "fasttree: nvcc ${fasttree_nvcc_minimum} or newer is needed")
    set(FASTTREE_NVCC OFF)
  endif()
endif()
