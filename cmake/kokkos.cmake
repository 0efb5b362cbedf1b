# SPDX-License-Identifier: Apache-2.0
#
# Brings the target Kokkos::kokkos and says in one line which Kokkos that is. In this order:
#   find     find_package: a site's module, Spack, conda, Kokkos_ROOT
#   release  the upstream release, pinned by hash, where the network has it
#   pypi     the copy inside the Kokkos team's Python bindings, pinned by hash
# The last two are built once, with Serial and what FASTTREE_KOKKOS_SPACES asks for, into
# FASTTREE_KOKKOS_DIR, and are found there from then on.

set(FASTTREE_KOKKOS_MINIMUM 3.4.01)
set(FASTTREE_KOKKOS_FROM find release pypi CACHE STRING "Where to take Kokkos from, in this order")
set(FASTTREE_KOKKOS_SPACES "" CACHE STRING "Execution spaces that Kokkos must have; empty for any")
set(FASTTREE_KOKKOS_DIR ${PROJECT_BINARY_DIR}/kokkos CACHE PATH "Where a Kokkos built here is kept")
set(FASTTREE_KOKKOS_URL https://github.com/kokkos/kokkos/releases/download/5.0.2/kokkos-5.0.2.tar.gz
    CACHE STRING "The upstream release")
set(FASTTREE_KOKKOS_SHA256 188817bb452ca805ee8701f1c5adbbb4fb83dc8d1c50624566a18a719ba0fa5e
    CACHE STRING "Its SHA-256")
set(fasttree_pypi_version 0.0.7)  # of pykokkos-base; carries Kokkos 3.4.01
set(fasttree_pypi_sha256 6339daced1e81a2748f381847d8717cd77d824407da3c263b9491b5630c642b0)

# Each of these two puts an archive into `folder` and sets `archive` and `sha256`, or `fault`.

function(fasttree_download_release folder)
  set(archive ${folder}/kokkos.tar.gz)
  # One byte first, so that a network that swallows packets costs ten seconds and not minutes.
  file(DOWNLOAD ${FASTTREE_KOKKOS_URL} ${archive} RANGE_START 0 RANGE_END 0 TIMEOUT 10 STATUS status)
  if(status MATCHES "^0;")
    file(DOWNLOAD ${FASTTREE_KOKKOS_URL} ${archive} INACTIVITY_TIMEOUT 30 STATUS status)
  endif()
  if(NOT status MATCHES "^0;")
    list(GET status 1 reason)
    set(fault ${reason} PARENT_SCOPE)
  endif()
  set(archive ${archive} PARENT_SCOPE)
  set(sha256 ${FASTTREE_KOKKOS_SHA256} PARENT_SCOPE)
endfunction()

function(fasttree_download_pypi folder)
  find_program(FASTTREE_PYTHON NAMES python3 python)
  mark_as_advanced(FASTTREE_PYTHON)
  if(NOT FASTTREE_PYTHON)
    set(fault "no python3" PARENT_SCOPE)
    return()
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TMPDIR=${folder} ${FASTTREE_PYTHON} -m pip download
      --disable-pip-version-check --no-cache-dir --no-deps --no-binary pykokkos-base
      --dest ${folder} pykokkos-base==${fasttree_pypi_version}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed)
    string(STRIP "${output}" output)
    string(REGEX REPLACE ".*\n" "" output "${output}")
    set(fault "pip download: ${output}" PARENT_SCOPE)
  endif()
  set(archive ${folder}/pykokkos-base-${fasttree_pypi_version}.tar.gz PARENT_SCOPE)
  set(sha256 ${fasttree_pypi_sha256} PARENT_SCOPE)
endfunction()

