// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: messages, and what every other rank gets when one is late, stays away
// or disagrees: an error, within the deadline. All ranks run every test case, on communicators of
// its own, and meet after it.

#include <fasttree/comm/mpi_communicator.hpp>
#include <fasttree/comm/mpi_device_communicator.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/mpi_ranks.hpp"

namespace {

using namespace fasttree;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto deadline = 1000ms;
constexpr WindowShape shape{.slots = 8, .slot_bytes = 100, .sends = 7};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Sends numbers to all others, and checks what they sent.
bool exchange(MpiCommunicator& communicator, MpiCommunicator::Window& window, int step,
              std::size_t bytes = 8) {
  int const rank = communicator.rank(), size = communicator.size();
  auto const number = [&](int of) { return static_cast<std::uint8_t>(of * 17 + step); };
  std::vector<std::uint8_t> message(bytes, number(rank));
  communicator.begin(window);
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) communicator.send(window, peer, rank, std::as_bytes(std::span(message)));
  message.assign(bytes, 255);  // it may be reused at once
  bool right = true;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    auto const got = communicator.receive(window, peer, peer, bytes);
    std::byte const expected{number(peer)};
    right = right && got.size() == bytes &&
            std::ranges::all_of(got, [&](std::byte byte) { return byte == expected; });
    right = right && reinterpret_cast<std::uintptr_t>(got.data()) % 64 == 0;
  }
  return right;
}

/// What a call ended with, and how long it took.
struct Ending {
  std::string error;
  Clock::duration took{};
};

template <class Body>
Ending ending(Body const& body) {
  auto const begin = Clock::now();
  Ending result;
  try {
    body();
  } catch (Error const& error) {
    result.error = error.what();
  }
  result.took = Clock::now() - begin;
  return result;
}

void meet() { MPI_Barrier(MPI_COMM_WORLD); }

}  // namespace

TEST_CASE("messages arrive, exchange after exchange, in windows of their own") {
  MpiCommunicator communicator(MPI_COMM_WORLD, 60s);
  CHECK(communicator.rank() == world_rank());
  CHECK(communicator.size() == world_size());
  WindowShape const large{.slots = 8, .slot_bytes = 1 << 20, .sends = 7};
  auto first = communicator.plan(shape), second = communicator.plan({8, 8, 7}),
       third = communicator.plan(large);
  bool right = true;
  for (int step = 0; step < 100; ++step)
    right = exchange(communicator, step % 3 == 0 ? second : first, step) && right;
  for (int step = 0; step < 5; ++step)
    right = exchange(communicator, third, step, large.slot_bytes - step) && right;
  right = exchange(communicator, first, 0, 0) && right;
  CHECK(right);
}

TEST_CASE("a straggler that arrives by the deadline is no error") {
  MpiCommunicator communicator(MPI_COMM_WORLD, 60s);
  auto window = communicator.plan(shape);
  for (int step = 0; step < 3; ++step) {
    if (communicator.rank() == step % communicator.size()) std::this_thread::sleep_for(200ms);
    CHECK(exchange(communicator, window, step));
  }
}

TEST_CASE("a rank that is late is an error on the others, within the deadline + 10 %") {
  if (world_size() == 1) return;
  {
    MpiCommunicator communicator(MPI_COMM_WORLD, deadline);
    auto window = communicator.plan(shape);
    CHECK(exchange(communicator, window, 0));
    meet();
    if (communicator.rank() == 0) {
      std::this_thread::sleep_for(deadline * 3 / 2);
    } else {
      auto const late = ending([&] { exchange(communicator, window, 1); });
      CHECK(late.error ==
            "fasttree::MpiCommunicator: rank 0: expected a message within 1.000000 s, found none");
      CHECK(late.took < deadline * 11 / 10);
      CHECK(late.took > deadline * 9 / 10);
      // Every call throws it again, at once.
      auto const again = ending([&] { communicator.begin(window); });
      CHECK(again.error == late.error);
      CHECK(ending([&] { communicator.plan(shape); }).error == late.error);
      CHECK(ending([&] { communicator.send(window, 0, 0, {}); }).error == late.error);
      CHECK(ending([&] { communicator.receive(window, 0, 0, 0); }).error == late.error);
      CHECK(again.took < deadline / 10);
    }
  }
  meet();  // MPI itself goes on
  MpiCommunicator communicator(MPI_COMM_WORLD, 60s);
  auto window = communicator.plan(shape);
  CHECK(exchange(communicator, window, 0));
}

