# SPDX-License-Identifier: Apache-2.0
#
# Breaks each rule of architecture.cmake once, and passes if every breach is reported.

cmake_minimum_required(VERSION 3.25)

set(work ${BINARY}/tests/architecture)
set(begin "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n// What it gives.\n")

function(expect_complaint path text complaint)
  file(REMOVE_RECURSE ${work})
  file(WRITE ${work}/include/fasttree/core/good.hpp "${begin}")
  file(WRITE ${work}/include/fasttree/${path} "${text}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DROOT=${work} -P ${CMAKE_CURRENT_LIST_DIR}/architecture.cmake
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(NOT failed OR NOT output MATCHES "${path}: ${complaint}")
    message(SEND_ERROR "${path}: expected \"${complaint}\", got:\n${output}")
  endif()
endfunction()

string(REPEAT "\n" 400 long)
expect_complaint(core/long.hpp "${begin}${long}" "40. lines")
expect_complaint(core/bare.hpp "#pragma once\n" "a header begins with")
expect_complaint(core/Camel.hpp "${begin}" "names are lower case")
expect_complaint(utils/x.hpp "${begin}" "utils is no layer")
expect_complaint(core/x.hpp "${begin}#include \"good.hpp\"\n" ".*are included as")
expect_complaint(core/x.hpp "${begin}#include <fasttree/core/gone.hpp>\n" ".*does not exist")
expect_complaint(core/x.hpp "${begin}#include <Kokkos_Core.hpp>\n" ".*belongs in .*core/kokkos")
expect_complaint(comm/x.hpp "${begin}#include <mpi.h>\n" ".*belongs in .*mpi_group")
expect_complaint(comm/x.hpp "${begin}#include <nccl.h>\n" ".*belongs in .*nccl_group")
expect_complaint(stages/x.hpp "${begin}__global__ void f();\n" ".*belongs in .*launch")
expect_complaint(stages/x.hpp "${begin}#ifdef KOKKOS_ENABLE_CUDA\n#endif\n" ".*belongs in .*select")
foreach(pair core>tree tree>cache cache>tree plan>tree planner>cache planner>backend backend/portable>tree
        backend/portable>backend/cuda stages>tree stages>comm stages>backend/portable comm>plan)
  string(REGEX MATCH "(.*)>(.*)" pair ${pair})
  set(from ${CMAKE_MATCH_1})
  set(to ${CMAKE_MATCH_2})
  expect_complaint(${from}/x.hpp "${begin}#include <fasttree/${to}/y.hpp>\n" "may not include ${to}/y.hpp")
endforeach()
expect_complaint(backend/cuda/sm90/wgmma.hpp "${begin}#include <fasttree/core/good.hpp>\n" "may not include")
