// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a machine works on items of given times, taken longest first from one queue; and the
// classes of times by which items are put into that order.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

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
  /// What a slow slot takes for an item, by what slots take in the mean, as on an H200; one slot is
  /// the mean. Slow ones take fewer items, but for the last nobody steps in.
  static constexpr double slow = 1.03;

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

  /// Microseconds until `slots` slots, each `alone` times as fast while others rest, have done all
  /// items, each of which goes to the slot that is free first: list scheduling (Graham 1969), by
  /// groups of slots that are free at the same time; slots differ by a few percent, and the last
  /// items are taken to be done by slow ones. Time: linear in the classes that have items.
  constexpr double time(int slots, double alone) const {
    FreeSlots free(slots);
    for (int i = first_; i < end_; ++i)
      if (classes_[i].items > 0)
        free.take(classes_[i].time / static_cast<double>(classes_[i].items), classes_[i].items);
    double const without_rest = work_ / slots;
    return without_rest + std::max(free.last() - without_rest, 0.0) / alone;
  }

 private:
  /// When slots are free, the soonest first.
  class FreeSlots {
   public:
    constexpr explicit FreeSlots(int slots) : slots_(std::max(slots, 1)) {
      groups_[0] = {0, slots_};
    }

    /// Gives out `items` items of `time` each.
    constexpr void take(double time, std::int64_t items) {
      if (items > slots_ && time > 0) items -= give_out_first(time, items - slots_);
      if (items > 4 * slots_) return;  // left by rounding: too short to be seen
      while (items > 0) {
        Group& soonest = groups_[first_];
        Group const taken{soonest.when + time, std::min(items, soonest.slots)};
        if (slots_ > 1) last_ = std::max(last_, soonest.when + slow * time);
        items -= taken.slots;
        soonest.slots -= taken.slots;
        if (soonest.slots == 0) ++first_;
        put_back(taken);
      }
    }

    /// When all are, if slow slots have the last items.
    constexpr double last() const { return std::max(last_, groups_[end_ - 1].when); }

   private:
    struct Group {
      double when;
      std::int64_t slots;
    };

    /// Of very many items, gives out all at once that begin before the level to which `items` would
    /// fill the slots, if they could be divided. Returns how many: fewer than slots are left, unless
    /// they are so short that the level is rounded.
    constexpr std::int64_t give_out_first(double time, std::int64_t items) {
      double work = time * static_cast<double>(items), slots = 0, level = 0;
      for (int i = first_; i < end_ && (i == first_ || groups_[i].when < level); ++i) {
        slots += static_cast<double>(groups_[i].slots);
        work += groups_[i].when * static_cast<double>(groups_[i].slots);
        level = work / slots;
      }
      std::int64_t given = 0;
      for (int i = first_; i < end_ && groups_[i].when < level; ++i) {
        double const fit = (level - groups_[i].when) / time;  // rounded, if times are far apart
        auto const each = static_cast<std::int64_t>(std::min(static_cast<double>(items), fit));
        groups_[i].when += static_cast<double>(each) * time;
        given += each * groups_[i].slots;
      }
      std::sort(groups_.begin() + first_, groups_.begin() + end_,
                [](Group const& a, Group const& b) { return a.when < b.when; });
      return given;
    }

    constexpr void put_back(Group const& group) {
      int at = end_;
      while (at > first_ && groups_[at - 1].when > group.when) --at;
      bool const as_before = at > first_ && groups_[at - 1].when == group.when;
      if (as_before || end_ - first_ == most) {
        groups_[as_before || at == end_ ? at - 1 : at].slots += group.slots;
        return;
      }
      if (end_ == capacity) {
        std::copy(groups_.begin() + first_, groups_.begin() + end_, groups_.begin());
        at -= first_;
        end_ -= first_;
        first_ = 0;
      }
      std::copy_backward(groups_.begin() + at, groups_.begin() + end_, groups_.begin() + end_ + 1);
      groups_[at] = group;
      ++end_;
    }

    static constexpr int most = 48;            ///< more join the next
    static constexpr int capacity = 4 * most;  ///< so that they seldom move to the front
    std::int64_t slots_;
    int first_ = 0, end_ = 1;
    double last_ = 0;
    std::array<Group, capacity> groups_;
  };

  struct Class {
    std::int64_t items = 0;
    double time = 0;
  };

  std::array<Class, TimeClass::count> classes_{};
  int first_ = TimeClass::count, end_ = 0;  ///< of the classes that have members, or empty
  double work_ = 0;
};

}  // namespace fasttree
