// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are threads of one process, any number of them: for tests, for programs that bind a
// thread to each NUMA node, and to see what an algorithm moves. A send copies into the receiver's
// window, as a network would, and counts. Each rank launches its own kernels, so the execution
// space has to be one that several threads may use at once: Kokkos::Serial is, OpenMP and Threads
// are not.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

namespace detail {

/// The windows of all ranks, each in two sets of slots: a rank that is one exchange ahead of
/// another cannot be two ahead, so a slot is free again when its turn comes.
struct InProcessWindows {
  struct Arrival {
    std::uint64_t exchange = 0;  ///< the last in which the slot took a message
    std::size_t bytes = 0;
  };
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  WindowShape shape;
  int joined = 0;
  std::vector<std::vector<Line>> memory;       ///< of each rank
  std::vector<std::vector<Arrival>> arrivals;  ///< at each rank

  std::size_t index(std::uint64_t exchange, int slot) const {
    return exchange % 2 * static_cast<std::size_t>(shape.slots) + static_cast<std::size_t>(slot);
  }
  std::byte* slot(int rank, std::uint64_t exchange, int slot) {
    std::size_t const lines = ceil_div(shape.slot_bytes, sizeof(Line));
    return memory[rank].data()->bytes + index(exchange, slot) * lines * sizeof(Line);
  }
};

/// What the ranks have in common. The mutex guards all of it but the contents of slots, which
/// belong to the sender until it says that they have arrived, and then to the receiver.
struct InProcessGroup {
  explicit InProcessGroup(int ranks) : changed(ranks), left(ranks, false) {}

  int size() const { return static_cast<int>(left.size()); }

  void notify_all() {
    for (auto& one : changed) one.notify_one();
  }

  /// Ends the group: every call on every rank throws this from now on.
  [[noreturn]] void give_up(std::string const& argument, std::string const& expected,
                            std::string const& found) {
    try {
      fail("InProcessCommunicator", argument, expected, found);
    } catch (Error const& error) {
      failure = error.what();
    }
    notify_all();
    throw Error(failure);
  }

  void require_whole() const {
    if (!failure.empty()) throw Error(failure);
  }

  std::mutex mutex;
  std::vector<std::condition_variable> changed;  ///< for each rank, what it waits for
  std::vector<bool> left;
  std::string failure;
  std::vector<std::shared_ptr<InProcessWindows>> planned;  ///< until all ranks have joined
};

}  // namespace detail

/// One rank of several in a process; see make_in_process_communicators. One thread at a time uses
/// it. Where it is destroyed while others wait for its messages, they get an `Error`.
class InProcessCommunicator {
 public:
  /// The registered memory of an exchange.
  class Window {
    friend InProcessCommunicator;
    std::shared_ptr<detail::InProcessWindows> windows_;
    std::uint64_t exchange_ = 0;
  };

  InProcessCommunicator(InProcessCommunicator&&) = default;
  InProcessCommunicator& operator=(InProcessCommunicator&&) = delete;
  ~InProcessCommunicator() { leave(); }

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  LinkCosts link() const { return link_; }
  Topology topology() const { return {size(), ranks_per_node_, link_, link_}; }
  /// What this rank has sent since it exists, and how often it began to after it had received.
  Traffic const& traffic() const { return traffic_; }

  /// Takes the rank out of the group, as its end does: it sends nothing more.
  void leave() {
    if (!group_) return;
    std::lock_guard const lock(group_->mutex);
    group_->left[rank_] = true;
    group_->notify_all();
  }

  /// See Communicator. Errors: also where ranks disagree about the shape.
  Window plan(WindowShape const& shape) {
    using Windows = detail::InProcessWindows;
    std::size_t const lines = 2 * static_cast<std::size_t>(shape.slots) *
                              ceil_div(shape.slot_bytes, sizeof(Windows::Line));
    std::vector<Windows::Line> memory(std::max<std::size_t>(lines, 1));
    std::vector<Windows::Arrival> arrivals(2 * static_cast<std::size_t>(shape.slots));
    start();
    std::unique_lock lock(group_->mutex);
    group_->require_whole();
    if (group_->planned.size() == plans_) {
      auto const first = std::make_shared<Windows>();
      first->shape = shape;
      first->memory.resize(size());
      first->arrivals.resize(size());
      group_->planned.push_back(first);
    }
    Window window;
    window.windows_ = group_->planned[plans_];
    Windows& windows = *window.windows_;
    if (windows.shape != shape)
      group_->give_up("window of rank " + std::to_string(rank_), detail::describe(windows.shape),
                      detail::describe(shape));
    windows.memory[rank_] = std::move(memory);
    windows.arrivals[rank_] = std::move(arrivals);
    if (++windows.joined == size()) {
      group_->planned[plans_].reset();
      group_->notify_all();
    }
    ++plans_;
    wait(
        lock, [&] { return windows.joined == size(); },
        [&] {
          int missing = 0;
          while (missing + 1 < size() && !windows.memory[missing].empty()) ++missing;
          return missing;
        });
    return window;
  }

  void begin(Window& window) {
    start();
    ++window.exchange_;
    has_sent_ = false;
    std::lock_guard const lock(group_->mutex);
    group_->require_whole();
    if (group_->left[rank_]) group_->give_up(of(rank_), "its part in an exchange", has_left);
  }

