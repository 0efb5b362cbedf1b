# SPDX-License-Identifier: Apache-2.0
#
# One program per fuzz target. With FASTTREE_FUZZ, clang's fuzzer runs it for FASTTREE_FUZZ_SECONDS,
# starting from its corpus; otherwise a plain main() replays the corpus.

set(FASTTREE_FUZZ_SECONDS 600 CACHE STRING "How long each fuzz target runs")

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(REMOVE_ITEM sources ${CMAKE_CURRENT_LIST_DIR}/replay.cpp)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  set(corpus ${CMAKE_CURRENT_LIST_DIR}/corpus/${name})
  add_executable(fuzz.${name} ${source})
  target_link_libraries(fuzz.${name} PRIVATE fasttree_program)
  target_include_directories(fuzz.${name} PRIVATE ${PROJECT_SOURCE_DIR}/examples)
  if(FASTTREE_FUZZ)
    set(flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
    target_compile_options(fuzz.${name} PRIVATE ${flags})
    target_link_options(fuzz.${name} PRIVATE ${flags})
    # New inputs go to the first folder.
    set(found ${CMAKE_CURRENT_BINARY_DIR}/found/${name})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME fuzz.${name} COMMAND fuzz.${name} -max_total_time=${FASTTREE_FUZZ_SECONDS}
      -timeout=10 -artifact_prefix=${found}. ${found} ${corpus})
    math(EXPR timeout "${FASTTREE_FUZZ_SECONDS} + 60")
    set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT ${timeout})
  else()
    target_sources(fuzz.${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/replay.cpp)
    add_test(NAME fuzz.${name}.corpus COMMAND fuzz.${name} ${corpus})
    fasttree_set_test_properties(fuzz.${name}.corpus)
  endif()
endforeach()
