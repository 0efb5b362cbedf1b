// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the communicators over MPI have in common: a duplicate of the caller's communicator, and the
// end of every wait. Only this header includes <mpi.h>. Nothing here waits in an MPI call: a request
// is tested until it is complete or the deadline has passed, since a rank that is stopped or dead
// raises no error in MPI.

// Without MPI's own C++ classes, for which a program would have to link another library.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // of Open MPI: what it says of devices
#endif

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>

namespace fasttree {

/// What algorithms are priced by, and the ranks of a node; 0: of one name of a processor. Guesses.
struct MpiLinks {
  LinkCosts within{}, between{.latency = 3, .rate = 10e3, .message = 0.3};
  int ranks_per_node = 0;
};

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

  /// Waits for what all ranks take part in, and keeps the memory where that does not end.
  template <class T>
  void complete_on_all(MPI_Request& request, std::unique_ptr<T>& memory) {
    try {
      if (!completes(request)) give_up_waiting("every rank");
    } catch (Error const&) {
      keep_until_exit(memory.release());
      throw;
    }
  }

  void duplicate(MPI_Comm callers) {
    MpiErrorsReturned const meanwhile(callers);
    auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(callers, made.get(), &request), "MPI_Comm_idup");
    complete_on_all(request, made);
    communicator = *made;
    check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(*made, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(*made, &size), "MPI_Comm_size");
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
      check(MPI_Get_processor_name(text, &length), "MPI_Get_processor_name");
      names->mine = std::hash<std::string>()(std::string(text, length));
      names->all.resize(size);
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Iallgather(&names->mine, 1, MPI_UINT64_T, names->all.data(), 1, MPI_UINT64_T,
                           communicator, &request),
            "MPI_Iallgather");
      complete_on_all(request, names);
      count = count_ranks_per_node(names->all);
    } else if (count < 0 || size % count != 0) {
      fail("MpiCommunicator", "links.ranks_per_node", "a divisor of " + std::to_string(size),
           count);
    }
    topology = {size, count, links.within, links.between};
  }

  /// The largest of each number and the smallest, as the complement of the largest complement.
  struct Agreement {
    static constexpr int numbers = 8;
    std::uint64_t mine[numbers], largest[numbers];
  };

  /// Begins a plan. Errors: on more bytes or slots than MPI counts.
  void begin_plan(WindowShape const& shape) {
    start();
    constexpr std::size_t most_bytes = std::numeric_limits<int>::max();
    if (shape.slot_bytes > most_bytes)
      fail_above("MpiCommunicator", "slot_bytes", most_bytes, shape.slot_bytes);
    int* most_tag = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&most_tag), &found),
          "MPI_Comm_get_attr");
    if (found != 0 && shape.slots - 1 > *most_tag)
      fail_above("MpiCommunicator", "slots", *most_tag, shape.slots);
  }

  /// Errors: where ranks disagree.
  void agree_on(WindowShape const& shape) {
    auto made = std::make_unique<Agreement>();
    std::uint64_t const numbers[] = {static_cast<std::uint64_t>(shape.slots), shape.slot_bytes,
                                     shape.purpose, static_cast<std::uint64_t>(shape.sends)};
    for (int i = 0; i < Agreement::numbers / 2; ++i) {
      made->mine[2 * i] = numbers[i];
      made->mine[2 * i + 1] = ~numbers[i];
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(made->mine, made->largest, Agreement::numbers, MPI_UINT64_T, MPI_MAX,
                         communicator, &request),
          "MPI_Iallreduce");
    complete_on_all(request, made);
    if (!std::ranges::equal(made->mine, made->largest))
      give_up("window of a rank", describe(shape) + ", as here", "another");
  }
};

/// Frees the duplicate. After a failure it is kept: others may not free theirs.
struct EndMpiGroup {
  void operator()(MpiGroup* group) const {
    if (!group->failure.empty()) return keep_until_exit(group);
    if (group->communicator != MPI_COMM_NULL && mpi_runs()) MPI_Comm_free(&group->communicator);
    delete group;
  }
};

/// Errors: `Error` unless MPI runs and there is time; where a rank does not take part by the
/// deadline; where MPI reports one.
inline std::shared_ptr<MpiGroup> make_mpi_group(MPI_Comm communicator,
                                                std::chrono::nanoseconds deadline,
                                                MpiLinks const& links) {
  constexpr char const* function = "MpiCommunicator";
  require(deadline.count() > 0, function, "deadline", "a positive time", deadline.count());
  require(mpi_runs(), function, "MPI", "that MPI_Init was called, and not MPI_Finalize",
          "neither or both");
  std::shared_ptr<MpiGroup> group(new MpiGroup, EndMpiGroup());
  group->deadline = deadline;
  group->start();
  group->duplicate(communicator);
  group->find_nodes(links);
  return group;
}

}  // namespace detail

}  // namespace fasttree