  void send(Window& window, int to, int slot, std::span<std::byte const> message) {
    detail::InProcessWindows& windows = *window.windows_;
    require(message.size() <= windows.shape.slot_bytes, "InProcessCommunicator", "message.size()",
            "no more than slot_bytes", message.size());
    if (!message.empty())
      std::memcpy(windows.slot(to, window.exchange_, slot), message.data(), message.size());
    if (!has_sent_) ++traffic_.rounds;
    ++traffic_.messages;
    traffic_.bytes += static_cast<std::int64_t>(message.size());
    has_sent_ = true;
    std::lock_guard const lock(group_->mutex);
    group_->require_whole();
    windows.arrivals[to][windows.index(window.exchange_, slot)] = {window.exchange_,
                                                                   message.size()};
    group_->changed[to].notify_one();
  }

  std::span<std::byte> receive(Window& window, int from, int slot, std::size_t bytes) {
    detail::InProcessWindows& windows = *window.windows_;
    std::unique_lock lock(group_->mutex);
    auto const& arrival = windows.arrivals[rank_][windows.index(window.exchange_, slot)];
    wait(
        lock, [&] { return arrival.exchange == window.exchange_; }, [&] { return from; });
    if (arrival.bytes != bytes)
      group_->give_up("message of " + of(from), std::to_string(bytes) + " bytes",
                      std::to_string(arrival.bytes));
    has_sent_ = false;
    return {windows.slot(rank_, window.exchange_, slot), bytes};
  }

 private:
  friend std::vector<InProcessCommunicator> make_in_process_communicators(
      int ranks, std::chrono::nanoseconds deadline, LinkCosts const& link, int ranks_per_node);

  InProcessCommunicator(std::shared_ptr<detail::InProcessGroup> group, int rank,
                        std::chrono::nanoseconds deadline, LinkCosts const& link,
                        int ranks_per_node)
      : group_(std::move(group)),
        rank_(rank),
        deadline_(deadline),
        link_(link),
        ranks_per_node_(ranks_per_node) {}

  static constexpr char const* has_left = "that it has left";
  static std::string of(int rank) { return "rank " + std::to_string(rank); }

  void start() { until_ = std::chrono::steady_clock::now() + deadline_; }

  /// Waits until `holds`; `missing()` is the rank that it depends on. What has arrived counts, even
  /// from a rank that has left since, and after another gave up.
  template <class Holds, class Missing>
  void wait(std::unique_lock<std::mutex>& lock, Holds const& holds, Missing const& missing) {
    bool late = false;
    while (!holds()) {
      group_->require_whole();
      int const peer = missing();
      if (late || group_->left[peer]) {
        double const seconds = std::chrono::duration<double>(deadline_).count();
        group_->give_up(of(peer), "a message within " + std::to_string(seconds) + " s",
                        group_->left[peer] ? has_left : "none");
      }
      late = group_->changed[rank_].wait_until(lock, until_) == std::cv_status::timeout;
    }
  }

  std::shared_ptr<detail::InProcessGroup> group_;
  int rank_;
  std::chrono::nanoseconds deadline_;
  LinkCosts link_;
  int ranks_per_node_;
  std::chrono::steady_clock::time_point until_{};
  std::size_t plans_ = 0;
  Traffic traffic_;
  bool has_sent_ = false;  ///< since it last received
};

static_assert(Communicator<InProcessCommunicator>);

/// The communicators of `ranks` ranks, each to be given to a thread.
///
/// \param deadline  most that any of their calls takes: plan, begin, and from begin on all receives
/// \param link      what algorithms are priced by; a guess unless it is given
/// \param ranks_per_node  as algorithms see it (a NUMA node, say); 0 for one node
///
/// Errors: `Error` unless there are ranks and time, and nodes of equally many ranks.
inline std::vector<InProcessCommunicator> make_in_process_communicators(
    int ranks, std::chrono::nanoseconds deadline, LinkCosts const& link = {},
    int ranks_per_node = 0) {
  constexpr char const* function = "make_in_process_communicators";
  require(ranks > 0, function, "ranks", "a positive number", ranks);
  require(deadline.count() > 0, function, "deadline", "a positive time", deadline.count());
  if (ranks_per_node == 0) ranks_per_node = ranks;
  if (ranks_per_node < 0 || ranks % ranks_per_node != 0)
    fail(function, "ranks_per_node", "a divisor of " + std::to_string(ranks), ranks_per_node);
  auto const group = std::make_shared<detail::InProcessGroup>(ranks);
  std::vector<InProcessCommunicator> communicators;
  communicators.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    communicators.push_back(InProcessCommunicator(group, rank, deadline, link, ranks_per_node));
  return communicators;
}

/// Runs body(communicator) on `ranks` threads and waits for them; where some throw, throws what was
/// thrown first, the cause of the others. `space` is of the type that they launch kernels on.
template <class Space, class Body>
void run_in_process(Space const& space, int ranks, std::chrono::nanoseconds deadline,
                    Body const& body, int ranks_per_node = 0) {
  prepare_for_threads(space);
  auto communicators = make_in_process_communicators(ranks, deadline, {}, ranks_per_node);
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (auto& one : communicators)
      threads.emplace_back([&, communicator = std::move(one)]() mutable {
        try {
          body(communicator);
        } catch (...) {
          std::lock_guard const lock(mutex);
          if (!first) first = std::current_exception();
        }
        communicator.leave();  // after the exception is kept, so that no other comes first
      });
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace fasttree
