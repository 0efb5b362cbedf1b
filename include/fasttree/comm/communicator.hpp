// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a communicator is: it moves messages between ranks, and knows nothing of what is in them.
// Who sends what to whom, and when, is a schedule (comm/reduction_schedule.hpp): data, the same for
// all transports. Memory is registered once, in `plan`; after that nothing allocates, and nothing
// waits beyond a deadline: where a rank is dead or late, every other rank gets an `Error`.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fasttree {

/// The memory in which a rank receives: slots of one size, one for each message that it gets in one
/// exchange; and how many messages a rank sends in one at most. Ranks agree on all of it.
struct WindowShape {
  int slots = 0;
  std::size_t slot_bytes = 0;
  int sends = 0;
  std::uint64_t purpose = 0;  ///< any number on which ranks have to agree as well

  friend constexpr bool operator==(WindowShape const&, WindowShape const&) = default;
};

namespace detail {

inline std::string describe(WindowShape const& shape) {
  return std::to_string(shape.slots) + " slots of " + std::to_string(shape.slot_bytes) +
         " bytes for purpose " + std::to_string(shape.purpose);
}

}  // namespace detail

/// What messages cost: us until one arrives, bytes per us that a rank sends, and us for which each
/// keeps it from sending others.
struct LinkCosts {
  double latency = 1;
  double rate = 10e3;
  double message = 0.1;
};

/// What an exchange moves. A round is to send messages and then to wait for some; the rounds of an
/// exchange are the most that any rank takes part in.
struct Traffic {
  std::int64_t rounds = 0;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;

  friend constexpr bool operator==(Traffic const&, Traffic const&) = default;
};

/// A communicator, one object for each rank. Each rank's calls of `plan` and `begin` follow each
/// other in the same order.
///
///  - rank(), size(): the ranks are 0 to size() - 1; their order is that in which results merge.
///  - link(): what messages cost; where links differ, between nodes. A communicator that knows its
///    nodes says more by a member topology() (comm/topology.hpp).
///  - plan(shape): collective; allocates and registers a Window.
///  - begin(window): begins an exchange, and the time until its deadline. What a rank gets must
///    depend, directly or not, on messages of all to which it sends: then these have ended the
///    exchange before, and two sets of slots are enough.
///  - send(window, to, slot, message): puts a message into a slot of rank `to`. Does not wait; the
///    memory of the message may be reused at once. Each slot takes one message per exchange.
///  - receive(window, from, slot, bytes): waits for it. What it returns is the caller's, aligned to
///    64 bytes, until the next exchange begins.
///
/// Errors of plan, begin, send and receive: `Error` where a rank has left, has failed, or is not
/// heard of by the deadline; from then on every call on every rank throws, but for receiving what
/// had arrived. A rank may learn of another's failure as late as at its own deadline.
template <class Candidate>
concept Communicator = requires(Candidate& communicator, Candidate const& asked,
                                typename Candidate::Window& window, WindowShape const& shape,
                                int rank, int slot, std::span<std::byte const> message,
                                std::size_t bytes) {
  { asked.rank() } -> std::same_as<int>;
  { asked.size() } -> std::same_as<int>;
  { asked.link() } -> std::same_as<LinkCosts>;
  { communicator.plan(shape) } -> std::same_as<typename Candidate::Window>;
  communicator.begin(window);
  communicator.send(window, rank, slot, message);
  { communicator.receive(window, rank, slot, bytes) } -> std::same_as<std::span<std::byte>>;
};

/// A communicator that moves memory of `Space`, in the order of what is enqueued on an instance.
///
///  - receive_into(window, from, memory): the same as receive, into memory of the caller's.
///  - begin_round(window, space), end_round(window): around the sends and then the receives of a
///    round. Those do not wait: messages move when what was enqueued on `space` before is done, and
///    what is enqueued after end_round finds them there. A slot lies at the same place always.
///  - wait(space): waits for all that is enqueued there, no longer than the deadline.
///
/// What goes wrong with a message that was enqueued is an `Error` of `wait`, and of every call
/// after it is known; what was received is undefined then.
template <class Candidate, class Space>
concept CommunicatorOn = Communicator<Candidate> &&
    requires(Candidate& communicator, typename Candidate::Window& window, Space const& space,
             int rank, std::span<std::byte> memory) {
  communicator.receive_into(window, rank, memory);
  communicator.begin_round(window, space);
  communicator.end_round(window);
  communicator.wait(space);
};

}  // namespace fasttree
