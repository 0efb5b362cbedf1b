# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs the consumer project in the folder WAY, as a user would: for find_package against a
# fresh installation of BINARY, for add_subdirectory against ROOT.

cmake_minimum_required(VERSION 3.25)

set(work ${BINARY}/tests/consumer/${WAY})
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed: ${command}")
  endif()
endfunction()

if(WAY STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${BINARY} --prefix ${work}/prefix)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${WAY} -B ${work}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX} -DKokkos_DIR=${Kokkos_DIR} -DCMAKE_PREFIX_PATH=${work}/prefix
  -DFASTTREE_SOURCE=${ROOT})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
