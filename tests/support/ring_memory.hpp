// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a ring of K,V and the tree reduction take beside the caches of ranks that are threads: all
// views that are allocated for a plan and its workspace, and the windows of the communicator.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <fasttree/ring_attention.hpp>
#include "ranks.hpp"
#include "tools.hpp"

namespace fasttree::test {

/// A communicator that adds up what its windows take: in two sets of slots.
class WeighedCommunicator {
 public:
  using Window = InProcessCommunicator::Window;

  explicit WeighedCommunicator(InProcessCommunicator& of) : of_(&of) {}

  int rank() const { return of_->rank(); }
  int size() const { return of_->size(); }
  LinkCosts link() const { return of_->link(); }
  std::int64_t window_bytes() const { return window_bytes_; }

  Window plan(WindowShape const& shape) {
    window_bytes_ += 2 * shape.slots * static_cast<std::int64_t>(shape.slot_bytes);
    return of_->plan(shape);
  }
  void begin(Window& window) { of_->begin(window); }
  void send(Window& window, int to, int slot, std::span<std::byte const> message) {
    of_->send(window, to, slot, message);
  }
  std::span<std::byte> receive(Window& window, int from, int slot, std::size_t bytes) {
    return of_->receive(window, from, slot, bytes);
  }

 private:
  InProcessCommunicator* of_;
  std::int64_t window_bytes_ = 0;
};

/// What a plan of all ranks takes beside their caches, with its workspace and the windows.
template <class MakePlan>
std::int64_t plan_bytes(int ranks, MakePlan const& make_plan_of) {
  std::atomic<std::int64_t> bytes = 0;
  AllocatedBytes const views;
  run_in_process(Space{}, ranks, long_deadline, [&](InProcessCommunicator& communicator) {
    WeighedCommunicator weighed(communicator);
    make_plan_of(weighed);
    bytes += weighed.window_bytes();
  });
  return bytes + views.all();
}

/// Bytes of all ranks.
struct RingMemory {
  std::int64_t ring, tree, shards;
};

/// Of a sequence of t tokens on each rank.
inline RingMemory ring_memory(int ranks, int t) {
  using Shape = AttentionShape<float, 16>;
  int const parents[] = {-1}, lengths[] = {ranks * t};
  Request const requests[] = {{0}};
  PrefixTree const tree(parents, lengths, requests);
  Shape const shape{.query_heads = 4, .kv_heads = 2};
  RingMemory result{};
  result.shards = std::int64_t{ranks} * t * shape.kv_heads * 2 * 16 * sizeof(float);
  result.ring = plan_bytes(ranks, [&](WeighedCommunicator& communicator) {
    auto const plan =
        make_pass_kv_plan(Space{}, communicator, tree, ContiguousShards{}, shape, 1024);
    make_workspace(Space{}, plan);
  });
  result.tree = plan_bytes(ranks, [&](WeighedCommunicator& communicator) {
    ShardOf const me{communicator.rank(), communicator.size()};
    auto const plan =
        make_distributed_plan(Space{}, communicator, shard_tree(tree, ContiguousShards{}, me),
                              shape, ReductionAlgorithm::tree);
    make_workspace(Space{}, plan.attention);
  });
  return result;
}

}  // namespace fasttree::test
