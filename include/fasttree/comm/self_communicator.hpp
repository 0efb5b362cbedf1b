// SPDX-License-Identifier: Apache-2.0
#pragma once
// The communicator of one rank: a program written for ranks runs alone. No message is ever sent.

#include <fasttree/comm/communicator.hpp>
#include <fasttree/core/error.hpp>

namespace fasttree {

/// The only rank.
class SelfCommunicator {
 public:
  struct Window {};

  int rank() const { return 0; }
  int size() const { return 1; }
  LinkCosts link() const { return {}; }

  Window plan(WindowShape const&) { return {}; }
  void begin(Window&) {}
  void send(Window&, int to, int, std::span<std::byte const>) { refuse(to); }
  std::span<std::byte> receive(Window&, int from, int, std::size_t) { refuse(from); }

 private:
  [[noreturn]] static void refuse(int rank) {
    fail("SelfCommunicator", "rank", "none, as there is no other", rank);
  }
};

static_assert(Communicator<SelfCommunicator>);

}  // namespace fasttree