# Builds Kokkos from `origin` into `prefix`; sets `fault` to what keeps it from being had, or to empty.
function(fasttree_build_kokkos origin prefix spaces)
  set(folder ${prefix}-source)
  file(REMOVE_RECURSE ${prefix} ${folder})
  file(MAKE_DIRECTORY ${folder})
  message(STATUS "fasttree: Kokkos from ${origin}: downloading")
  set(fault "")
  cmake_language(CALL fasttree_download_${origin} ${folder})
  if(fault STREQUAL "")
    file(SHA256 ${archive} found_sha256)
    if(NOT found_sha256 STREQUAL sha256)
      set(fault "wrong SHA-256, ${archive} has ${found_sha256}")
    endif()
  endif()
  if(NOT fault STREQUAL "")
    message(STATUS "fasttree: Kokkos from ${origin}: not to be had, ${fault}")
    file(REMOVE_RECURSE ${folder})
    set(fault "${fault}" PARENT_SCOPE)
    return()
  endif()

  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder})
  file(GLOB source ${folder}/*/Makefile.kokkos ${folder}/*/external/kokkos/Makefile.kokkos)
  cmake_path(GET source PARENT_PATH source)
  list(TRANSFORM spaces TOUPPER)
  list(TRANSFORM spaces REPLACE "(.+)" "-DKokkos_ENABLE_\\1=ON")
  message(STATUS "fasttree: Kokkos from ${origin}: building, half a minute or so on two cores")
  # Kokkos 3.4 warns about itself under C++20, and from g++ 13 on lacks an include.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${source} -B ${folder}/build -G ${CMAKE_GENERATOR} -Wno-dev
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -DCMAKE_CXX_STANDARD=20 "-DCMAKE_CXX_FLAGS=-w -include cstdint"
      -DCMAKE_INSTALL_PREFIX=${prefix} -DCMAKE_INSTALL_LIBDIR=lib
      -DCMAKE_INSTALL_MESSAGE=NEVER -DKokkos_ENABLE_SERIAL=ON ${spaces}
    OUTPUT_FILE ${folder}/configure.log ERROR_FILE ${folder}/configure.log RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "fasttree: no Kokkos: ${folder}/configure.log says why")
  endif()
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  execute_process(
    COMMAND ${CMAKE_COMMAND} --build ${folder}/build --target install --parallel ${cores}
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "fasttree: no Kokkos: it does not build with ${CMAKE_CXX_COMPILER}")
  endif()
  file(REMOVE_RECURSE ${folder})
  file(TOUCH ${prefix}/complete)
  set(fault "" PARENT_SCOPE)
endfunction()

# Sets Kokkos_DIR, from the first of FASTTREE_KOKKOS_FROM that has a Kokkos.
function(fasttree_locate_kokkos)
  set(origins ${FASTTREE_KOKKOS_FROM})
  if("find" IN_LIST origins)
    list(REMOVE_ITEM origins find)
    add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/find_kokkos ${PROJECT_BINARY_DIR}/find_kokkos)
    if(fasttree_found)
      return()
    endif()
  endif()

  set(spaces ${FASTTREE_KOKKOS_SPACES})
  if(NOT spaces)
    set(spaces OpenMP)
  endif()
  string(MAKE_C_IDENTIFIER
    "${spaces}-${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}" variant)
  file(LOCK ${FASTTREE_KOKKOS_DIR} DIRECTORY GUARD FUNCTION)
  foreach(origin IN LISTS origins)
    set(prefix ${FASTTREE_KOKKOS_DIR}/${origin}-${variant})
    if(EXISTS ${prefix}/complete)
      set(Kokkos_DIR ${prefix}/lib/cmake/Kokkos CACHE PATH "" FORCE)
      return()
    endif()
  endforeach()
  foreach(origin IN LISTS origins)
    set(prefix ${FASTTREE_KOKKOS_DIR}/${origin}-${variant})
    fasttree_build_kokkos(${origin} ${prefix} "${spaces}")
    if(fault STREQUAL "")
      set(Kokkos_DIR ${prefix}/lib/cmake/Kokkos CACHE PATH "" FORCE)
      return()
    endif()
    string(APPEND faults "\n  ${origin}: ${fault}")
  endforeach()
  message(FATAL_ERROR "fasttree: no Kokkos was found (Kokkos_ROOT says where one is), and${faults}")
endfunction()

if(NOT TARGET Kokkos::kokkos)
  fasttree_locate_kokkos()
  find_package(Kokkos REQUIRED CONFIG QUIET)
  list(JOIN Kokkos_DEVICES " " spaces)
  message(STATUS "fasttree: Kokkos ${Kokkos_VERSION} (${spaces}) from ${Kokkos_DIR}")
endif()
