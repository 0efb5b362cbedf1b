// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory that attention needs beside its inputs and outputs: partial results, the queue of work
// items, and the scratch of each team. One block, whose size can be asked before; the caller's own
// memory serves as well. One workspace serves any number of calls that follow each other, not calls
// that overlap.

#include <cstddef>
#include <cstdint>

#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree {

/// The items that teams take from one queue; both numbers are 0 between calls.
struct WorkQueue {
  int next = 0;      ///< the next task
  int finished = 0;  ///< teams that found no task left
};

/// Where the parts of a workspace lie, in bytes from its beginning.
struct WorkspaceLayout {
  static constexpr std::size_t alignment = 64;

  std::size_t partial_outputs, partial_log_sum_exps, scratch, bytes;

  /// \param partials, query_heads, value_dim  partial results, all of float
  /// \param teams, scratch_bytes              teams that run at once, and the scratch of each
  constexpr WorkspaceLayout(std::size_t partials, std::size_t query_heads, std::size_t value_dim,
                            std::size_t teams, std::size_t scratch_bytes)
      : partial_outputs(round_up(sizeof(WorkQueue), alignment)),
        partial_log_sum_exps(
            partial_outputs +
            round_up(partials * query_heads * value_dim * sizeof(float), alignment)),
        scratch(partial_log_sum_exps + round_up(partials * query_heads * sizeof(float), alignment)),
        bytes(scratch + teams * round_up(scratch_bytes, alignment)) {}
};

/// A block of memory of `Space`, aligned to WorkspaceLayout::alignment; begins with a WorkQueue.
template <class Space>
class Workspace {
 public:
  using Memory = Kokkos::View<std::byte*, Space>;

  /// Takes memory as it is: make_workspace also empties the queue.
  explicit Workspace(Memory memory) : memory_(memory) {
    require(memory_.extent(0) >= sizeof(WorkQueue), "Workspace", "memory.extent(0)",
            "room for a queue", memory_.extent(0));
    require(reinterpret_cast<std::uintptr_t>(memory_.data()) % WorkspaceLayout::alignment == 0,
            "Workspace", "memory.data()", "an address that is a multiple of 64", "another");
  }

  WorkQueue* queue() const { return reinterpret_cast<WorkQueue*>(memory_.data()); }
  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.extent(0); }

 private:
  Memory memory_;
};

}  // namespace fasttree
