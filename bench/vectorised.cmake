# SPDX-License-Identifier: Apache-2.0
#
# Passes if, in the x86 assembly of vectorised.cpp (ASSEMBLY, AT&T syntax), every function has a loop of
# fused multiply-adds, and every such loop works on whole REGISTER registers (ymm, zmm) and neither
# spills nor reloads one. A loop: from a label to a jump back to it.

cmake_minimum_required(VERSION 3.25)

file(STRINGS ${ASSEMBLY} lines)
set(function "")
set(functions "")
set(multiplied 0)   # multiply-adds up to this line
set(others 0)       # of them, those that do not work on whole registers
set(spilled 0)      # whole registers from or to the stack
foreach(line IN LISTS lines)
  if(line MATCHES "^([a-z][a-z_]*):")
    set(function ${CMAKE_MATCH_1})
    list(APPEND functions ${function})
    set(loops_${function} 0)
  elseif(line MATCHES "^(\\.L[A-Za-z0-9_]*):")
    set(${function}${CMAKE_MATCH_1} ${multiplied} ${others} ${spilled})
  elseif(line MATCHES "vfmadd")
    math(EXPR multiplied "${multiplied} + 1")
    if(NOT line MATCHES "vfmadd[0-9]*ps[ \t].*%${REGISTER}")
      math(EXPR others "${others} + 1")
    endif()
  endif()
  if(line MATCHES "%${REGISTER}" AND line MATCHES "\\(%r[sb]p")
    math(EXPR spilled "${spilled} + 1")
  endif()
  if(NOT line MATCHES "^[ \t]+j[a-z]+[ \t]+(\\.L[A-Za-z0-9_]*)")
    continue()
  endif()
  set(at_label ${${function}${CMAKE_MATCH_1}})
  if(NOT at_label)
    continue()  # a jump forwards
  endif()
  foreach(count IN ITEMS multiplied others spilled)
    list(POP_FRONT at_label before)
    math(EXPR in_loop_${count} "${${count}} - ${before}")
  endforeach()
  if(in_loop_multiplied GREATER 0)
    message(STATUS "${function}: a loop of ${in_loop_multiplied} multiply-adds")
    math(EXPR loops_${function} "${loops_${function}} + 1")
    if(in_loop_others GREATER 0)
      message(SEND_ERROR "${function}: ${in_loop_others} of them not on ${REGISTER} registers")
    endif()
    if(in_loop_spilled GREATER 0)
      message(SEND_ERROR "${function}: ${in_loop_spilled} registers from or to the stack in it")
    endif()
  endif()
endforeach()

if(NOT functions)
  message(FATAL_ERROR "no function in ${ASSEMBLY}")
endif()
foreach(function IN LISTS functions)
  if(loops_${function} EQUAL 0)
    message(SEND_ERROR "${function}: no loop of multiply-adds")
  endif()
endforeach()
