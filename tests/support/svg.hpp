// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads pictures as far as tests want to: what stands in them, and whether their tags are balanced.

#include <cstddef>
#include <string>
#include <vector>

namespace fasttree::test {

/// How often `what` stands in `text`.
inline int count(std::string const& text, std::string const& what) {
  int found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// The number in the first attribute `name` from a place on.
inline double attribute(std::string const& text, std::size_t from, std::string const& name) {
  return std::stod(text.substr(text.find(" " + name + "=\"", from) + name.size() + 3));
}

/// Every tag is closed in order, and nothing but tags stands between < and >.
inline bool well_formed(std::string const& text) {
  std::vector<std::string> open;
  for (auto at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    auto const end = text.find('>', at);
    if (end == text.npos) return false;
    std::string const tag = text.substr(at + 1, end - at - 1);
    if (tag.starts_with("!--") || tag.ends_with("/")) continue;
    std::string const name = tag.substr(0, tag.find(' '));
    if (!tag.starts_with("/")) {
      open.push_back(name);
    } else {
      if (open.empty() || "/" + open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace fasttree::test
