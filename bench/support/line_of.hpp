// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the system's files say about a host.

#include <fstream>
#include <string>

namespace fasttree::bench {

/// What follows `key` on its line of a file.
inline std::string line_of(char const* file, std::string const& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(key)) {
      auto const begin = line.find_first_not_of(" \t:", key.size());
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "unknown";
}

}  // namespace fasttree::bench
