// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of benchmarks: full, or small, so that a test can run every one of them.

#include <algorithm>
#include <cstdlib>

namespace fasttree::bench {

/// A positive number in an environment variable, 1 where there is none.
inline int number_in(char const* variable) {
  char const* const text = std::getenv(variable);
  return text != nullptr ? std::max(1, std::atoi(text)) : 1;
}

/// By what all sizes are divided.
inline int shrink() { return number_in("FASTTREE_BENCHMARK_SHRINK"); }

}  // namespace fasttree::bench
