// SPDX-License-Identifier: Apache-2.0
// SIMD lanes: 2^x within its promise, loads of 16-bit elements equal to the scalar conversion.

#include <fasttree/core/lanes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using fasttree::Lanes;
using fasttree::native_lanes;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// exp2 of `x` in every lane; the result of the last.
template <int N>
float exp2_of(float x) {
  float in[N], out[N];
  std::fill(in, in + N, x);
  fasttree::store<N>(fasttree::exp2<N>(fasttree::load<N>(in)), out);
  return out[N - 1];
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

TEST_CASE("lanes load 16-bit elements as the scalar conversion reads them, all 65536 patterns") {
  CHECK(wrong_loads<fasttree::half>() == 0);
  CHECK(wrong_loads<fasttree::bfloat16>() == 0);
}

TEST_CASE("larger keeps its second argument where the first is nan") {
  CHECK(fasttree::larger(quiet_nan, 1.f) == 1.f);
  CHECK(fasttree::larger(2.f, 1.f) == 2.f);
  CHECK(fasttree::larger(-infinity, -infinity) == -infinity);
}
