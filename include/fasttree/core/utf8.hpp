// SPDX-License-Identifier: Apache-2.0
#pragma once
// UTF-8, one code point at a time, for texts that may hold any bytes: names in a picture, prompts
// in a file.

#include <cstddef>
#include <string>
#include <string_view>

namespace fasttree {

/// A Unicode code point and the bytes it took; bytes == 0 says that none could be decoded.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

/// The code point that `text` begins with. Truncated or overlong sequences, surrogates and values
/// past U+10FFFF are not UTF-8 and give bytes == 0, as does an empty text. O(1).
constexpr CodePoint decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = byte(0);
  if (lead < 0x80) return {static_cast<char32_t>(lead), 1};
  std::size_t const bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t value = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return {};
    value = (value << 6) | (byte(i) & 0x3fu);
  }
  bool const overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  bool const surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

/// Appends `value`, a code point that is not a surrogate, as UTF-8. O(1).
inline void append_utf8(std::string& text, char32_t value) {
  auto const put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | (value >> 6));
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3f));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

}  // namespace fasttree
