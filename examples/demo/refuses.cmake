# SPDX-License-Identifier: Apache-2.0
#
# Passes if PROGRAM with the given arguments (after --) says MESSAGE in one line, exits with status 2, and
# leaves PICTURE as it was: not there.

cmake_minimum_required(VERSION 3.25)

set(arguments "")
set(begun FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(begun)
    list(APPEND arguments "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(begun TRUE)
  endif()
endforeach()

file(REMOVE ${PICTURE})
execute_process(COMMAND ${PROGRAM} --repeat 1 --picture ${PICTURE} ${arguments}
  OUTPUT_QUIET ERROR_VARIABLE error RESULT_VARIABLE status)
if(NOT status EQUAL 2)
  message(FATAL_ERROR "exit status ${status}, not 2\n${error}")
endif()
if(NOT error MATCHES "^fasttree-demo: [^\n]*\n$" OR NOT error MATCHES "${MESSAGE}")
  message(FATAL_ERROR "not one line with \"${MESSAGE}\":\n${error}")
endif()
foreach(file ${PICTURE} ${PICTURE}.partial)
  if(EXISTS ${file})
    message(FATAL_ERROR "left ${file}")
  endif()
endforeach()
