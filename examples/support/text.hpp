// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text for the readers and the picture: the beginning of any bytes on one line or several, and
// numbers with commas. Prompts are cut into tokens of one byte, so a node may begin or end within a
// character: everything here takes any bytes.

#include <fasttree/core/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

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
