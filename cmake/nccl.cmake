# SPDX-License-Identifier: Apache-2.0
#
# The target fasttree::nccl, where Kokkos has GPUs and NCCL is found, or RCCL with HIP: fasttree, and
# what comm/nccl_communicator.hpp needs. NCCL_ROOT says where to look. Shared by this build and by the
# installed package.

if(NOT Kokkos_DEVICES MATCHES "CUDA|HIP")
  return()
endif()
set(fasttree_nccl_library nccl)
set(fasttree_nccl_header nccl.h)
if("HIP" IN_LIST Kokkos_DEVICES)
  set(fasttree_nccl_library rccl)
  set(fasttree_nccl_header rccl/rccl.h)
endif()
find_package(CUDAToolkit QUIET)
find_path(FASTTREE_NCCL_INCLUDE ${fasttree_nccl_header}
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(FASTTREE_NCCL_LIBRARY ${fasttree_nccl_library}
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(FASTTREE_NCCL_INCLUDE FASTTREE_NCCL_LIBRARY)
if(FASTTREE_NCCL_INCLUDE AND FASTTREE_NCCL_LIBRARY AND NOT TARGET fasttree::nccl)
  add_library(fasttree_nccl INTERFACE)
  add_library(fasttree::nccl ALIAS fasttree_nccl)
  target_link_libraries(fasttree_nccl INTERFACE fasttree::fasttree ${FASTTREE_NCCL_LIBRARY})
  target_include_directories(fasttree_nccl SYSTEM INTERFACE ${FASTTREE_NCCL_INCLUDE})
endif()
