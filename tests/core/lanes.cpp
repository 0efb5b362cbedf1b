// SPDX-License-Identifier: Apache-2.0
// SIMD lanes: 2^x within its promise, loads of 16-bit elements equal to the scalar conversion.

#include <fasttree/core/lanes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace {

using fasttree::Lanes;
using fasttree::native_lanes;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// `function` of `x` in every lane; the result of the last.
template <int N, class Function>
float in_last_lane(float x, Function const& function) {
  float in[N], out[N];
  std::fill(in, in + N, x);
  fasttree::store<N>(function(fasttree::load<N>(in)), out);
  return out[N - 1];
}

template <int N>
float exp2_of(float x) {
  return in_last_lane<N>(x, fasttree::exp2<N>);
}

template <int N>
float exp2_over(float x, float m) {
  return in_last_lane<N>(
      x, [=](Lanes<N> const& lanes) { return fasttree::exp2_over<N>(lanes, Lanes<N>{} + m); });
}

/// The largest error of exp2 on [from, to], in units of the last place of the exact value.
template <int N>
double worst_exp2(float from, float to, float step) {
  double worst = 0;
  for (float x = from; x <= to; x += step) {
    double const exact = std::exp2(static_cast<double>(x));
    double const unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(exp2_of<N>(x) - exact) / unit);
  }
  return worst;
}

/// Patterns that a lane loads differently from the scalar conversion.
template <class Stored>
int wrong_loads() {
  constexpr int N = native_lanes;
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; bits += N) {
    Stored stored[N];
    float loaded[N];
    for (int i = 0; i < N; ++i) stored[i].bits = static_cast<std::uint16_t>(bits + i);
    fasttree::store<N>(fasttree::load<N>(stored), loaded);
    for (int i = 0; i < N; ++i) {
      float const expected = stored[i];
      wrong += std::isnan(expected) ? !std::isnan(loaded[i])
                                    : std::bit_cast<std::uint32_t>(loaded[i]) !=
                                          std::bit_cast<std::uint32_t>(expected);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("exp2 is within 2 units in the last place from -126 to 127, vector and scalar") {
  CHECK(worst_exp2<native_lanes>(-126.f, 127.f, 0.00037f) <= 2);
  CHECK(worst_exp2<native_lanes>(-1.f, 1.f, 0x1p-20f) <= 2);
  CHECK(worst_exp2<1>(-126.f, 127.f, 0.0037f) <= 2);
}

TEST_CASE("exp2 is exact at integers, so that a correction by 2^0 changes no bit") {
  for (int n = -126; n <= 127; ++n) {
    CAPTURE(n);
    CHECK(exp2_of<native_lanes>(static_cast<float>(n)) == std::ldexp(1.f, n));
  }
  CHECK(exp2_of<native_lanes>(-0.f) == 1.f);
}

TEST_CASE("exp2 is 0 below -126, also far below and at -inf") {
  for (float const x : {std::nextafter(-126.f, -infinity), -127.f, -150.f, -1e4f, -1e10f, -1e30f,
                        std::numeric_limits<float>::lowest(), -infinity}) {
    CAPTURE(x);
    CHECK(exp2_of<native_lanes>(x) == 0.f);
    CHECK(exp2_of<1>(x) == 0.f);
  }
}

TEST_CASE("exp2 of nan is nan") {
  CHECK(std::isnan(exp2_of<native_lanes>(quiet_nan)));
  CHECK(std::isnan(exp2_of<1>(-quiet_nan)));
}

TEST_CASE("even_not_below is the least even integer that is not below") {
  auto const even = [](float x) {
    return in_last_lane<native_lanes>(x, fasttree::even_not_below<native_lanes>);
  };
  std::pair<float, float> const cases[] = {{0.f, 0.f},
                                           {0.1f, 2.f},
                                           {1.f, 2.f},
                                           {2.f, 2.f},
                                           {2.001f, 4.f},
                                           {-0.5f, 0.f},
                                           {-1.999f, 0.f},
                                           {-2.f, -2.f},
                                           {-2.5f, -2.f},
                                           {0x1p22f + 0.5f, 0x1p22f + 2.f},
                                           {0x1p23f + 1.f, 0x1p23f + 2.f},
                                           {-0x1p23f - 1.f, -0x1p23f},
                                           {0x1p24f - 1.f, 0x1p24f},
                                           {-0x1p24f + 1.f, -0x1p24f + 2.f},
                                           {0x1p24f + 2.f, 0x1p24f + 2.f}};
  for (auto const& number : cases) {
    CAPTURE(number.first);
    CHECK(even(number.first) == number.second);
  }
  for (float const x : {1e30f, -1e30f, infinity, -infinity}) CHECK(even(x) == x);
  CHECK(std::isnan(even(quiet_nan)));
}

TEST_CASE("exp2_over has the same digits for every m, and is within 2 units in the last place") {
  // Around 0 and where floats begin to lose fractions; 1/2 among the fractions.
  for (float const around : {0.f, 7.f, -40.f, 0x1p20f, 0x1p21f, -0x1p21f, 0x1p22f, -0x1p22f,
                             0x1p23f, -0x1p23f, 0x1p24f, -0x1p24f, 0x1p30f, 1e20f}) {
    CAPTURE(around);
    int different = 0;
    double worst = 0;
    for (float offset = -8; offset <= 8; offset += 0x1p-7f) {
      float const x = around + offset;
      float const least = in_last_lane<native_lanes>(x, fasttree::even_not_below<native_lanes>);
      float const digits = exp2_over<native_lanes>(x, least);
      double const exact = std::exp2(double{x} - least);
      worst = std::max(worst, std::abs(digits - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
      for (int more = 2; more <= 122; more += 2) {
        float const m = least + static_cast<float>(more);
        if (m - least != static_cast<float>(more)) continue;  // m is not a float
        different += exp2_over<native_lanes>(x, m) != std::ldexp(digits, -more);
        different += exp2_over<1>(x, m) != exp2_over<native_lanes>(x, m);
      }
    }
    CHECK(different == 0);
    CHECK(worst <= 2);
  }
}

TEST_CASE("exp2_over is 0 far below m and for -inf, nan for nan and for inf / inf") {
  for (float const x : {-127.f, -1e4f, -1e10f, -1e30f, -infinity})
    for (float const m : {0.f, 100.f, 0x1p22f, 1e30f}) CHECK(exp2_over<native_lanes>(x, m) == 0.f);
  CHECK(exp2_over<native_lanes>(3.f, infinity) == 0.f);
  for (float const m : {0.f, -100.f, 1e30f, infinity})
    CHECK(std::isnan(exp2_over<native_lanes>(quiet_nan, m)));
  CHECK(std::isnan(exp2_over<native_lanes>(infinity, infinity)));
}

TEST_CASE("lanes load 16-bit elements as the scalar conversion reads them, all 65536 patterns") {
  CHECK(wrong_loads<fasttree::half>() == 0);
  CHECK(wrong_loads<fasttree::bfloat16>() == 0);
}

TEST_CASE("larger keeps its second argument where the first is nan") {
  CHECK(fasttree::larger(quiet_nan, 1.f) == 1.f);
  CHECK(fasttree::larger(2.f, 1.f) == 2.f);
  CHECK(fasttree::larger(-infinity, -infinity) == -infinity);
}
