// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random numbers that are the same for a seed on every machine, which std's distributions are not.

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace fasttree::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// An integer of [least, most].
  int integer(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  /// A number of [-most, most).
  float real(float most) {
    return most * (static_cast<float>(engine_() >> 40) * 0x1p-23f - 1.f);  // 24 bits: exact
  }
  bool one_in(int n) { return integer(1, n) == 1; }

  /// The numbers below `count` in random order.
  std::vector<int> permutation(int count) {
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    for (int i = count - 1; i > 0; --i) std::swap(order[i], order[integer(0, i)]);
    return order;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace fasttree::test
