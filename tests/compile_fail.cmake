# SPDX-License-Identifier: Apache-2.0
#
# Passes if SOURCE does not compile and the compiler's output matches the regular expression of its
# line "// expect: <regex>", and if SOURCE does compile with -DFASTTREE_CONTROL, which takes the error
# away: then it is that error, and no other, that stops the compiler.

cmake_minimum_required(VERSION 3.25)

file(STRINGS ${SOURCE} expect REGEX "^// expect: ")
string(REGEX REPLACE "^// expect: " "" expect "${expect}")
if(expect STREQUAL "")
  message(FATAL_ERROR "${SOURCE} has no line \"// expect: <regex>\"")
endif()

file(READ ${BINARY}/compile_commands.json commands)
string(JSON last LENGTH "${commands}")
math(EXPR last "${last} - 1")
foreach(i RANGE ${last})
  string(JSON file GET "${commands}" ${i} file)
  if(file STREQUAL SOURCE)
    string(JSON command GET "${commands}" ${i} command)
  endif()
endforeach()
separate_arguments(command UNIX_COMMAND "${command}")

execute_process(COMMAND ${command} -fsyntax-only -DFASTTREE_CONTROL
  WORKING_DIRECTORY ${BINARY} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
if(failed)
  message("${output}")
  message(FATAL_ERROR "does not compile even with FASTTREE_CONTROL")
endif()

execute_process(COMMAND ${command} -fsyntax-only
  WORKING_DIRECTORY ${BINARY} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
if(NOT failed)
  message(FATAL_ERROR "compiles")
elseif(NOT output MATCHES "${expect}")
  message("${output}")
  message(FATAL_ERROR "no match for \"${expect}\"")
endif()
