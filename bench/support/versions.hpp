// SPDX-License-Identifier: Apache-2.0
#pragma once
// Versions, as results files write them.

#include <string>

#include <fasttree/core/kokkos.hpp>
#include <fasttree/version.hpp>

namespace fasttree::bench {

inline std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

inline std::string fasttree_version() {
  return dotted(FASTTREE_VERSION_MAJOR, FASTTREE_VERSION_MINOR, FASTTREE_VERSION_PATCH);
}

inline std::string kokkos_version() {
  return dotted(KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100);
}

/// That which compiles host code.
inline std::string host_compiler() {
#if defined(__clang__)
  return __VERSION__;
#else
  return std::string("GCC ") + __VERSION__;
#endif
}

}  // namespace fasttree::bench
