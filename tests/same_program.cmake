# SPDX-License-Identifier: Apache-2.0
#
# Passes if PROGRAM and EXAMPLE are the same text, after the comment that a source file begins with.

cmake_minimum_required(VERSION 3.25)

foreach(file PROGRAM EXAMPLE)
  file(READ ${${file}} text_${file})
  string(REGEX REPLACE "^(//[^\n]*\n|\n)+" "" text_${file} "${text_${file}}")
endforeach()
if(NOT text_PROGRAM STREQUAL text_EXAMPLE)
  message("README.md has\n${text_PROGRAM}")
  message(FATAL_ERROR "which differs from ${EXAMPLE}")
endif()
