# SPDX-License-Identifier: Apache-2.0
#
# What is tested about the sources themselves: layers, format, headers alone, consumers, README, what
# must not compile, and the machine code of the kernels for NVIDIA GPUs.

get_property(other_tests DIRECTORY PROPERTY TESTS)
set(cmake_script ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DBINARY=${PROJECT_BINARY_DIR})

add_test(NAME sources.architecture
  COMMAND ${cmake_script} -P ${CMAKE_CURRENT_SOURCE_DIR}/architecture.cmake)
add_test(NAME sources.architecture_check_notices
  COMMAND ${cmake_script} -P ${CMAKE_CURRENT_SOURCE_DIR}/architecture_check_notices.cmake)
add_test(NAME sources.format COMMAND ${cmake_script} -P ${CMAKE_CURRENT_SOURCE_DIR}/format.cmake)
set_tests_properties(sources.format PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")

# Every header alone, and a second time after itself.
add_library(fasttree_headers OBJECT EXCLUDE_FROM_ALL)
target_link_libraries(fasttree_headers PRIVATE fasttree::fasttree fasttree_warnings)
target_compile_options(fasttree_headers PRIVATE -O0)
foreach(transport mpi nccl)
  if(TARGET fasttree::${transport})
    target_link_libraries(fasttree_headers PRIVATE fasttree::${transport})
  endif()
endforeach()
foreach(header IN LISTS headers)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/include)
  if(header MATCHES "/backend/cuda/" AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
    continue()
  elseif(header MATCHES "/comm/(mpi|nccl)_" AND NOT TARGET fasttree::${CMAKE_MATCH_1})
    continue()
  endif()
  string(REPLACE .hpp .cpp unit headers/${header})
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include <${header}>\n#include <${header}>\n")
  target_sources(fasttree_headers PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${unit})
endforeach()
add_test(NAME headers.alone_and_twice
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target fasttree_headers)
set_tests_properties(headers.alone_and_twice PROPERTIES TIMEOUT 600 RESOURCE_LOCK build)

# The whole library in two units of one program.
add_executable(headers.two_units two_units/main.cpp two_units/other.cpp)
target_link_libraries(headers.two_units PRIVATE fasttree_program fasttree_warnings)
add_test(NAME headers.two_units COMMAND headers.two_units)

# Projects that use the library.
foreach(way find_package add_subdirectory)
  add_test(NAME consumer.${way}
    COMMAND ${cmake_script} -DWAY=${way} -DKokkos_DIR=${Kokkos_DIR} -DGENERATOR=${CMAKE_GENERATOR}
      -DCXX=${CMAKE_CXX_COMPILER} -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/run.cmake)
  set_tests_properties(consumer.${way} PROPERTIES TIMEOUT 300)
endforeach()

# Sources that must not compile; a library that is never built, for the compiler's command line.
file(GLOB sources CONFIGURE_DEPENDS compile_fail/*.cpp)
add_library(fasttree_compile_fail OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(fasttree_compile_fail PRIVATE fasttree::fasttree)
set_target_properties(fasttree_compile_fail PROPERTIES EXPORT_COMPILE_COMMANDS ON LINKER_LANGUAGE CXX)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  add_test(NAME compile_fail.${name}
    COMMAND ${cmake_script} -DSOURCE=${source} -P ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail.cmake)
endforeach()

# Kernels for GPUs that need not be there: an A100, an RTX 4090, an H100.
foreach(architecture sm_80 sm_89 sm_90a)
  if(NOT FASTTREE_NVCC)
    fasttree_skip_without(codegen.${architecture} nvcc)
    continue()
  endif()
  add_test(NAME codegen.${architecture}
    COMMAND ${cmake_script} -DNVCC=${FASTTREE_NVCC} -DARCHITECTURE=${architecture}
      "-DINCLUDES=$<TARGET_PROPERTY:fasttree_headers,INCLUDE_DIRECTORIES>"
      -P ${CMAKE_CURRENT_SOURCE_DIR}/codegen.cmake)
  set_tests_properties(codegen.${architecture} PROPERTIES TIMEOUT 300)
endforeach()

include(readme.cmake)

get_property(checks DIRECTORY PROPERTY TESTS)
list(REMOVE_ITEM checks ${other_tests})
set_tests_properties(${checks} PROPERTIES LABELS sources)
