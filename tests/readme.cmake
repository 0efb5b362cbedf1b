# SPDX-License-Identifier: Apache-2.0
#
# Compiles every ```cpp block of README.md: a block with a main() as it is, and runs it; a fragment
# inside a function that begins with readme_context.hpp, where the names it uses are declared.

set(readme ${PROJECT_SOURCE_DIR}/README.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${readme})
file(READ ${readme} text)

set(count 0)
set(first_program "")
while(TRUE)
  string(FIND "${text}" "```cpp\n" begin)
  if(begin EQUAL -1)
    break()
  endif()
  math(EXPR begin "${begin} + 7")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} block)
  string(SUBSTRING "${text}" ${end} -1 text)

  math(EXPR count "${count} + 1")
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/readme/${count}.cpp)
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
#include \"readme_context.hpp\"
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
