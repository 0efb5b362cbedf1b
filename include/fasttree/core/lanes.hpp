// SPDX-License-Identifier: Apache-2.0
#pragma once
// A few floats that are computed with together: one SIMD register on the host, one float on a GPU,
// where the threads are the lanes. Built on the vector extensions of GCC and Clang, so that it is
// vector code on every version of both and not a hope in an optimiser.
// The number of lanes is part of every type that has any: units built for different CPUs do not
// mix.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fasttree/core/element.hpp>
#include <fasttree/core/kokkos.hpp>

#if FASTTREE_VECTORS && defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define FASTTREE_AVX2_CONVERSIONS 1
#endif

namespace fasttree {

/// Floats in a SIMD register of the CPU that this translation unit is compiled for.
#if !FASTTREE_VECTORS
inline constexpr int native_lanes = 1;
#elif defined(__AVX512F__)
inline constexpr int native_lanes = 16;
#elif defined(__AVX__)
inline constexpr int native_lanes = 8;
#else
inline constexpr int native_lanes = 4;
#endif

/// The name of that instruction set, for results files.
constexpr char const* native_lanes_name() {
#if !FASTTREE_VECTORS
  return "scalar";
#elif defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
  return "AVX2 + FMA";
#elif defined(__AVX__)
  return "AVX";
#elif defined(__SSE2__)
  return "SSE2";
#else
  return "128-bit vectors";
#endif
}

namespace detail {

template <class T, int N>
struct Vector {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T>
struct Vector<T, 1> {
  using type = T;
};

}  // namespace detail

/// `N` floats; `+ - * / < ?:` work lane by lane. A plain float where N is 1.
template <int N>
using Lanes = typename detail::Vector<float, N>::type;

/// `N` 32-bit integers, lane by lane.
template <int N>
using IntegerLanes = typename detail::Vector<std::int32_t, N>::type;

/// N floats from memory; no alignment is asked for.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> load(float const* from) {
  if constexpr (N == 1) return *from;
  Lanes<N> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <int N>
KOKKOS_FORCEINLINE_FUNCTION IntegerLanes<N> load(std::int32_t const* from) {
  IntegerLanes<N> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// N 16-bit elements from memory, as floats. Where x86 has the instruction it is named: GCC does
/// not find it from the general form.
template <int N, class Stored>
requires(sizeof(Stored) == 2) KOKKOS_FORCEINLINE_FUNCTION Lanes<N> load(Stored const* from) {
  if constexpr (N == 1) {
    return static_cast<float>(*from);
#if defined(FASTTREE_AVX2_CONVERSIONS)
  } else if constexpr (N == 8) {
    __m128i const narrow = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from));
    if constexpr (std::is_same_v<Stored, half>) return _mm256_cvtph_ps(narrow);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
#endif
#if defined(FASTTREE_AVX2_CONVERSIONS) && defined(__AVX512F__)
  } else if constexpr (N == 16) {
    __m256i const narrow = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
    if constexpr (std::is_same_v<Stored, half>) return _mm512_maskz_cvtph_ps(0xffff, narrow);
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, narrow), 16));
#endif
  } else {
    typename detail::Vector<std::uint16_t, N>::type narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    using Bits = typename detail::Vector<std::uint32_t, N>::type;
    Bits const bits = __builtin_convertvector(narrow, Bits);
    if constexpr (std::is_same_v<Stored, bfloat16>) {
      return __builtin_bit_cast(Lanes<N>, bits << 16);
    } else {  // half: see its conversion to float
      Bits const magnitude = bits & 0x7fffu;
      auto const scaled = __builtin_bit_cast(Lanes<N>, magnitude << 13) * 0x1p112f;
      Bits const special = magnitude >= 0x7c00u ? Bits{} + 0x7f800000u : Bits{};
      return __builtin_bit_cast(
          Lanes<N>, __builtin_bit_cast(Bits, scaled) | special | ((bits & 0x8000u) << 16));
    }
  }
}

template <int N>
KOKKOS_FORCEINLINE_FUNCTION void store(Lanes<N> const& value, float* to) {
  std::memcpy(to, &value, sizeof(value));
}

/// Has the compiler keep a value in a register: GCC would rather read it from memory at each use,
/// and two loads a cycle then bound what two multiply-adds a cycle could do.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION void keep_in_register([[maybe_unused]] V& value) {
#if FASTTREE_VECTORS && defined(__x86_64__)
  if constexpr (sizeof(V) > sizeof(float)) asm("" : "+v"(value));
#endif
}

/// Asks for the cache line at an address, which need not be one of ours.
KOKKOS_FORCEINLINE_FUNCTION void prefetch([[maybe_unused]] void const* address) {
#if FASTTREE_VECTORS
  __builtin_prefetch(address, 0, 2);
#endif
}

/// a * b + sum, rounded once where the processor can, whatever is done with it.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> multiply_add(float a, Lanes<N> const& b, Lanes<N> const& sum) {
#if defined(__FP_FAST_FMAF) || !FASTTREE_VECTORS
  // Of one lane, GCC moves the product into the branch that needs it, away from its sum.
  if constexpr (N == 1) return std::fma(a, b, sum);
#endif
  return a * b + sum;
}

