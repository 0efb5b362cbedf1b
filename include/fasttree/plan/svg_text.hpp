// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts and numbers as SVG wants them, for pictures of plans and of trees: names may hold any
// bytes, and the program that draws may have set a locale with decimal commas.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fasttree/core/utf8.hpp>

namespace fasttree {

/// `text` for XML: markup escaped; control characters and bytes that are not UTF-8 as U+FFFD.
inline std::string escape_xml(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    CodePoint const next = decode_utf8(text);
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
    bool const space = next.value == '\n' || next.value == '\t';
    bool const control = (next.value < 0x20 && !space) || (next.value >= 0x7f && next.value < 0xa0);
    switch (next.value) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        append_utf8(escaped, next.bytes == 0 || control || (next.value & 0xfffe) == 0xfffe
                                 ? char32_t{0xfffd}
                                 : next.value);
    }
  }
  return escaped;
}

/// A number from 0 on with two decimals at most, the same under every locale. One that no picture
/// has room for, or that is none, becomes 0 or 1e12.
inline std::string svg_number(double value) {
  constexpr double most = 1e12;
  value = value > 0 ? std::min(value, most) : 0;  // a nan too
  auto const hundredths = std::llround(value * 100);
  std::string text = std::to_string(hundredths / 100);
  if (hundredths % 100 == 0) return text;
  text += '.';
  text += static_cast<char>('0' + hundredths % 100 / 10);
  if (hundredths % 10 != 0) text += static_cast<char>('0' + hundredths % 10);
  return text;
}

}  // namespace fasttree
