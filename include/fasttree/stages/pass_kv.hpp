// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stage of a ring of K,V: the shard at hand, packed in memory of its own beside the rank's
// cache, is sent to the next rank while that of the previous takes its place, message by message.
// So a rank has two shards and no more: its own and the one at hand. Heads are those of keys and
// values, which are never repeated for the queries of a group.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/cache/contiguous_cache.hpp>
#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/ring_schedule.hpp>
#include <fasttree/core/attention_shape.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/partials.hpp>
#include <fasttree/core/strided_array.hpp>

namespace fasttree {

/// Where the tokens of a rank's nodes lie: in its cache, and packed, node after node.
struct PackedNodes {
  std::vector<std::int64_t> cache_begins, packed_begins;  ///< of each node
};

/// A shard on its way around a ring.
///
/// The memory: the largest shard (as many rows of keys and of values as it has tokens), two numbers
/// for each node of the tree, and what the communicator registers for two messages.
template <class Space, Communicator Comm, class Shape>
class ShardAtHand {
 public:
  using Stored = typename Shape::element_type;

  /// Collective, with the same numbers on all ranks but for `nodes`, the rank's own.
  ///
  /// \param tokens         of each rank's shard
  /// \param message_bytes  most that are sent at once
  ///
  /// Errors: `Error` where message_bytes is no positive multiple of 64, and those of the
  /// communicator.
  ShardAtHand(Space const& space, Comm& communicator, Shape const& shape,
              std::vector<std::int64_t> tokens, PackedNodes const& nodes,
              std::int64_t message_bytes)
      : shape_(shape), tokens_(std::move(tokens)) {
    static_assert(runs_on_host<Space>,
                  "fasttree::ShardAtHand: rings are for host spaces alone: use a host space");
    if (message_bytes <= 0 || message_bytes % 64 != 0)
      fail("make_pass_kv_plan", "message_bytes", "a positive multiple of 64", message_bytes);
    std::int64_t const most = elements(*std::ranges::max_element(tokens_));
    message_ = std::min(message_bytes / size,
                        round_up<std::int64_t>(std::max<std::int64_t>(most, 1), 64 / size));
    messages_ = std::max<std::int64_t>(1, ceil_div(most, message_));
    shard_ = Kokkos::View<Stored*, Space>(
        Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "fasttree::pass_kv::shard"), most);
    cache_begins_ = on_device("fasttree::pass_kv::cache_begins", nodes.cache_begins);
    packed_begins_ = on_device("fasttree::pass_kv::packed_begins", nodes.packed_begins);
    window_ = communicator.plan({.slots = 2,
                                 .slot_bytes = static_cast<std::size_t>(message_ * size),
                                 .sends = 2,
                                 .purpose = purpose});
  }

  /// Bytes of the memory for a shard, and in how many messages each goes to the next rank.
  std::int64_t shard_bytes() const { return static_cast<std::int64_t>(shard_.extent(0)) * size; }
  std::int64_t messages_per_shard() const { return messages_; }

  /// Puts the rank's own shard at hand. Enqueues.
  template <KVCache Cache>
  void pack(Space const& space, Comm const& communicator, Cache const& cache) {
    at_hand_ = communicator.rank();
    StridedArray<Stored, 3> const keys = rows<Shape::head_dim>(0);
    StridedArray<Stored, 3> const values = rows<Shape::value_dim>(keys_at_hand());
    auto const cache_begins = cache_begins_, packed_begins = packed_begins_;
    int const heads = shape_.kv_heads;
    Kokkos::parallel_for(
        "fasttree::pass_kv::pack", Tokens(space, 0, tokens_[at_hand_]),
        KOKKOS_LAMBDA(std::int64_t token) {
          int low = 0, high = static_cast<int>(packed_begins.extent(0));
          while (high - low > 1) {  // the last node that begins here or before
            int const middle = low + (high - low) / 2;
            (packed_begins(middle) <= token ? low : high) = middle;
          }
          auto const from = cache.locate(cache_begins(low) + token - packed_begins(low));
          for (int head = 0; head < heads; ++head) {
            Stored const* const key = cache.key(from, head);
            Stored const* const value = cache.value(from, head);
            for (int i = 0; i < Shape::head_dim; ++i) keys(token, head, i) = key[i];
            for (int i = 0; i < Shape::value_dim; ++i) values(token, head, i) = value[i];
          }
        });
  }

