// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a machine works on items of given times, taken longest first from one queue; and the
// classes of times by which items are put into that order.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <fasttree/core/integers.hpp>

namespace fasttree {

/// Numbers of classes of times, a sixteenth of an octave wide, longest times first.
struct TimeClass {
  static constexpr int count = 640;  // 40 octaves below 2^28 microseconds

  static constexpr int of(double time) {
    constexpr int dropped_bits = 48;  // of the 52 of a mantissa
    auto const number = [](double t) {
      return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(t) >> dropped_bits);
    };
    std::int64_t const below_longest = number(0x1p28) - number(std::max(time, 0.0));
    return static_cast<int>(std::clamp<std::int64_t>(below_longest, 0, count - 1));
  }
};

/// Items in a queue, as a histogram of their times.
class Schedule {
 public:
  constexpr void clear() {
    for (int i = first_; i < end_; ++i) classes_[i] = {};
    first_ = TimeClass::count;
    end_ = 0;
    work_ = 0;
  }

  /// `count` items of `time` each.
  constexpr void add(double time, std::int64_t count) {
    int const number = TimeClass::of(time);
    double const work = time * static_cast<double>(count);
    classes_[number].items += count;
    classes_[number].time += work;
    first_ = std::min(first_, number);
    end_ = std::max(end_, number + 1);
    work_ += work;
  }

  /// Microseconds until `slots` slots, each `alone` times as fast while the others rest, have done
  /// all items: the larger of two lower bounds. No slot rests; or, of (k - 1) slots + 1 items, one
  /// slot has k. Longest-first order comes close to them where items are many. Time: constant.
  constexpr double time(int slots, double alone) const {
    double longest_chain = 0;
    std::int64_t items = 0, rounds = 0;
    for (int i = first_; i < end_; ++i) {
      Class const& members = classes_[i];
      if (members.items == 0) continue;
      items += members.items;
      std::int64_t const rounds_before = rounds;
      rounds = ceil_div<std::int64_t>(items, slots);
      if (rounds == rounds_before) continue;
      double const one = members.time / static_cast<double>(members.items);
      longest_chain = std::max(longest_chain, (static_cast<double>(rounds - 1) + 1 / alone) * one);
    }
    return std::max(longest_chain, work_ / slots);
  }

 private:
  struct Class {
    std::int64_t items = 0;
    double time = 0;
  };

  std::array<Class, TimeClass::count> classes_{};
  int first_ = TimeClass::count, end_ = 0;  ///< of the classes that have members, or empty
  double work_ = 0;
};

}  // namespace fasttree
