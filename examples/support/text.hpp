// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text for the readers and the picture: decode and append a code point of UTF-8, show the beginning
// of any bytes on one line or several, and numbers with commas. Prompts are cut into tokens of one
// byte, so a node may begin or end within a character: everything here takes any bytes.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

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

/// The beginning of `text` as one line of valid UTF-8: at most `limit` code points, then an
/// ellipsis if something was left out. Runs of white space become one space, control characters
/// and bytes that are not UTF-8 become U+FFFD. Reads no further than it must.
inline std::string excerpt(std::string_view text, int limit) {
  std::string shown;
  bool space = false;
  for (int count = 0; !text.empty();) {
    CodePoint const next = decode_utf8(text);
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
    if (next.value == ' ' || (next.value >= '\t' && next.value <= '\r')) {
      space = !shown.empty();
      continue;
    }
    int const needed = space ? 2 : 1;
    if (count + needed > limit) return shown + "\u2026";
    count += needed;
    if (space) shown += ' ';
    space = false;
    bool const control = next.value < 0x20 || (next.value >= 0x7f && next.value < 0xa0);
    bool const unusable = next.bytes == 0 || control || (next.value & 0xfffe) == 0xfffe;
    append_utf8(shown, unusable ? char32_t{0xfffd} : next.value);
  }
  return shown;
}

/// The beginning of `text` in at most `rows` lines of at most `letters` letters, broken at spaces
/// where there are any; the last ends in an ellipsis if something is left. O(rows * letters).
inline std::vector<std::string> wrap_text(std::string_view text, int letters, int rows) {
  std::vector<std::string> lines;
  if (letters < 3 || rows < 1) return lines;
  std::string const whole = excerpt(text, letters * rows);
  constexpr std::size_t ellipsis = 3;  // bytes
  std::string_view rest = whole;
  while (!rest.empty()) {
    std::string const cut = excerpt(rest, letters - 1);
    if (static_cast<int>(lines.size()) + 1 == rows || !cut.ends_with("\u2026") || cut == rest) {
      lines.push_back(cut);
      break;
    }
    std::string_view shown = rest.substr(0, cut.size() - ellipsis);
    std::size_t const space = shown.rfind(' ');
    if (rest[shown.size()] != ' ' && space != shown.npos) shown = shown.substr(0, space);
    lines.emplace_back(shown);
    rest.remove_prefix(shown.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
  return lines;
}

/// `number` with commas between thousands: 12,345.
inline std::string group_thousands(long long number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-'; at -= 3) {
    digits.insert(at - 3, 1, ',');
  }
  return digits;
}

}  // namespace fasttree::examples
