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
#include <fasttree/core/memory.hpp>
#include <fasttree/plan/attention_plan.hpp>

namespace fasttree {

/// The items that teams take from one queue; both numbers are 0 between calls.
struct WorkQueue {
  int next = 0;      ///< the next task
  int finished = 0;  ///< teams that found no task left
};

/// Where the parts of a workspace lie, in bytes from its beginning: the queue, the scratch of each
/// team, the outputs of partial results, their log-sum-exps, and how many of a row's have arrived,
/// all 0 between calls. Depends on the heads, the machine and
/// the size of the block, not on the plan that is run in it: a captured graph may be replayed with
/// another plan.
class WorkspaceLayout {
 public:
  static constexpr std::size_t alignment = 64;

  /// \param query_heads, value_dim  of partial results, all of float
  /// \param teams, scratch_bytes    teams that run at once, and the scratch of each
  constexpr WorkspaceLayout(std::size_t query_heads, std::size_t value_dim, std::size_t teams,
                            std::size_t scratch_bytes)
      : scratch_bytes_(round_up(scratch_bytes, alignment)),
        outputs_(scratch() + teams * scratch_bytes_),
        output_bytes_(query_heads * value_dim * sizeof(float)),
        row_bytes_(query_heads * sizeof(float)) {
    static_assert(sizeof(int) == sizeof(float));
  }

  /// Bytes of a block for this many partial results.
  constexpr std::size_t bytes(std::size_t partials) const {
    return outputs_ + alignment + partials * (output_bytes_ + 2 * row_bytes_);
  }

  constexpr std::size_t scratch() const { return round_up(sizeof(WorkQueue), alignment); }
  constexpr std::size_t scratch_bytes() const { return scratch_bytes_; }
  constexpr std::size_t outputs() const { return outputs_; }
  /// In a block of this many bytes, no fewer than bytes(0).
  constexpr std::size_t log_sum_exps(std::size_t bytes) const {
    return outputs_ + round_up(partials(bytes) * output_bytes_, alignment);
  }
  constexpr std::size_t arrivals(std::size_t bytes) const {
    return log_sum_exps(bytes) + partials(bytes) * row_bytes_;
  }
  constexpr std::size_t arrival_bytes(std::size_t bytes) const {
    return partials(bytes) * row_bytes_;
  }

  friend constexpr bool operator==(WorkspaceLayout const&, WorkspaceLayout const&) = default;

 private:
  /// Partial results for which a block has room.
  constexpr std::size_t partials(std::size_t bytes) const {
    return (bytes - outputs_ - alignment) / (output_bytes_ + 2 * row_bytes_);
  }

  std::size_t scratch_bytes_, outputs_, output_bytes_, row_bytes_;
};

/// A block of memory of `Space`, aligned to WorkspaceLayout::alignment; see make_workspace.
template <class Space>
class Workspace {
 public:
  using Memory = fasttree::Memory<Space>;

  WorkQueue* queue() const { return reinterpret_cast<WorkQueue*>(memory_.data()); }
  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.size(); }
  WorkspaceLayout const& layout() const { return layout_; }

 private:
  template <class S, class Shape, class Backend>
  friend Workspace<S> make_workspace(S const&, AttentionPlan<S, Shape, Backend> const&,
                                     typename Workspace<S>::Memory);

  /// Takes memory as it is; the queue in it must be emptied.
  Workspace(Memory memory, WorkspaceLayout const& layout) : memory_(memory), layout_(layout) {
    require(reinterpret_cast<std::uintptr_t>(memory_.data()) % WorkspaceLayout::alignment == 0,
            "make_workspace", "memory.data()", "an address that is a multiple of 64", "another");
  }

  Memory memory_;
  WorkspaceLayout layout_;
};

}  // namespace fasttree
