// SPDX-License-Identifier: Apache-2.0
// half and bfloat16: all 65536 patterns to float, every rounding boundary back, against arithmetic
// in double that knows only the formats' definitions.

#include <fasttree/core/element.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using fasttree::bfloat16;
using fasttree::half;

struct Format {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int special() const { return (1 << exponent_bits) - 1; }
};
constexpr Format half_format{5, 10}, bfloat16_format{8, 7};

/// The value of a pattern, from the definition of the format.
double value_of(Format format, std::uint16_t bits) {
  double const sign = bits & 0x8000 ? -1 : 1;
  int const exponent = (bits & 0x7fff) >> format.mantissa_bits;
  int const mantissa = bits & ((1 << format.mantissa_bits) - 1);
  if (exponent == format.special())
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  int const scale = std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  return sign *
         std::ldexp(exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits), scale);
}

template <class T>
T from_bits(int bits) {
  T element;
  element.bits = static_cast<std::uint16_t>(bits);
  return element;
}

/// Patterns whose value is not the definition's.
template <class T>
int wrong_values(Format format) {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    float const value = from_bits<T>(bits);
    double const expected = value_of(format, static_cast<std::uint16_t>(bits));
    bool const same = std::isnan(expected)
                          ? std::isnan(value)
                          : value == expected && std::signbit(value) == (bits >> 15);
    if (!same) ++wrong;
  }
  return wrong;
}

/// Patterns that do not come back from float; nan comes back as some nan.
template <class T>
int wrong_round_trips() {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    float const value = from_bits<T>(bits);
    T const back(value);
    if (std::isnan(value) ? !std::isnan(float(back)) : back.bits != bits) ++wrong;
  }
  return wrong;
}

/// Between each two neighbours: the middle goes to the even one, the floats beside it to the nearer
/// one. The last "neighbour" of the largest finite number is the next power of two, which rounds to
/// infinity.
template <class T>
int wrong_roundings(Format format) {
  int const infinity = format.special() << format.mantissa_bits;
  int wrong = 0;
  for (int sign : {0, 0x8000}) {
    for (int below = 0; below < infinity; ++below) {
      double const low = value_of(format, static_cast<std::uint16_t>(below));
      double const high = below + 1 < infinity
                              ? value_of(format, static_cast<std::uint16_t>(below + 1))
                              : std::ldexp(1.0, format.bias() + 1);
      float const middle = static_cast<float>((low + high) / 2);  // exact
      float const s = sign ? -1.f : 1.f;
      auto const bits_of = [&](float x) { return static_cast<int>(T(s * x).bits); };
      wrong += bits_of(middle) != (sign | (below % 2 == 0 ? below : below + 1));
      wrong += bits_of(std::nextafter(middle, 0.f)) != (sign | below);
      wrong += bits_of(std::nextafter(middle, std::numeric_limits<float>::infinity())) !=
               (sign | (below + 1));
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("half: every pattern has the value that IEEE 754 gives it") {
  CHECK(wrong_values<half>(half_format) == 0);
}

TEST_CASE("bfloat16: every pattern is the upper half of a float") {
  CHECK(wrong_values<bfloat16>(bfloat16_format) == 0);
}

TEST_CASE("every pattern survives the way to float and back") {
  CHECK(wrong_round_trips<half>() == 0);
  CHECK(wrong_round_trips<bfloat16>() == 0);
}

TEST_CASE("float is rounded to the nearest, ties to even, subnormal and overflowing numbers too") {
  CHECK(wrong_roundings<half>(half_format) == 0);
  CHECK(wrong_roundings<bfloat16>(bfloat16_format) == 0);
}

TEST_CASE("infinities, zeros and nans keep their sign and their kind") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(half(infinity).bits == 0x7c00);
  CHECK(half(-infinity).bits == 0xfc00);
  CHECK(half(-0.f).bits == 0x8000);
  CHECK(bfloat16(infinity).bits == 0x7f80);
  CHECK(bfloat16(-infinity).bits == 0xff80);
  CHECK(bfloat16(-0.f).bits == 0x8000);
  for (std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
    CAPTURE(bits);
    float const nan = std::bit_cast<float>(bits);
    CHECK(std::isnan(float(half(nan))));
    CHECK(std::isnan(float(bfloat16(nan))));
  }
}

TEST_CASE("elements are storage: two bytes, usable in constant expressions") {
  static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);
  static_assert(half(1.f).bits == 0x3c00 && float(half(-2.5f)) == -2.5f);
  static_assert(bfloat16(1.f).bits == 0x3f80 && float(bfloat16(-2.5f)) == -2.5f);
  static_assert(fasttree::unit_roundoff<half> == 0x1p-11);
  static_assert(fasttree::Element<float> && !fasttree::Element<double>);
}

#ifdef __FLT16_MAX__
TEST_CASE("half agrees with the compiler's own _Float16 on a sweep over all exponents of float") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 997) {
    float const value = std::bit_cast<float>(bits);
    auto const expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    if (half(value).bits != expected) ++wrong;
  }
  CHECK(wrong == 0);
}
#endif
