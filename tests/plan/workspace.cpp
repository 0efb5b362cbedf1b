// SPDX-License-Identifier: Apache-2.0
// The parts of a workspace: aligned, apart from each other, of the promised size in 64 bits.

#include <fasttree/plan/workspace.hpp>

#include <doctest/doctest.h>

using fasttree::WorkQueue;
using fasttree::WorkspaceLayout;

TEST_CASE("parts of a workspace are aligned and do not overlap") {
  for (std::size_t const partials : {0, 1, 3, 1000})
    for (std::size_t const scratch : {0, 4, 64, 1000}) {
      CAPTURE(partials);
      CAPTURE(scratch);
      WorkspaceLayout const at(partials, 5, 24, 3, scratch);
      CHECK(at.partial_outputs >= sizeof(WorkQueue));
      CHECK(at.partial_log_sum_exps >= at.partial_outputs + partials * 5 * 24 * 4);
      CHECK(at.scratch >= at.partial_log_sum_exps + partials * 5 * 4);
      CHECK(at.bytes >= at.scratch + 3 * scratch);
      for (std::size_t const part :
           {at.partial_outputs, at.partial_log_sum_exps, at.scratch, at.bytes})
        CHECK(part % WorkspaceLayout::alignment == 0);
    }
}

TEST_CASE("the size of a workspace beyond 4 GiB does not overflow") {
  WorkspaceLayout const at(1 << 20, 64, 256, 1, 0);
  CHECK(at.bytes >= (std::size_t{1} << 20) * 64 * 257 * 4);
}
