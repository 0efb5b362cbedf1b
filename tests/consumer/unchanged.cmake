# SPDX-License-Identifier: Apache-2.0
#
# Stops if fasttree has brought more into a consumer's project than itself.

foreach(variable CMAKE_CXX_STANDARD CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE)
  if(NOT "${${variable}}" STREQUAL "")
    message(FATAL_ERROR "fasttree has set ${variable}")
  endif()
endforeach()
foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS)
  get_target_property(value fasttree::fasttree INTERFACE_${property})
  if(value)
    message(FATAL_ERROR "fasttree has set ${property}: ${value}")
  endif()
endforeach()
if(TARGET fasttree_program)
  message(FATAL_ERROR "fasttree builds programs of its own")
endif()
