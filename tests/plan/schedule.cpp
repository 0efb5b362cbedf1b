// SPDX-License-Identifier: Apache-2.0
// The prediction of how long slots work on items, against a queue that is worked off item by item.

#include <fasttree/plan/schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "support/random.hpp"

namespace {

using namespace fasttree;
using Items = std::vector<std::pair<double, std::int64_t>>;  ///< a time, and how many take it

/// When the last slot is free: each item goes to the slot that is free first, the longest first, and
/// a slot is slow with its last, if there are others.
double end_of_queue(Items items, int slots) {
  std::sort(items.begin(), items.end(), std::greater<>());
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (int slot = 0; slot < slots; ++slot) free.push(0);
  double end = 0;
  for (auto const& [time, count] : items)
    for (std::int64_t i = 0; i < count; ++i) {
      double const ends = free.top() + time;
      free.pop();
      free.push(ends);
      end = std::max(end, ends + (slots > 1 ? Schedule::slow - 1 : 0) * time);
    }
  return end;
}

double predicted(Items const& items, int slots, double alone = 1) {
  Schedule schedule;
  for (auto const& [time, count] : items) schedule.add(time, count);
  return schedule.time(slots, alone);
}

constexpr double of_one_item() {
  Schedule schedule;
  schedule.add(6, 1);
  return schedule.time(4, 2);
}
static_assert(of_one_item() == 1.5 + (Schedule::slow * 6 - 1.5) / 2,
              "faster while the other slots rest");

}  // namespace

TEST_CASE("a few items that take long do not hold up very many that do not") {
  for (Items const& items : {Items{{100, 8}, {1, 1320}}, Items{{100, 8}, {1, 10560}},
                             Items{{50, 16}, {2, 2000}}, Items{{30, 64}, {3, 2400}}})
    CHECK(predicted(items, 132) == doctest::Approx(end_of_queue(items, 132)));
  // So short that a clock which shows the long one stands still.
  CHECK(predicted({{0x1p60, 1}, {1e-9, std::int64_t{1} << 50}}, 1) == doctest::Approx(0x1p60));
}

TEST_CASE("any items take as long as in a queue that is worked off one by one") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    int const slots = random.integer(1, 150);
    Items items;
    // No two times are in one class of a sixteenth of an octave, so that each stands for itself.
    for (int i = 0, classes = random.integer(1, 12); i < classes; ++i)
      items.emplace_back(
          std::exp2(i + random.integer(1, 15) / 16.0) / 100,
          random.integer(1, 2) == 1 ? random.integer(1, 40) : random.integer(1, 2000));
    CHECK(predicted(items, slots) == doctest::Approx(end_of_queue(items, slots)));
  }
}

TEST_CASE("where times are too many to tell apart, no work is lost") {
  Items items;
  double work = 0;
  for (int i = 0; i < 300; ++i) {
    items.emplace_back(std::exp2(i / 16.0), 1);
    work += items.back().first;
  }
  double const end = predicted(items, 200);
  CHECK(end >= work / 200);
  CHECK(end >= items.back().first);
  CHECK(end <=
        4. / 3 * Schedule::slow * std::max(work / 200, items.back().first) + items.back().first);
}
