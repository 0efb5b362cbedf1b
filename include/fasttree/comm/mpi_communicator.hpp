// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are processes, over MPI: messages between host memories. Only those who have MPI
// include it; in CMake, link fasttree::mpi.
//     MPI_Init(&argc, &argv);
//     fasttree::MpiCommunicator communicator(MPI_COMM_WORLD, std::chrono::seconds(10));

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/mpi_group.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree {

namespace detail {

/// The slots in which a rank receives, and twice as many copies of messages as it sends in an
/// exchange: when exchange e + 2 begins, all others have ended e, so what was sent in it is gone.
struct MpiWindow {
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::shared_ptr<MpiGroup> group;
  WindowShape shape;
  std::vector<Line> memory;
  std::vector<MPI_Request> requests;  ///< of the sends
  MPI_Request receipt = MPI_REQUEST_NULL;
  std::uint64_t exchange = 0;
  int sent = 0;  ///< in this exchange

  MpiWindow(std::shared_ptr<MpiGroup> of, WindowShape const& planned)
      : group(std::move(of)),
        shape(planned),
        memory(lines() * (2 * static_cast<std::size_t>(shape.sends) + shape.slots)),
        requests(2 * static_cast<std::size_t>(shape.sends), MPI_REQUEST_NULL) {}

  std::size_t lines() const { return ceil_div(shape.slot_bytes, sizeof(Line)); }
  std::size_t index_of_send(int i) const {
    return exchange % 2 * static_cast<std::size_t>(shape.sends) + static_cast<std::size_t>(i);
  }
  std::byte* copy(std::size_t send) { return place(send); }
  std::byte* slot(int i) { return place(requests.size() + static_cast<std::size_t>(i)); }
  std::byte* place(std::size_t i) { return memory.empty() ? nullptr : memory[i * lines()].bytes; }
};

/// Ends what it can: a window whose last messages do not leave by the deadline is kept.
struct EndMpiWindow {
  void operator()(MpiWindow* window) const {
    MpiGroup& group = *window->group;
    bool idle = true;
    if (mpi_runs()) {
      auto const until = std::exchange(group.until, MpiGroup::Clock::now());
      if (group.failure.empty()) group.until += group.deadline;
      try {
        for (MPI_Request& request : window->requests) idle = group.completes(request) && idle;
        idle = group.completes(window->receipt) && idle;
      } catch (Error const&) {
        idle = false;
      }
      group.until = until;
    }
    if (!idle) return keep_until_exit(window);
    delete window;
  }
};

}  // namespace detail

/// A rank of an MPI communicator. One thread at a time uses it, and it ends before MPI does.
///
/// After an `Error` nothing of it waits any more, and memory that MPI may still touch is kept until
/// the process ends. But MPI_Finalize would wait for the rank that is gone: end with MPI_Abort, or,
/// where the others are to live on, with std::_Exit.
class MpiCommunicator {
 public:
  /// The registered memory of an exchange.
  class Window {
    friend MpiCommunicator;
    std::unique_ptr<detail::MpiWindow, detail::EndMpiWindow> memory_;
  };

  /// Duplicates `communicator`. Collective. MPI must have been initialized, with any level of
  /// threads that lets the calling thread call it.
  ///
  /// \param deadline  most that any call takes: this one, plan, and from begin on all receives
  /// \param links     of ranks in nodes; the nodes have to be the same on all ranks
  ///
  /// Errors: `Error` unless MPI runs and there is time; where a rank does not take part by the
  /// deadline; where MPI reports one.
  MpiCommunicator(MPI_Comm communicator, std::chrono::nanoseconds deadline,
                  MpiLinks const& links = {})
      : group_(detail::make_mpi_group(communicator, deadline, links)) {}

  int rank() const { return group_->rank; }
  int size() const { return group_->size; }
  LinkCosts link() const { return topology().nodes() > 1 ? topology().between : topology().within; }
  Topology topology() const { return group_->topology; }

  /// See Communicator. Errors: also where ranks disagree about the shape, and on more bytes or
  /// slots than MPI counts (2^31 - 1 bytes).
  Window plan(WindowShape const& shape) {
    group_->begin_plan(shape);
    Window window;
    window.memory_.reset(new detail::MpiWindow(group_, shape));
    group_->agree_on(shape);
    return window;
  }

  void begin(Window& window) {
    group_->start();
    detail::MpiWindow& memory = *window.memory_;
    ++memory.exchange;
    memory.sent = 0;
    for (int i = 0; i < memory.shape.sends; ++i)
      if (!group_->completes(memory.requests[memory.index_of_send(i)]))
        group_->give_up_waiting("receipt of an earlier message");
  }

  void send(Window& window, int to, int slot, std::span<std::byte const> message) {
    detail::MpiWindow& memory = *window.memory_;
    group_->require_whole();
    require(message.size() <= memory.shape.slot_bytes, "MpiCommunicator", "message.size()",
            "no more than slot_bytes", message.size());
    require(memory.sent < memory.shape.sends, "MpiCommunicator", "sends",
            "no more in an exchange than were planned", memory.sent + 1);
    std::size_t const send = memory.index_of_send(memory.sent++);
    if (!message.empty()) std::memcpy(memory.copy(send), message.data(), message.size());
    group_->check(MPI_Isend(memory.copy(send), static_cast<int>(message.size()), MPI_BYTE, to, slot,
                            group_->communicator, &memory.requests[send]),
                  "MPI_Isend");
  }

  std::span<std::byte> receive(Window& window, int from, int slot, std::size_t bytes) {
    detail::MpiWindow& memory = *window.memory_;
    group_->require_whole();
    group_->check(MPI_Irecv(memory.slot(slot), static_cast<int>(memory.shape.slot_bytes), MPI_BYTE,
                            from, slot, group_->communicator, &memory.receipt),
                  "MPI_Irecv");
    MPI_Status status;
    if (!group_->completes(memory.receipt, &status)) {
      MPI_Cancel(&memory.receipt);  // its end is seen to where the window ends
      group_->give_up_waiting("rank " + std::to_string(from));
    }
    int received = 0;
    group_->check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
    if (static_cast<std::size_t>(received) != bytes)
      group_->give_up("message of rank " + std::to_string(from), std::to_string(bytes) + " bytes",
                      received);
    return {memory.slot(slot), bytes};
  }

 private:
  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(Communicator<MpiCommunicator>);

}  // namespace fasttree
