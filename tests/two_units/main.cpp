// SPDX-License-Identifier: Apache-2.0
// The whole library in two units of one program: what is defined in a header is inline or a template.

#include <fasttree/fasttree.hpp>

#include "attend.hpp"

float attend_in_other_unit();

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  return attend() == 1.f && attend_in_other_unit() == 1.f ? 0 : 1;
}
