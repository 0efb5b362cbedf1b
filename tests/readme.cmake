# SPDX-License-Identifier: Apache-2.0
#
# Compiles every ```cpp block of README.md: a block with a main() as it is, and runs it; a fragment
# inside a function that begins with readme_context.hpp, where the names it uses are declared. Fragments
# in ```cuda blocks begin with readme_stream_context.hpp, and are compiled where there is nvcc.

set(readme ${PROJECT_SOURCE_DIR}/README.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${readme})
file(READ ${readme} text)

set(count 0)
set(first_program "")
while(TRUE)
  if(NOT text MATCHES "```(cpp|cuda)\n")
    break()
  endif()
  set(language ${CMAKE_MATCH_1})
  string(FIND "${text}" "${CMAKE_MATCH_0}" begin)
  string(LENGTH "${CMAKE_MATCH_0}" fence)
  math(EXPR begin "${begin} + ${fence}")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} block)
  string(SUBSTRING "${text}" ${end} -1 text)

  math(EXPR count "${count} + 1")
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/readme/${count}.cpp)
  set(context readme_context.hpp)
  if(language STREQUAL "cuda")
    if(NOT FASTTREE_NVCC)
      continue()
    endif()
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/readme/${count}.cu)
    set(context readme_stream_context.hpp)
  endif()
  if(block MATCHES "int main\\(")
    file(CONFIGURE OUTPUT ${unit} CONTENT "${block}" @ONLY)
    add_executable(readme.${count} ${unit})
    add_test(NAME readme.${count} COMMAND readme.${count})
    fasttree_set_test_properties(readme.${count})
    if(NOT first_program)
      set(first_program ${unit})
    endif()
  else()
    string(REGEX MATCHALL "#include <[^>]+>" includes "${block}")
    list(JOIN includes "\n" includes)
    string(REGEX REPLACE "#include <[^>]+>" "" block "${block}")
    file(CONFIGURE OUTPUT ${unit} @ONLY CONTENT "#include <fasttree/fasttree.hpp>\n${includes}
void readme_fragment() {
#include \"${context}\"
  {
${block}
  }
}\n")
    add_library(readme.${count} OBJECT ${unit})
    target_include_directories(readme.${count} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  target_link_libraries(readme.${count} PRIVATE fasttree_program)
endwhile()

add_test(NAME readme.first_program_is_first_example
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=${first_program} -DEXAMPLE=${PROJECT_SOURCE_DIR}/examples/first.cpp
    -P ${CMAKE_CURRENT_SOURCE_DIR}/same_program.cmake)
