// SPDX-License-Identifier: Apache-2.0
#pragma once
// A few floats that are computed with together: one SIMD register on the host, one float on a GPU,
// where the threads are the lanes. Built on the vector extensions of GCC and Clang, so that it is
// vector code on every version of both and not a hope in an optimiser.
// The number of lanes is part of every type: translation units built for different CPUs do not mix.

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fasttree/core/element.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// Floats in a SIMD register of the CPU that this translation unit is compiled for.
#if defined(__AVX512F__)
inline constexpr int native_lanes = 16;
#elif defined(__AVX__)
inline constexpr int native_lanes = 8;
#else
inline constexpr int native_lanes = 4;
#endif

/// The name of that instruction set, for results files.
constexpr char const* native_lanes_name() {
#if defined(__AVX512F__)
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

/// N 16-bit elements from memory, as floats.
template <int N, class Stored>
  requires(sizeof(Stored) == 2)
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> load(Stored const* from) {
  if constexpr (N == 1) {
    return static_cast<float>(*from);
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

/// The larger of both, lane by lane; b where a is nan.
template <class V>
KOKKOS_FORCEINLINE_FUNCTION V larger(V const& a, V const& b) {
  return a > b ? a : b;
}

/// 2^x for x <= 127, to 2 units in the last place; 0 below -126, nan for nan.
template <int N>
KOKKOS_FORCEINLINE_FUNCTION Lanes<N> exp2(Lanes<N> const& x) {
  // x = n + f with |f| <= 1/2: adding 1.5 * 2^23 rounds x to the integer n and leaves n in the low bits.
  Lanes<N> const shifted = x + 0x1.8p23f;
  Lanes<N> const f = x - (shifted - 0x1.8p23f);
  Lanes<N> p = f * 0.000154531629f + 0.00133908634f;
  p = p * f + 0.00961808256f;
  p = p * f + 0.0555035711f;
  p = p * f + 0.240226508f;
  p = p * f + 0.693147188f;
  p = p * f + 1.f;
  auto const power =
      __builtin_bit_cast(Lanes<N>, (__builtin_bit_cast(IntegerLanes<N>, shifted) << 23) + 0x3f800000);
  return x < -126.f ? Lanes<N>{} : p * power;
}

}  // namespace fasttree
