// SPDX-License-Identifier: Apache-2.0
#pragma once
// Results files are written whole, beside their place, and then put there.

#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>

#include "arguments.hpp"

namespace fasttree::bench {

inline std::string today() {
  std::time_t const now = std::time(nullptr);
  char text[16] = "";
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// Where a file is written until it is whole.
inline std::string unfinished(std::string const& path) { return path + ".unfinished"; }

/// Errors: std::runtime_error where the file cannot be written; then it is what it was.
inline void replace_file(std::string const& path, std::string const& text) {
  std::FILE* const file = std::fopen(unfinished(path).c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (!written || std::rename(unfinished(path).c_str(), path.c_str()) != 0)
    throw std::runtime_error("\"" + path + "\" cannot be written");
}

/// Errors: `BadArguments` where a file cannot be written, before anything is measured for it.
inline void require_writable(std::string const& path) {
  std::FILE* const file = std::fopen(unfinished(path).c_str(), "w");
  if (file == nullptr) throw BadArguments("--out: \"" + path + "\" cannot be written");
  std::fclose(file);
  std::remove(unfinished(path).c_str());
}

}  // namespace fasttree::bench
