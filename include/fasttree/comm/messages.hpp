// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages of a round between rows of floats in the memory of a space, by any communicator: one
// that moves that memory in the space's order; one that moves host memory, for a space of the host;
// or one such for a device, whose messages then pass through pinned memory of the host. Kernels
// find what has arrived by a table of slots.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/reduction_schedule.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree::detail {

/// Where the rows of a slot lie.
struct SlotRows {
  float* data;
};

/// A window for the exchanges of a schedule, with what a space needs beside it.
template <class Space, Communicator Comm>
class Messages {
 public:
  static constexpr bool ordered = CommunicatorOn<Comm, Space>;
  static constexpr bool staged = !ordered && !runs_on_host<Space>;

  Messages() = default;

  /// For slots of so many floats, and as many of a rank's own that are sent. Collective.
  Messages(Space const& space, Comm& communicator, ReductionSchedule const& schedule,
           std::int64_t slot_floats, std::int64_t own_floats, std::uint64_t purpose)
      : window_(communicator.plan({.slots = schedule.slots,
                                   .slot_bytes = slot_floats * sizeof(float),
                                   .sends = schedule.sends,
                                   .purpose = purpose})),
        slots_(Kokkos::view_alloc(space, "fasttree::reduce_shards::slots"), schedule.slots),
        slots_on_host_(Kokkos::create_mirror_view(slots_)) {
    using Kokkos::view_alloc;
    using Kokkos::WithoutInitializing;
    if constexpr (staged) {
      sent_ = decltype(sent_)(view_alloc(WithoutInitializing, "fasttree::reduce_shards::sent"),
                              own_floats);
      arrived_ =
          decltype(arrived_)(view_alloc(WithoutInitializing, "fasttree::reduce_shards::arrived"),
                             schedule.slots * slot_floats);
      received_ = decltype(received_)(
          view_alloc(space, WithoutInitializing, "fasttree::reduce_shards::received"),
          schedule.slots * slot_floats);
      for (int i = 0; i < schedule.slots; ++i)
        slots_on_host_(i).data = received_.data() + i * slot_floats;
    }
    if constexpr (ordered) connect(space, communicator, schedule);
    if constexpr (!runs_on_host<Space>) Kokkos::deep_copy(space, slots_, slots_on_host_);
    space.fence();
  }

  /// In the memory of `Space`; on the host the slots of the last round.
  SlotRows const* slots() const { return slots_.data(); }

  /// The same, of one slot, on the host.
  float const* slot(int i) const { return slots_on_host_(i).data; }

  void begin(Comm& communicator) { communicator.begin(window_); }

  /// Sends, then receives: into slots, or, if `ordered`, what replaces a rank's own rows into
  /// these. `floats_of(part)` are those of the rows of a part, within `own`.
  template <class FloatsOf>
  void move(Space const& space, Comm& communicator, ScheduledRound const& round, float const* own,
            FloatsOf const& floats_of) {
    if constexpr (staged) stage(space, round, own, floats_of);
    if constexpr (ordered) {
      communicator.begin_round(window_, space);
    } else {
      space.fence();  // what is sent has to be there
    }
    for (ScheduledMessage const& to : round.sends) {
      std::span<float const> message = floats_of(to.part);
      if constexpr (staged) message = {sent_.data() + (message.data() - own), message.size()};
      communicator.send(window_, to.peer, to.slot, std::as_bytes(message));
    }
    for (ScheduledMessage const& from : round.receives) {
      std::span<std::byte> const own_part = std::as_writable_bytes(floats_of(from.part));
      if constexpr (ordered)
        if (round.replaces) {
          communicator.receive_into(window_, from.peer, own_part);
          continue;
        }
      std::span<std::byte> const message =
          communicator.receive(window_, from.peer, from.slot, own_part.size());
      if constexpr (staged) {
        put_on_device(space, from.slot, message);
      } else if constexpr (!ordered) {
        slots_on_host_(from.slot).data = reinterpret_cast<float*>(message.data());
      }
    }
    if constexpr (ordered) communicator.end_round(window_);
  }

 private:
  template <class T, class Memory>
  using At = Kokkos::View<T*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  /// Sends a float of every message, so that later nothing has to be connected.
  void connect(Space const& space, Comm& communicator, ReductionSchedule const& schedule) {
    Kokkos::View<float*, Space> const nothing("fasttree::reduce_shards::connect", 1);
    communicator.begin(window_);
    for (ScheduledRound const& round : schedule.rounds) {
      communicator.begin_round(window_, space);
      std::span<float const> const message(nothing.data(), 1);
      for (ScheduledMessage const& to : round.sends)
        communicator.send(window_, to.peer, to.slot, std::as_bytes(message));
      for (ScheduledMessage const& from : round.receives)
        slots_on_host_(from.slot).data = reinterpret_cast<float*>(
            communicator.receive(window_, from.peer, from.slot, sizeof(float)).data());
      communicator.end_round(window_);
    }
    communicator.wait(space);
  }

  /// Copies what is sent to where the communicator reads it, each part once.
  template <class FloatsOf>
  void stage(Space const& space, ScheduledRound const& round, float const* own,
             FloatsOf const& floats_of) {
    int last = -1;
    for (ScheduledMessage const& to : round.sends) {
      if (std::exchange(last, to.part) == to.part) continue;
      std::span<float const> const floats = floats_of(to.part);
      Kokkos::deep_copy(space,
                        At<float, PinnedSpace>(sent_.data() + (floats.data() - own), floats.size()),
                        At<float const, Space>(floats.data(), floats.size()));
    }
  }

  void put_on_device(Space const& space, int slot, std::span<std::byte const> message) {
    float* const to = slots_on_host_(slot).data;
    float* const pinned = arrived_.data() + (to - received_.data());
    std::size_t const floats = message.size() / sizeof(float);
    std::memcpy(pinned, message.data(), message.size());
    Kokkos::deep_copy(space, At<float, Space>(to, floats),
                      At<float const, PinnedSpace>(pinned, floats));
  }

  typename Comm::Window window_;
  Kokkos::View<SlotRows*, Space> slots_;
  decltype(Kokkos::create_mirror_view(slots_)) slots_on_host_;
  Kokkos::View<float*, PinnedSpace> sent_, arrived_;  ///< if staged
  Kokkos::View<float*, Space> received_;              ///< if staged
};

}  // namespace fasttree::detail
