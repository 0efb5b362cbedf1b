# SPDX-License-Identifier: Apache-2.0
#
# Checks the format of every C++ source. Other versions of clang-format than the pinned one disagree
# about details, so without it the check is skipped.

cmake_minimum_required(VERSION 3.25)

set(pinned 14)
find_program(clang_format NAMES clang-format-${pinned} clang-format)
if(clang_format)
  execute_process(COMMAND ${clang_format} --version OUTPUT_VARIABLE version)
endif()
if(NOT version MATCHES "version ${pinned}\\.")
  message("skipped: no clang-format ${pinned}")
  return()
endif()

file(GLOB_RECURSE sources ${ROOT}/include/*.hpp ${ROOT}/examples/*.[ch]pp ${ROOT}/tests/*.[ch]pp
     ${ROOT}/bench/*.[ch]pp ${ROOT}/examples/*.cu ${ROOT}/tests/*.cu)
foreach(source IN LISTS sources)
  execute_process(COMMAND ${clang_format} --dry-run --Werror ${source}
    ERROR_QUIET RESULT_VARIABLE differs)
  if(differs)
    string(APPEND differing " ${source}")
  endif()
endforeach()
if(differing)
  message("to be formatted: clang-format-${pinned} -i${differing}")
  message(FATAL_ERROR "format")
endif()
