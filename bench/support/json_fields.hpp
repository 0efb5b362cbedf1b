// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fields of a flat JSON object, one after the other.

#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>

namespace fasttree::bench {

/// A string as JSON writes it.
inline std::string json_string(std::string const& value) {
  std::string text = "\"";
  for (char const c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return text + "\"";
}

class Fields {
 public:
  Fields& add(char const* name, std::string const& value) {
    return append(name, json_string(value));
  }
  /// A number that is not finite is written as null.
  Fields& add(char const* name, double value) {
    char text[32] = "null";
    if (std::isfinite(value))
      std::snprintf(text, sizeof(text), value == std::floor(value) ? "%.0f" : "%.6g", value);
    return append(name, text);
  }
  Fields& add(char const* name, std::same_as<bool> auto value) {
    return append(name, value ? "true" : "false");
  }
  std::string const& text() const { return text_; }

 private:
  Fields& append(char const* name, std::string const& value) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
    return *this;
  }

  std::string text_;
};

}  // namespace fasttree::bench
