// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trees of request traces, from a file, as its author wrote it:
//     {..., "name": "x", ..., "nodes": [[parent, tokens], ...], "requests": [node, ...]}, ...

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <support/random_forest.hpp>

namespace fasttree::bench {

class TreesFile {
 public:
  explicit TreesFile(char const* path) : stream_(path) {}

  bool opened() const { return stream_.is_open(); }

  /// Calls use(name, forest) for each tree.
  template <class Use>
  void each(Use const& use) {
    while (skip_to("\"name\"")) {
      skip_to("\"");
      std::string name;
      std::getline(stream_, name, '"');
      if (!skip_to("\"nodes\"")) return;
      std::vector<int> const nodes = numbers("]]");
      if (!skip_to("\"requests\"")) return;
      test::Forest forest;
      for (std::size_t i = 0; i + 1 < nodes.size(); i += 2) {
        forest.parents.push_back(nodes[i]);
        forest.lengths.push_back(nodes[i + 1]);
      }
      for (int const node : numbers("]")) forest.requests.push_back({node});
      use(name, std::move(forest));
    }
  }

 private:
  bool skip_to(std::string const& text) {
    std::size_t matched = 0;
    for (char c; matched < text.size() && stream_.get(c);)
      matched = c == text[matched] ? matched + 1 : c == text[0];
    return matched == text.size();
  }

  /// All numbers before `end`, whatever lies between.
  std::vector<int> numbers(std::string const& end) {
    std::vector<int> all;
    std::string digits, tail;
    for (char c; stream_.get(c);) {
      bool const digit = (c >= '0' && c <= '9') || c == '-';
      if (digit) digits += c;
      if (!digit && !digits.empty()) all.push_back(std::atoi(digits.c_str())), digits.clear();
      if (!std::isspace(static_cast<unsigned char>(c))) tail += c;
      if (tail.ends_with(end)) break;
      if (tail.size() > end.size()) tail.erase(0, 1);
    }
    return all;
  }

  std::ifstream stream_;
};

}  // namespace fasttree::bench
