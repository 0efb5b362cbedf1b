// SPDX-License-Identifier: Apache-2.0
// The monoid: commutative to the bit, an exact identity, associative up to rounding, in both bases;
// garbage in an empty side never leaks, and nan never gets lost.

#include <fasttree/core/log_sum_exp.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/random.hpp"

namespace {

using namespace fasttree;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// A partial result of one dimension.
template <LogBase Base>
struct Partial {
  float output = 0;
  LogSumExp<Base> log_sum_exp;
};

template <LogBase Base>
Partial<Base> merged(Partial<Base> const& a, Partial<Base> const& b) {
  auto const weights = merge_weights(a.log_sum_exp, b.log_sum_exp);
  return {merge_outputs(weights, a.output, b.output), weights.log_sum_exp};
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

template <LogBase Base>
bool same_bits(Partial<Base> const& a, Partial<Base> const& b) {
  return same_bits(a.output, b.output) && same_bits(a.log_sum_exp.value, b.log_sum_exp.value);
}

/// Log-sum-exps close to each other and far apart, equal ones, some empty.
template <LogBase Base>
Partial<Base> random_partial(fasttree::test::Random& random) {
  float const sizes[] = {0.f, 1e-6f, 1.f, 30.f, 1000.f, 1e30f};
  float const log_sum_exp = random.one_in(8) ? -infinity : random.real(sizes[random.integer(0, 5)]);
  return {random.real(4), {log_sum_exp}};
}

}  // namespace

TEST_CASE_TEMPLATE("merge is commutative to the bit", Base,
                   std::integral_constant<LogBase, LogBase::e>,
                   std::integral_constant<LogBase, LogBase::two>) {
  fasttree::test::Random random(1);
  int different = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto const a = random_partial<Base::value>(random), b = random_partial<Base::value>(random);
    if (!same_bits(merged(a, b), merged(b, a))) ++different;
  }
  CHECK(different == 0);
}

TEST_CASE_TEMPLATE("(0, -inf) is the identity to the bit, from both sides", Base,
                   std::integral_constant<LogBase, LogBase::e>,
                   std::integral_constant<LogBase, LogBase::two>) {
  using P = Partial<Base::value>;
  for (float const log_sum_exp : {1.25f, -3e38f, 3e38f, 0.f, infinity, 1e-45f})
    for (float const output : {1.5f, -0.f, 0.f, 3e38f, 1e-45f}) {
      CAPTURE(log_sum_exp);
      CAPTURE(output);
      P const x{output, {log_sum_exp}};
      CHECK(same_bits(merged(x, P{}), x));
      CHECK(same_bits(merged(P{}, x), x));
    }
}

TEST_CASE("(0, -inf) is the identity to the bit of a log-sum-exp of -0 as well") {
  using P = Partial<LogBase::e>;
  P const x{1.f, {-0.f}};
  CHECK(same_bits(merged(x, P{}), x));
  CHECK(same_bits(merged(P{}, x), x));
}

TEST_CASE("both sides without keys: output 0, log-sum-exp -inf, no nan") {
  auto const weights = merge_weights(NaturalLogSumExp{}, NaturalLogSumExp{});
  CHECK(weights.a == 0.f);
  CHECK(weights.b == 0.f);
  CHECK(weights.log_sum_exp.value == -infinity);
  CHECK(same_bits(merge_outputs(weights, quiet_nan, infinity), 0.f));
}

TEST_CASE("the output of a side without keys is never read") {
  for (float const garbage : {quiet_nan, infinity, -infinity}) {
    Partial<LogBase::e> const keys{2.f, {0.5f}}, none{garbage, {-infinity}};
    CHECK(same_bits(merged(keys, none), keys));
    CHECK(same_bits(merged(none, keys), keys));
  }
}

TEST_CASE("nan in one side makes the merge nan, also beside a side without keys") {
  using P = Partial<LogBase::e>;
  P const broken{1.f, {quiet_nan}}, fine{2.f, {0.5f}}, none;
  for (P const& other : {fine, none, broken}) {
    CAPTURE(other.log_sum_exp.value);
    for (P const& result : {merged(broken, other), merged(other, broken)}) {
      CHECK(std::isnan(result.output));
      CHECK(std::isnan(result.log_sum_exp.value));
    }
  }
  P const bad_output{quiet_nan, {0.f}};
  CHECK(std::isnan(merged(bad_output, fine).output));
  CHECK(std::isnan(merged(fine, bad_output).output));
}

TEST_CASE("merge is right to 4 roundings, and so associative up to rounding") {
  // Weights in [0, 1] and outputs of at most 4: per merge at most 4 u for the weights (difference,
  // power of at most 2 units, sum, quotient; the difference d loses d e^-d <= 0.4 u) and 1.5 u for
  // the sum.
  constexpr double u = 0x1p-24, bound = 2 * 2 * 8 * u * 4;  // two merges, each way
  fasttree::test::Random random(2);
  double worst = 0, worst_log = 0;
  for (int i = 0; i < 100'000; ++i) {
    Partial<LogBase::e> x[3];
    for (auto& partial : x) partial = {random.real(4), {random.real(8)}};
    auto const left = merged(merged(x[0], x[1]), x[2]), right = merged(x[0], merged(x[1], x[2]));
    worst = std::max(worst, std::abs(double(left.output) - right.output));
    worst_log =
        std::max(worst_log, std::abs(double(left.log_sum_exp.value) - right.log_sum_exp.value));
    double sum = 0, output = 0;
    for (auto const& partial : x) {
      sum += std::exp(double(partial.log_sum_exp.value));
      output += std::exp(double(partial.log_sum_exp.value)) * partial.output;
    }
    worst = std::max(worst, std::abs(left.output - output / sum));
    worst_log = std::max(worst_log, std::abs(left.log_sum_exp.value - std::log(sum)));
  }
  CHECK(worst <= bound);
  CHECK(worst_log <= 2 * 2 * 2 * u * 10);  // sizes of at most 8 + log 3, two roundings a merge
}

TEST_CASE("log-sum-exps far beyond the range of exp merge exactly") {
  for (float const size : {-1e30f, 1e30f, -3e38f}) {
    CAPTURE(size);
    Partial<LogBase::e> const a{1.f, {size}}, b{3.f, {size}};
    CHECK(merged(a, b).output == 2.f);
    CHECK(merged(a, b).log_sum_exp.value == size);
  }
}

TEST_CASE("the base is part of the type, and convert is the only way between bases") {
  static_assert(!std::is_convertible_v<NaturalLogSumExp, BinaryLogSumExp>);
  static_assert(!std::is_convertible_v<NaturalLogSumExp, float>);
  static_assert(sizeof(NaturalLogSumExp) == sizeof(float));
  CHECK(same_bits(convert<LogBase::e>(NaturalLogSumExp{0.1f}).value, 0.1f));
  CHECK(convert<LogBase::two>(NaturalLogSumExp{1.f}).value ==
        doctest::Approx(1.4426950408889634).epsilon(0x1p-23));
  CHECK(convert<LogBase::e>(BinaryLogSumExp{1.f}).value ==
        doctest::Approx(0.6931471805599453).epsilon(0x1p-23));
  CHECK(convert<LogBase::two>(NaturalLogSumExp{}).value == -infinity);
  CHECK(convert<LogBase::e>(BinaryLogSumExp{}).value == -infinity);
}
