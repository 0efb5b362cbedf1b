// SPDX-License-Identifier: Apache-2.0
#pragma once
// What fixed shards promise, by any communicator.

#include <doctest/doctest.h>

#include "ranks.hpp"

namespace fasttree::test {

/// Checks that by every algorithm that is let pass a rank has the bits that one rank alone has.
template <class P, class Comm>
void has_the_bits_of_one_rank(P const& problem, Comm& communicator) {
  InterleavedShards const policy{4};
  auto const held = caches_of_shards(problem, policy, 8);
  auto const attended = [&](auto& by, ReductionAlgorithm algorithm) {
    Arrays<float, LogBase::e, P> const array(problem);
    attend_in_shards(by, problem, policy, held, array, algorithm, 2);
    return array.read();
  };
  SelfCommunicator self;
  auto const alone = attended(self, ReductionAlgorithm::one_shot);
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
    CAPTURE(name(algorithm));
    if (merges_by_tree(algorithm, communicator.topology()))
      CHECK(same_bits(attended(communicator, algorithm), alone));
    else
      CHECK_THROWS_AS(attended(communicator, algorithm), Error);
  }
}

}  // namespace fasttree::test
