// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ranks that are threads allocate in a call on a plan that they have called before.

#include <barrier>
#include <chrono>
#include <cstdint>
#include <optional>

#include <fasttree/comm/in_process_communicator.hpp>
#include "tools.hpp"

namespace fasttree::test {

/// Bytes of the views of all ranks. `body(communicator, call_twice)` plans on each rank, and ends
/// with `call_twice(call)`.
template <class Space, class Body>
std::int64_t allocated_by_second_call(Space const& space, int ranks, Body const& body) {
  std::int64_t bytes = -1;
  std::optional<AllocatedBytes> counted;
  auto const count = [&]() noexcept {  // when all ranks have called once, and again when twice
    if (!counted) {
      counted.emplace();
      return;
    }
    bytes = counted->all();
    counted.reset();
  };
  std::barrier all(ranks, count);
  run_in_process(space, ranks, std::chrono::seconds(60), [&](InProcessCommunicator& communicator) {
    body(communicator, [&](auto const& call) {
      try {
        for (int i = 0; i < 2; ++i) {
          call();
          all.arrive_and_wait();
        }
      } catch (...) {
        all.arrive_and_drop();
        throw;
      }
    });
  });
  return bytes;
}

}  // namespace fasttree::test