  /// The shard at hand, its tokens packed.
  ContiguousCache<Stored> cache() const {
    return {as_const(rows<Shape::head_dim>(0)), as_const(rows<Shape::value_dim>(keys_at_hand()))};
  }

  /// Round `i` of the ring: sends the shard at hand on and puts the previous rank's in its place.
  /// What `work` enqueues, on the shard as it was, runs while the first message is on its way.
  /// Fences; waits no longer for a message than the communicator's deadline, in which `work` of
  /// every rank has to be done.
  template <class Work>
  void pass(Space const& space, Comm& communicator, int i, Work const& work) {
    RingRound const round = ring_round(communicator.rank(), communicator.size(), i);
    std::int64_t const sent = elements(tokens_[round.sent]);
    std::int64_t const received = elements(tokens_[round.received]);
    for (std::int64_t j = 0; j < messages_; ++j) {
      std::int64_t const begin = j * message_;
      auto const part = [&](std::int64_t of) {
        return std::clamp<std::int64_t>(of - begin, 0, message_);
      };
      space.fence();
      communicator.begin(window_);
      communicator.send(window_, round.next, shard_slot,
                        std::as_bytes(std::span<Stored const>(shard_.data() + begin, part(sent))));
      communicator.send(window_, round.previous, room_slot, {});
      if (j == 0) {
        work();
        space.fence();
      }
      auto const* const arrived = reinterpret_cast<Stored const*>(
          communicator.receive(window_, round.previous, shard_slot, part(received) * size).data());
      put(space, begin, arrived, part(received));
      communicator.receive(window_, round.next, room_slot, 0);
    }
    at_hand_ = round.received;
  }

 private:
  using Tokens = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
  static constexpr std::int64_t size = sizeof(Stored);
  static constexpr int shard_slot = 0, room_slot = 1;
  static constexpr std::uint64_t purpose = 1u << 16;  ///< no reduction's

  std::int64_t elements(std::int64_t tokens) const {
    return tokens * shape_.kv_heads * (Shape::head_dim + Shape::value_dim);
  }
  std::int64_t keys_at_hand() const {
    return tokens_[at_hand_] * shape_.kv_heads * Shape::head_dim;
  }

  template <int Dim>
  StridedArray<Stored, 3> rows(std::int64_t begin) const {
    std::int64_t const heads = shape_.kv_heads;
    return {shard_.data() + begin, {tokens_[at_hand_], heads, Dim}, {heads * Dim, Dim, 1}};
  }

  void put(Space const& space, std::int64_t begin, Stored const* arrived, std::int64_t count) {
    using Memory = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
    Kokkos::deep_copy(space, Kokkos::View<Stored*, Space, Memory>(shard_.data() + begin, count),
                      Kokkos::View<Stored const*, Space, Memory>(arrived, count));
  }

  static Kokkos::View<std::int64_t*, Space> on_device(char const* label,
                                                      std::vector<std::int64_t> const& numbers) {
    Kokkos::View<std::int64_t*, Space> result(std::string(label), numbers.size());
    std::ranges::copy(numbers, result.data());
    return result;
  }

  Shape shape_;
  std::vector<std::int64_t> tokens_;
  std::int64_t message_ = 0, messages_ = 1;  ///< elements of one, and how many for a shard
  int at_hand_ = 0;                          ///< whose shard it was
  Kokkos::View<Stored*, Space> shard_;
  Kokkos::View<std::int64_t*, Space> cache_begins_, packed_begins_;
  typename Comm::Window window_;
};

/// Copies outputs that are merged, of all shards, to (queries, query_heads, value_dim). Enqueues.
template <class Space, class Written>
void write_outputs(Space const& space, Partials<Space> const& merged,
                   StridedArray<Written, 3> const& output) {
  auto const outputs = merged.outputs;
  std::int64_t const heads = output.extents[1], dim = output.extents[2];
  Kokkos::parallel_for(
      "fasttree::pass_kv::write",
      Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0,
                                                                  output.extents[0] * heads),
      KOKKOS_LAMBDA(std::int64_t row) {
        std::int64_t const query = row / heads, head = row % heads;
        for (std::int64_t i = 0; i < dim; ++i)
          output(query, head, i) = static_cast<Written>(outputs(query, head, i));
      });
}

}  // namespace fasttree