/// The larger of both, lane by lane; b where a is nan.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V larger(V const& a, V const& b) {
  return a > b ? a : b;
}

namespace detail {

// Without vector types there is one lane, and these are not called.

template <int Stride, class V, std::size_t... L>
KOKKOS_FORCEINLINE_FUNCTION V add_crosswise(V const& a, V const& b, std::index_sequence<L...>) {
#if FASTTREE_VECTORS
  constexpr int n = sizeof...(L);
  return __builtin_shufflevector(a, b, ((L & Stride) ? n + L : L)...) +
         __builtin_shufflevector(a, b, ((L & Stride) ? n + (L ^ Stride) : (L ^ Stride))...);
#else
  return a + b;
#endif
}

template <int Stride, class V, std::size_t... L>
KOKKOS_FORCEINLINE_FUNCTION V swap_lanes(V const& a, std::index_sequence<L...>) {
#if FASTTREE_VECTORS
  return __builtin_shufflevector(a, a, (L ^ Stride)...);
#else
  return a;
#endif
}

}  // namespace detail

/// Lane l of the result: the sum over all lanes of values[l]. Overwrites `values`.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> sums_of(Lanes<N> (&values)[N]) {
  // Each round folds lanes `Stride` apart, of one value into the lower and of another into the
  // upper.
  auto const fold = [&]<int Stride>(auto const& self, std::integral_constant<int, Stride>) {
    FASTTREE_UNROLL
    for (int i = 0; i < Stride; ++i)
      values[i] = detail::add_crosswise<Stride>(values[i], values[i + Stride],
                                                std::make_index_sequence<N>{});
    if constexpr (Stride > 1) self(self, std::integral_constant<int, Stride / 2>{});
  };
  fold(fold, std::integral_constant<int, N / 2>{});
  return values[0];
}

/// Lane l of the result: what `combine` makes of all lanes that are l modulo `Period`, a power of
/// two.
template <int N, int Period, class Combine>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> across_lanes(Lanes<N> value, Combine const& combine) {
  if constexpr (Period < N) {
    value = combine(value, detail::swap_lanes<Period>(value, std::make_index_sequence<N>{}));
    return across_lanes<N, 2 * Period>(value, combine);
  }
  return value;
}

/// The least even integer that is not below x; inf and nan stay what they are.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> even_not_below(Lanes<N> const& x) {
  // Between 2^24 and 2^25 floats are the even integers: the sum rounds x to one. Beyond, x is one.
  Lanes<N> const shift = x < 0.f ? Lanes<N>{} - 0x1p24f : Lanes<N>{} + 0x1p24f;
  Lanes<N> const nearest = (x + shift) - shift;
  Lanes<N> const above = nearest < x ? nearest + 2.f : nearest;
  return x * x < 0x1p48f ? above : x;
}

namespace detail {

/// Added to a number from -2^22 to 2^22, it rounds that to an integer and leaves that in the low
/// bits, 127 more: the exponent of a float.
inline constexpr float to_exponent = 0x1.8p23f + 127.f;

/// 2^n for n from -126 to 127, given n + to_exponent.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> power_of_two(Lanes<N> const& exponent) {
  using Bits = typename Vector<std::uint32_t, N>::type;
  return __builtin_bit_cast(Lanes<N>, __builtin_bit_cast(Bits, exponent) << 23);
}

/// 2^f for |f| <= 1/2, to 2 units in the last place.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> exp2_of_fraction(Lanes<N> const& f) {
  Lanes<N> p = f * 0.000154531629f + 0.00133908634f;
  p = p * f + 0.00961808256f;
  p = p * f + 0.0555035711f;
  p = p * f + 0.240226508f;
  p = p * f + 0.693147188f;
  return p * f + 1.f;
}

}  // namespace detail

/// 2^x for x <= 127, to 2 units in the last place; 0 below -126, nan for nan.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> exp2(Lanes<N> const& x) {
  Lanes<N> const exponent = x + detail::to_exponent;
  Lanes<N> const f = x - (exponent - detail::to_exponent);
  return x < -126.f ? Lanes<N>{}
                    : detail::exp2_of_fraction<N>(f) * detail::power_of_two<N>(exponent);
}

/// 2^x / 2^m for an even integer m >= x, to 2 units in the last place; 0 where x rounds to less
/// than m - 125. Apart from that, m moves the exponent and changes no digit: which digits, only the
/// fraction of x decides. (Even, so that a fraction of 1/2 is always rounded to the same side.)
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> exp2_over(Lanes<N> const& x, Lanes<N> const& m) {
  // As in exp2, but x - m would round: m goes into the number that is added. Where m is too large
  // for that, x - m is exact wherever the result is not 0.
  auto const is_small = m * m < 0x1p42f;
  Lanes<N> const shift = detail::to_exponent - (is_small ? m : Lanes<N>{});
  Lanes<N> const rest = x - (is_small ? Lanes<N>{} : m);
  Lanes<N> const exponent = rest + shift;
  Lanes<N> const f = rest - (exponent - shift);
  return exponent < detail::to_exponent - 125.f
             ? Lanes<N>{}
             : detail::exp2_of_fraction<N>(f) * detail::power_of_two<N>(exponent);
}

}  // namespace fasttree

#undef FASTTREE_AVX2_CONVERSIONS
