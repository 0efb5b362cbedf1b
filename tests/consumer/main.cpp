// SPDX-License-Identifier: Apache-2.0
// The least that a consumer does: include the library and run something of it.

#include <fasttree/tree_attention.hpp>
#include <fasttree/version.hpp>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  static_assert(FASTTREE_VERSION_MAJOR == 0 && FASTTREE_VERSION_MINOR == 1);
}
