// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are processes, over MPI: messages between host memories. Only this header includes
// <mpi.h>, and only those who have MPI include it; in CMake, link fasttree::mpi. Nothing here waits
// in an MPI call: a request is tested until it is complete or the deadline has passed, since a rank
// that is stopped or dead raises no error in MPI.
//     MPI_Init(&argc, &argv);
//     fasttree::MpiCommunicator communicator(MPI_COMM_WORLD, std::chrono::seconds(10));

// Without MPI's own C++ classes, for which a program would have to link another library.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree {

namespace detail {

/// Keeps what MPI may still read or write until the process ends: a request that a rank which is
/// gone will never complete cannot be freed, nor its memory.
template <class T>
void keep_until_exit(T* memory) {
  static auto& kept = *new std::vector<std::unique_ptr<T>>;
  kept.emplace_back(memory);
}

inline bool mpi_runs() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// A duplicate of the caller's communicator, whose errors are returned, and the clock of its calls.
struct MpiGroup {
  using Clock = std::chrono::steady_clock;

  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0, size = 1;
  std::chrono::nanoseconds deadline{};
  Topology topology;
  Clock::time_point until{};
  std::string failure;

  /// Begins the time until the deadline.
  void start() {
    require_whole();
    until = Clock::now() + deadline;
  }

  void require_whole() const {
    if (!failure.empty()) throw Error(failure);
  }

  /// Every call throws this from now on.
  template <class Expected, class Found>
  [[noreturn]] void give_up(std::string const& argument, Expected const& expected,
                            Found const& found) {
    try {
      fail("MpiCommunicator", argument, expected, found);
    } catch (Error const& error) {
      failure = error.what();
    }
    throw Error(failure);
  }

  void check(int code, char const* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    give_up(call, "success", std::string(text, length));
  }

  /// Whether the request is complete by the deadline; it is tested at least once.
  bool completes(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
    auto const begin = Clock::now();
    for (;;) {
      int done = 0;
      check(MPI_Test(&request, &done, status), "MPI_Test");
      if (done != 0) return true;
      auto const now = Clock::now();
      if (now >= until) return false;
      leave_core_to_others(now - begin);
    }
  }

  /// There may be more ranks than cores. Who has waited long sleeps a little: one that only yields
  /// gets the core back as late as everyone who computes, one that sleeps as soon as it wakes.
  static void leave_core_to_others(Clock::duration waited) {
    using std::chrono::milliseconds;
    if (waited < milliseconds(1)) return std::this_thread::yield();
    std::this_thread::sleep_for(std::min<Clock::duration>(waited / 64, milliseconds(1)));
  }

  [[noreturn]] void give_up_waiting(std::string const& whom) {
    double const seconds = std::chrono::duration<double>(deadline).count();
    give_up(whom, "a message within " + std::to_string(seconds) + " s", "none");
  }
};

/// Has the caller's communicator return errors while this lives: those of a request are those of
/// the communicator that it was made by.
class MpiErrorsReturned {
 public:
  explicit MpiErrorsReturned(MPI_Comm communicator) : communicator_(communicator) {
    MPI_Comm_get_errhandler(communicator, &callers_);
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  }
  ~MpiErrorsReturned() {
    MPI_Comm_set_errhandler(communicator_, callers_);
    MPI_Errhandler_free(&callers_);
  }
  MpiErrorsReturned(MpiErrorsReturned const&) = delete;
  MpiErrorsReturned& operator=(MpiErrorsReturned const&) = delete;

 private:
  MPI_Comm communicator_;
  MPI_Errhandler callers_ = MPI_ERRHANDLER_NULL;
};

/// Frees the duplicate. After a failure it is kept: others may not free theirs.
struct EndMpiGroup {
  void operator()(MpiGroup* group) const {
    if (!group->failure.empty()) return keep_until_exit(group);
    if (group->communicator != MPI_COMM_NULL && mpi_runs()) MPI_Comm_free(&group->communicator);
    delete group;
  }
};

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

/// What algorithms are priced by, and the ranks of a node; 0: of one name of a processor. Guesses.
struct MpiLinks {
  LinkCosts within{}, between{.latency = 3, .rate = 10e3, .message = 0.3};
  int ranks_per_node = 0;
};

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
      : group_(new detail::MpiGroup, detail::EndMpiGroup()) {
    constexpr char const* function = "MpiCommunicator";
    require(deadline.count() > 0, function, "deadline", "a positive time", deadline.count());
    require(detail::mpi_runs(), function, "MPI", "that MPI_Init was called, and not MPI_Finalize",
            "neither or both");
    group_->deadline = deadline;
    group_->start();
    duplicate(communicator);
    find_nodes(links);
  }

