// SPDX-License-Identifier: Apache-2.0
// The parts of a workspace: aligned, apart from each other, of the promised size in 64 bits.

#include <fasttree/plan/workspace.hpp>

#include <doctest/doctest.h>

using fasttree::WorkQueue;
using fasttree::WorkspaceLayout;

TEST_CASE("parts of a workspace are aligned and do not overlap, in a block for any partials") {
  for (std::size_t const scratch : {0, 4, 64, 1000}) {
    WorkspaceLayout const at(5, 24, 3, scratch);
    CHECK(at.scratch() >= sizeof(WorkQueue));
    CHECK(at.scratch_bytes() >= scratch);
    CHECK(at.outputs() >= at.scratch() + 3 * at.scratch_bytes());
    for (std::size_t const partials : {0, 1, 3, 1000})
      for (std::size_t const spare : {0, 1, 500, 100000}) {
        CAPTURE(scratch);
        CAPTURE(partials);
        std::size_t const bytes = at.bytes(partials) + spare;
        CHECK(at.log_sum_exps(bytes) >= at.outputs() + partials * 5 * 24 * 4);
        CHECK(bytes >= at.log_sum_exps(bytes) + partials * 5 * 4);
        for (std::size_t const part :
             {at.scratch(), at.scratch_bytes(), at.outputs(), at.log_sum_exps(bytes)})
          CHECK(part % WorkspaceLayout::alignment == 0);
      }
  }
}

TEST_CASE("the size of a workspace beyond 4 GiB does not overflow") {
  WorkspaceLayout const at(64, 256, 1, 0);
  CHECK(at.bytes(1 << 20) >= (std::size_t{1} << 20) * 64 * 257 * 4);
}
