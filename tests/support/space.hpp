// SPDX-License-Identifier: Apache-2.0
#pragma once
// The execution space under test: the build compiles a test once for each.

#include <fasttree/core/kokkos.hpp>

namespace fasttree::test {

using Space = FASTTREE_TEST_SPACE;

}  // namespace fasttree::test
