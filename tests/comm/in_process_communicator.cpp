// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads: messages, counts, and what every other rank gets when one has left, sleeps
// or disagrees: an error, within the deadline.

#include <fasttree/comm/in_process_communicator.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace fasttree;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto deadline = 1000ms;
constexpr WindowShape shape{.slots = 8, .slot_bytes = 100};

/// Sends the rank's number and the step to all others, and checks what they sent.
bool exchange(InProcessCommunicator& communicator, InProcessCommunicator::Window& window,
              int step) {
  int const rank = communicator.rank(), size = communicator.size();
  int const message[] = {rank, step};
  communicator.begin(window);
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) communicator.send(window, peer, rank, std::as_bytes(std::span(message)));
  bool right = true;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    auto const got = communicator.receive(window, peer, peer, sizeof(message));
    int const* const numbers = reinterpret_cast<int const*>(got.data());
    right = right && numbers[0] == peer && numbers[1] == step;
    right = right && reinterpret_cast<std::uintptr_t>(got.data()) % 64 == 0;
  }
  return right;
}

/// What a rank ended with, and how long it took from when it was told to begin.
struct Ending {
  std::string error;
  Clock::duration took{};
};

/// Runs body on each rank; a rank that returns keeps its communicator until all have ended.
std::vector<Ending> endings(int ranks, std::function<void(InProcessCommunicator&)> const& body) {
  auto communicators = make_in_process_communicators(ranks, deadline);
  std::vector<Ending> result(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto const begin = Clock::now();
      try {
        body(communicators[rank]);
      } catch (Error const& error) {
        result[rank].error = error.what();
      }
      result[rank].took = Clock::now() - begin;
    });
  threads.clear();
  return result;
}

}  // namespace

TEST_CASE("messages arrive, exchange after exchange, in windows of their own") {
  for (int const ranks : {1, 2, 3, 5, 6, 7, 8}) {
    CAPTURE(ranks);
    std::vector<char> right(ranks, false);
    auto const ended = endings(ranks, [&](InProcessCommunicator& communicator) {
      auto first = communicator.plan(shape), second = communicator.plan({8, 8});
      bool all = true;
      for (int step = 0; step < 100; ++step)
        all = exchange(communicator, step % 3 == 0 ? second : first, step) && all;
      all = all && communicator.traffic() ==
                       Traffic{ranks > 1 ? 100 : 0, 100 * (ranks - 1), 800 * (ranks - 1)};
      right[communicator.rank()] = all;
    });
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(ended[rank].error == "");
      CHECK(right[rank]);
    }
  }
}

TEST_CASE("a rank that has left is an error on every other rank, at once") {
  for (int const ranks : {2, 3, 8}) {
    auto const ended = endings(ranks, [&](InProcessCommunicator& communicator) {
      auto window = communicator.plan(shape);
      exchange(communicator, window, 0);
      if (communicator.rank() == 1) {
        InProcessCommunicator const gone = std::move(communicator);
        return;
      }
      exchange(communicator, window, 1);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      CHECK(ended[rank].error.starts_with("fasttree::InProcessCommunicator: rank 1: expected "));
      CHECK(ended[rank].error.ends_with(", found that it has left"));
    }
  }
}

TEST_CASE(
    "a rank that is late is an error on every rank, its own too, within the deadline + 10 %") {
  for (int const ranks : {2, 5, 8}) {
    auto const ended = endings(ranks, [&](InProcessCommunicator& communicator) {
      auto window = communicator.plan(shape);
      if (communicator.rank() == 0) std::this_thread::sleep_for(deadline * 3 / 2);
      exchange(communicator, window, 0);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(ended[rank].error ==
            "fasttree::InProcessCommunicator: rank 0: expected a message within 1.000000 s, found "
            "none");
      if (rank > 0) CHECK(ended[rank].took < deadline * 11 / 10);
      if (rank > 0) CHECK(ended[rank].took > deadline * 9 / 10);
    }
  }
}

TEST_CASE("after an error every call throws it again") {
  auto const ended = endings(2, [&](InProcessCommunicator& communicator) {
    auto window = communicator.plan(shape);
    if (communicator.rank() == 1) return communicator.leave();
    std::string first;
    try {
      exchange(communicator, window, 0);
    } catch (Error const& error) {
      first = error.what();
    }
    CHECK(first != "");
    CHECK_THROWS_WITH_AS(communicator.plan(shape), first.c_str(), Error);
    CHECK_THROWS_WITH_AS(communicator.begin(window), first.c_str(), Error);
    CHECK_THROWS_WITH_AS(communicator.send(window, 1, 0, {}), first.c_str(), Error);
    CHECK_THROWS_WITH_AS(communicator.receive(window, 1, 1, 0), first.c_str(), Error);
  });
  CHECK(ended[0].error == "");
}

TEST_CASE("a rank that never plans is an error on the others") {
  auto const ended = endings(3, [&](InProcessCommunicator& communicator) {
    if (communicator.rank() != 2) communicator.plan(shape);
  });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(ended[rank].error ==
          "fasttree::InProcessCommunicator: rank 2: expected a message within 1.000000 s, found "
          "none");
    CHECK(ended[rank].took < deadline * 11 / 10);
  }
}

TEST_CASE("ranks that disagree about a window or a message all get the same error") {
  auto const windows = endings(3, [&](InProcessCommunicator& communicator) {
    communicator.plan({8, communicator.rank() == 1 ? 101u : 100u});
  });
  for (Ending const& ending : windows) {
    CHECK(ending.error == windows[0].error);
    CHECK(ending.error.find("8 slots of 101 bytes") != std::string::npos);
    CHECK(ending.error.find("8 slots of 100 bytes") != std::string::npos);
  }
  auto const messages = endings(2, [&](InProcessCommunicator& communicator) {
    auto window = communicator.plan(shape);
    std::byte const message[12] = {};
    communicator.begin(window);
    std::size_t const bytes = communicator.rank() == 0 ? 8 : 12;
    communicator.send(window, 1 - communicator.rank(), 0, std::span(message).first(bytes));
    communicator.receive(window, 1 - communicator.rank(), 0, bytes);
    exchange(communicator, window, 0);
  });
  for (Ending const& ending : messages)
    CHECK(ending.error.find("fasttree::InProcessCommunicator: message of rank ") == 0);
}

TEST_CASE("run_in_process throws what was thrown first") {
  CHECK_THROWS_WITH_AS(run_in_process(Kokkos::Serial{}, 4, 60s,
                                      [](InProcessCommunicator& communicator) {
                                        auto window = communicator.plan(shape);
                                        if (communicator.rank() == 2) throw Error("the cause");
                                        exchange(communicator, window, 0);
                                      }),
                       "the cause", Error);
}

TEST_CASE("what is refused") {
  CHECK_THROWS_WITH_AS(
      make_in_process_communicators(6, 1s, {}, 4),
      "fasttree::make_in_process_communicators: ranks_per_node: expected a divisor of 6, found 4",
      Error);
  CHECK_THROWS_WITH_AS(
      make_in_process_communicators(0, 1s),
      "fasttree::make_in_process_communicators: ranks: expected a positive number, found 0", Error);
  CHECK_THROWS_WITH_AS(
      make_in_process_communicators(2, 0s),
      "fasttree::make_in_process_communicators: deadline: expected a positive time, found 0",
      Error);
}
