// SPDX-License-Identifier: Apache-2.0
#pragma once
// The element types that queries, keys, values and outputs are stored in: float, half, bfloat16.
// The 16-bit types are storage: 2 bytes with the layout of CUDA's __half and __nv_bfloat16, of
// HIP's and of _Float16, converted to float before any arithmetic and rounded to nearest even on
// the way back.

#include <cstdint>
#include <type_traits>

#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// IEEE 754 binary16: 11 bits of precision, largest finite value 65504.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  FASTTREE_INLINE_FUNCTION explicit constexpr half(float value) : bits(round(value)) {}

  FASTTREE_INLINE_FUNCTION constexpr operator float() const {
    std::uint32_t const sign = (bits & 0x8000u) << 16;
    std::uint32_t const magnitude = bits & 0x7fffu;
    // Moving the exponent by a product makes subnormal halves come out right as well.
    float const scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
    std::uint32_t const special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;  // inf and nan
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scaled) | special | sign);
  }

 private:
  FASTTREE_INLINE_FUNCTION static constexpr std::uint16_t round(float value) {
    std::uint32_t const all = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const sign = (all >> 16) & 0x8000u;
    std::uint32_t const magnitude = all & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // nan
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // above 65504
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 aligns and rounds the mantissa
      float const aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign |
                                        (__builtin_bit_cast(std::uint32_t, aligned) - 0x3f000000u));
    }
    std::uint32_t const odd = (magnitude >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
};

/// The upper half of a float: 8 bits of precision, the range of float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  FASTTREE_INLINE_FUNCTION explicit constexpr bfloat16(float value) : bits(round(value)) {}

  FASTTREE_INLINE_FUNCTION constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  FASTTREE_INLINE_FUNCTION static constexpr std::uint16_t round(float value) {
    std::uint32_t const all = __builtin_bit_cast(std::uint32_t, value);
    if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((all >> 16) | 0x40u);
    return static_cast<std::uint16_t>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
  }
};

/// What keys, values, queries and outputs may be stored in.
template <class T>
concept Element =
    std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

/// The name of an element type, for messages and results files.
template <Element T>
constexpr char const* element_name() {
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, half>) return "half";
  if constexpr (std::is_same_v<T, bfloat16>) return "bfloat16";
}

/// The unit roundoff of an element type: half the distance from 1 to the next number.
template <Element T>
inline constexpr double unit_roundoff = std::is_same_v<T, float>  ? 0x1p-24
                                        : std::is_same_v<T, half> ? 0x1p-11
                                                                  : 0x1p-8;

}  // namespace fasttree
