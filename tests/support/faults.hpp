// SPDX-License-Identifier: Apache-2.0
#pragma once
// What programs have in common whose ranks meet with accidents, and which a script reads.

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fasttree/comm/reduction_algorithm.hpp>

namespace fasttree::test {

/// one_shot where there is none of that name.
inline ReductionAlgorithm algorithm_named(std::string const& text) {
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    if (text == name(algorithm)) return algorithm;
  return ReductionAlgorithm::one_shot;
}

/// Says what a rank found, and ends it without MPI_Finalize, which would wait for all.
[[noreturn]] inline void end(int rank, bool right, std::string const& text) {
  std::printf("rank %d: %s: %s\n", rank, right ? "right" : "WRONG", text.c_str());
  std::fflush(stdout);
  std::_Exit(right ? 0 : 1);
}

}  // namespace fasttree::test
