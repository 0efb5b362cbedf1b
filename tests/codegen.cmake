# SPDX-License-Identifier: Apache-2.0
#
# Compiles codegen/kernels.cu by NVCC for ARCHITECTURE, sm_80 or newer, with the headers in INCLUDES, and
# looks at what the assembler says: no register of any kernel is spilled, and no product of tensor cores waits
# for the one before it because the compiler could not keep them apart. Tensor cores are used, those of Hopper
# in code for sm_90a: seen in the machine code where nvdisasm is found, else in PTX.

cmake_minimum_required(VERSION 3.25)

set(source ${ROOT}/tests/codegen/kernels.cu)
set(folder ${BINARY}/codegen/${ARCHITECTURE})
file(MAKE_DIRECTORY ${folder})
list(REMOVE_ITEM INCLUDES /usr/include)  # which only the compiler may put into its order
list(TRANSFORM INCLUDES PREPEND -isystem=)
execute_process(
  COMMAND ${NVCC} -std=c++20 -O3 --expt-relaxed-constexpr -arch=${ARCHITECTURE} -Xptxas -v ${INCLUDES}
    -cubin --keep --keep-dir ${folder} -o ${folder}/kernels.cubin ${source}
  OUTPUT_VARIABLE report ERROR_VARIABLE report RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${report}")
endif()

set(kernel "^template struct Kernel<")
if(ARCHITECTURE STREQUAL "sm_89")
  string(APPEND kernel "([^1]|1[^9])*$")  # no heads of 192
endif()
file(STRINGS ${source} named REGEX "${kernel}")
list(LENGTH named named)
string(REGEX MATCHALL "Compiling entry function" compiled "${report}")
list(LENGTH compiled compiled)
string(REGEX MATCHALL "[0-9]+ bytes spill stores, [0-9]+ bytes spill loads" spills "${report}")
string(REGEX MATCHALL "Used [0-9]+ registers" registers "${report}")
list(LENGTH spills functions)
if(NOT compiled EQUAL named OR functions LESS named)
  message("${report}")
  message(FATAL_ERROR "${compiled} kernels and ${functions} functions instead of ${named}")
endif()
list(REMOVE_ITEM spills "0 bytes spill stores, 0 bytes spill loads")
if(spills)
  message("${report}")
  message(FATAL_ERROR "registers are spilled: ${spills}")
endif()
if(report MATCHES "Potential Performance Loss[^\n]*|[^\n]*setmaxnreg ignored[^\n]*|ptxas warning[^\n]*")
  message("${report}")
  message(FATAL_ERROR "${CMAKE_MATCH_0}")
endif()

cmake_path(GET NVCC PARENT_PATH beside_nvcc)
find_program(nvdisasm nvdisasm HINTS ${beside_nvcc})
if(nvdisasm)
  execute_process(COMMAND ${nvdisasm} --print-code ${folder}/kernels.cubin OUTPUT_FILE ${folder}/kernels.sass
    COMMAND_ERROR_IS_FATAL ANY)
  set(code ${folder}/kernels.sass)
  set(product " HMMA\\.")
  set(hopper_product " HGMMA\\.")
else()
  set(code ${folder}/kernels.ptx)
  set(product "mma\\.sync\\.aligned")
  set(hopper_product "wgmma\\.mma_async\\.")
endif()
if(ARCHITECTURE STREQUAL "sm_90a")
  set(product ${hopper_product})
endif()
file(STRINGS ${code} products REGEX "${product}")
list(LENGTH products products)
if(products EQUAL 0)
  message(FATAL_ERROR "${code}: nothing matches \"${product}\"")
endif()
list(REMOVE_DUPLICATES registers)
message("${ARCHITECTURE}: ${compiled} kernels, no spills, ${registers}; ${products} lines match "
  "\"${product}\" in ${code}")