TEST_CASE("memory given to MPI: a rank that is late is an error on the others as well") {
  if (world_size() == 1) return;
  using Space = Kokkos::Serial;
  static std::vector<float> received(world_size());  // MPI may still write there
  float const sent = 1;
  {
    MpiDeviceCommunicator<Space> communicator(MPI_COMM_WORLD, deadline);
    auto window = communicator.plan(shape);
    int const rank = communicator.rank(), size = communicator.size();
    auto const exchange_all = [&] {
      communicator.begin(window);
      communicator.begin_round(window, Space{});
      for (int i = 1; i < size; ++i)
        communicator.send(window, (rank + i) % size, 0, std::as_bytes(std::span(&sent, 1)));
      for (int i = 1; i < size; ++i) {
        int const from = (rank + i) % size;
        communicator.receive_into(window, from,
                                  std::as_writable_bytes(std::span(&received[from], 1)));
      }
      communicator.end_round(window);
      communicator.wait(Space{});
    };
    exchange_all();
    for (int i = 0; i < size; ++i) CHECK(received[i] == (i == rank ? 0.f : 1.f));
    meet();
    if (rank == 0) {
      std::this_thread::sleep_for(deadline * 3 / 2);
    } else {
      auto const late = ending(exchange_all);
      CHECK(late.error ==
            "fasttree::MpiCommunicator: rank 0: expected a message within 1.000000 s, found none");
      CHECK(late.took < deadline * 11 / 10);
      CHECK(late.took > deadline * 9 / 10);
      CHECK(ending([&] { communicator.wait(Space{}); }).error == late.error);
      CHECK(ending([&] { communicator.plan(shape); }).error == late.error);
    }
  }
  meet();
}

TEST_CASE("a rank that stays away from a collective call is an error on the others") {
  if (world_size() == 1) return;
  int const last = world_size() - 1;
  std::string const expected =
      "fasttree::MpiCommunicator: every rank: expected a message within 1.000000 s, found none";
  {
    MpiCommunicator communicator(MPI_COMM_WORLD, deadline);
    auto const without = ending([&] {
      if (communicator.rank() != last) communicator.plan(shape);
    });
    if (communicator.rank() != last) CHECK(without.error == expected);
    CHECK(without.took < deadline * 11 / 10);
  }
  meet();
  MPI_Comm others;
  MPI_Comm_dup(MPI_COMM_WORLD, &others);
  auto const without = ending([&] {
    if (world_rank() != last) MpiCommunicator const communicator(others, deadline);
  });
  if (world_rank() != last) CHECK(without.error == expected);
  CHECK(without.took < deadline * 11 / 10);
  meet();
}

TEST_CASE("ranks that disagree about a window or a message") {
  if (world_size() == 1) return;
  {
    MpiCommunicator communicator(MPI_COMM_WORLD, 60s);
    std::size_t const bytes = communicator.rank() == 1 ? 101 : 100;
    auto const found = ending([&] { communicator.plan({8, bytes, 7}); });
    CHECK(found.error == "fasttree::MpiCommunicator: window of a rank: expected 8 slots of " +
                             std::to_string(bytes) +
                             " bytes for purpose 0, as here, found another");
  }
  meet();
  MpiCommunicator communicator(MPI_COMM_WORLD, deadline);
  auto window = communicator.plan(shape);
  int const rank = communicator.rank();
  if (rank < 2) {
    std::byte const message[12] = {};
    communicator.begin(window);
    std::size_t const bytes = rank == 0 ? 8 : 12;
    communicator.send(window, 1 - rank, 0, std::span(message).first(bytes));
    auto const found = ending([&] { communicator.receive(window, 1 - rank, 0, bytes); });
    CHECK(found.error == "fasttree::MpiCommunicator: message of rank " + std::to_string(1 - rank) +
                             ": expected " + std::to_string(bytes) + " bytes, found " +
                             std::to_string(20 - bytes));
  }
  meet();
}

TEST_CASE("an error of MPI is an Error, and the caller's communicator keeps its handler") {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  {
    MpiCommunicator communicator(MPI_COMM_WORLD, deadline);
    auto window = communicator.plan(shape);
    communicator.begin(window);
    auto const found = ending([&] { communicator.send(window, world_size(), 0, {}); });
    CHECK(
        found.error.starts_with("fasttree::MpiCommunicator: MPI_Isend: expected success, found "));
    CHECK(ending([&] { communicator.begin(window); }).error == found.error);
  }
  MPI_Errhandler kept;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &kept);
  CHECK(kept == MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  meet();
}

TEST_CASE("what is refused") {
  auto const refused = [](auto const& body) { return ending(body).error; };
  CHECK(refused([] { MpiCommunicator(MPI_COMM_WORLD, 0s); }) ==
        "fasttree::MpiCommunicator: deadline: expected a positive time, found 0");
  MpiCommunicator communicator(MPI_COMM_WORLD, 60s);
  CHECK(refused([&] {
          communicator.plan({1, std::size_t{1} << 31, 1});
        }) ==
        "fasttree::MpiCommunicator: slot_bytes: expected at most 2147483647, found 2147483648");
  auto window = communicator.plan({1, 4, 0});
  communicator.begin(window);
  std::byte const message[5] = {};
  CHECK(refused([&] { communicator.send(window, 0, 0, message); }) ==
        "fasttree::MpiCommunicator: message.size(): expected no more than slot_bytes, found 5");
  CHECK(refused([&] { communicator.send(window, 0, 0, {}); }) ==
        "fasttree::MpiCommunicator: sends: expected no more in an exchange than were planned, "
        "found 1");
  meet();
}