  int rank() const { return group_->rank; }
  int size() const { return group_->size; }
  LinkCosts link() const { return topology().nodes() > 1 ? topology().between : topology().within; }
  Topology topology() const { return group_->topology; }

  /// See Communicator. Errors: also where ranks disagree about the shape, and on more bytes or
  /// slots than MPI counts (2^31 - 1 bytes).
  Window plan(WindowShape const& shape) {
    group_->start();
    constexpr std::size_t most_bytes = std::numeric_limits<int>::max();
    if (shape.slot_bytes > most_bytes)
      fail_above("MpiCommunicator", "slot_bytes", most_bytes, shape.slot_bytes);
    int* most_tag = nullptr;
    int found = 0;
    group_->check(
        MPI_Comm_get_attr(group_->communicator, MPI_TAG_UB, static_cast<void*>(&most_tag), &found),
        "MPI_Comm_get_attr");
    if (found != 0 && shape.slots - 1 > *most_tag)
      fail_above("MpiCommunicator", "slots", *most_tag, shape.slots);
    Window window;
    window.memory_.reset(new detail::MpiWindow(group_, shape));
    agree(shape);
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
  /// Waits for what all ranks take part in, and keeps the memory where that does not end.
  template <class T>
  void complete_on_all(MPI_Request& request, std::unique_ptr<T>& memory) {
    try {
      if (!group_->completes(request)) group_->give_up_waiting("every rank");
    } catch (Error const&) {
      detail::keep_until_exit(memory.release());
      throw;
    }
  }

  void duplicate(MPI_Comm communicator) {
    detail::MpiErrorsReturned const meanwhile(communicator);
    auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    MPI_Request request = MPI_REQUEST_NULL;
    group_->check(MPI_Comm_idup(communicator, made.get(), &request), "MPI_Comm_idup");
    complete_on_all(request, made);
    group_->communicator = *made;
    group_->check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    group_->check(MPI_Comm_rank(*made, &group_->rank), "MPI_Comm_rank");
    group_->check(MPI_Comm_size(*made, &group_->size), "MPI_Comm_size");
  }

  /// A number for the name of each rank's processor.
  struct Names {
    std::uint64_t mine = 0;
    std::vector<std::uint64_t> all;
  };

  void find_nodes(MpiLinks const& links) {
    int count = links.ranks_per_node;
    if (count == 0) {
      auto names = std::make_unique<Names>();
      char text[MPI_MAX_PROCESSOR_NAME] = {};
      int length = 0;
      group_->check(MPI_Get_processor_name(text, &length), "MPI_Get_processor_name");
      names->mine = std::hash<std::string>()(std::string(text, length));
      names->all.resize(size());
      MPI_Request request = MPI_REQUEST_NULL;
      group_->check(MPI_Iallgather(&names->mine, 1, MPI_UINT64_T, names->all.data(), 1,
                                   MPI_UINT64_T, group_->communicator, &request),
                    "MPI_Iallgather");
      complete_on_all(request, names);
      count = count_ranks_per_node(names->all);
    } else if (count < 0 || size() % count != 0) {
      fail("MpiCommunicator", "links.ranks_per_node", "a divisor of " + std::to_string(size()),
           count);
    }
    group_->topology = {size(), count, links.within, links.between};
  }

  /// The largest of each number and the smallest, as the complement of the largest complement.
  struct Agreement {
    static constexpr int numbers = 8;
    std::uint64_t mine[numbers], largest[numbers];
  };

  void agree(WindowShape const& shape) {
    auto made = std::make_unique<Agreement>();
    std::uint64_t const numbers[] = {static_cast<std::uint64_t>(shape.slots), shape.slot_bytes,
                                     shape.purpose, static_cast<std::uint64_t>(shape.sends)};
    for (int i = 0; i < Agreement::numbers / 2; ++i) {
      made->mine[2 * i] = numbers[i];
      made->mine[2 * i + 1] = ~numbers[i];
    }
    MPI_Request request = MPI_REQUEST_NULL;
    group_->check(MPI_Iallreduce(made->mine, made->largest, Agreement::numbers, MPI_UINT64_T,
                                 MPI_MAX, group_->communicator, &request),
                  "MPI_Iallreduce");
    complete_on_all(request, made);
    if (!std::ranges::equal(made->mine, made->largest))
      group_->give_up("window of a rank", detail::describe(shape) + ", as here", "another");
  }

  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(Communicator<MpiCommunicator>);

}  // namespace fasttree
