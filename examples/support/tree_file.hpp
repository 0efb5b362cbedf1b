// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tree format of the FastTree paper's benchmark: the first line holds the number of nodes,
// every further line one node, `parent id tokens children`; parent -1 is a root, ids are 0 to n - 1
// in any order, and every leaf carries one request. Also the paper's generator of trees by level.
// All work is iterative and linear; a wrong file gives one fasttree::Error that names its line.

#include "files.hpp"
#include "forest.hpp"
#include "text.hpp"

#include <fasttree/core/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace fasttree::examples {

/// Whether `text` is a whole number from `low` to `high`, which is then in `value`. O(bytes).
inline bool is_whole_number(std::string_view text, int low, int high, int& value) {
  char const* const end = text.data() + text.size();
  auto const [stop, status] = std::from_chars(text.data(), end, value);
  return stop == end && status == std::errc{} && value >= low && value <= high;
}

/// Throws fasttree::Error for a `text` that is_whole_number refuses: `where`, what was expected,
/// what was found; `what` names the number, as in "the parent".
[[noreturn]] inline void fail_number(std::string_view text, int low, int high,
                                     std::string const& where, std::string const& what) {
  std::string const found = text.empty() ? "nothing" : "'" + excerpt(text, 40) + "'";
  std::string_view const digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) {
    throw Error(where + "expected a whole number as " + what + ", found " + found);
  }
  throw Error(where + "expected as " + what + " a value from " + std::to_string(low) + " to " +
              std::to_string(high) + ", found " + found);
}

/// Lines of a stream, without their ends, at most 255 bytes each: no line of a tree is longer, so
/// that a file which is no tree at all is refused before it is in memory.
class TreeLines {
 public:
  TreeLines(std::istream& stream, std::string const& name) : stream_(stream), name_(name) {}

  /// Reads the next line; false at the end. Throws fasttree::Error if the stream fails.
  bool next() {
    if (!stream_.good() && !stream_.eof()) throw Error(name_ + ": cannot be read");
    if (stream_.eof()) return false;
    ++line_;
    stream_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    auto const got = static_cast<std::size_t>(stream_.gcount());
    if (stream_.bad()) fail_at_line(name_, line_, "reading fails here");
    if (stream_.eof()) {
      text_ = {buffer_.data(), got};
      return got > 0;
    }
    if (stream_.fail()) {
      fail_at_line(name_, line_, "expected a line of a tree, found one of more than 255 bytes");
    }
    text_ = {buffer_.data(), got - 1};
    return true;
  }

  /// Splits the line at white space; gives the number of fields, of which it keeps the first five.
  int split(std::array<std::string_view, 5>& fields) const {
    constexpr std::string_view blanks = " \t\r\v\f";
    int count = 0;
    for (std::size_t at = text_.find_first_not_of(blanks); at != text_.npos;) {
      std::size_t const end = std::min(text_.find_first_of(blanks, at), text_.size());
      if (count < 5) fields[count] = text_.substr(at, end - at);
      ++count;
      at = text_.find_first_not_of(blanks, end);
    }
    return count;
  }

  long long line() const { return line_; }
  std::string_view text() const { return text_; }
  std::string where() const { return name_ + ":" + std::to_string(line_) + ": "; }

 private:
  std::istream& stream_;
  std::string const& name_;
  std::array<char, 256> buffer_{};
  std::string_view text_;
  long long line_ = 0;
};

/// One line of a tree file.
struct TreeRow {
  int parent, id, tokens, children;
};

/// The line of row `row` of a tree file: the first row stands on line 2.
inline long long line_of_row(std::size_t row) { return static_cast<long long>(row) + 2; }

/// Reads the count and that many rows, and checks each number by itself. Throws fasttree::Error.
inline std::vector<TreeRow> read_tree_rows(std::istream& stream, std::string const& name) {
  TreeLines lines(stream, name);
  std::array<std::string_view, 5> fields;
  if (!lines.next()) throw Error(name + ": expected the number of nodes, found an empty file");
  if (int const found = lines.split(fields); found != 1) {
    throw Error(lines.where() + "expected one number, the number of nodes, found " +
                std::to_string(found) + " fields");
  }
  auto const number = [&](std::size_t field, int low, int high, char const* what) {
    int value = 0;
    if (is_whole_number(fields[field], low, high, value)) return value;
    fail_number(fields[field], low, high, lines.where(), what);
  };
  constexpr int most = std::numeric_limits<int>::max();
  int const count = number(0, 0, most, "the number of nodes");
  std::vector<TreeRow> rows;  // not reserved: the first line may claim anything
  while (rows.size() < static_cast<std::size_t>(count)) {
    if (!lines.next()) {
      throw Error(lines.where() + "expected " + std::to_string(count) +
                  " nodes, as the first line says, found the end of the file after " +
                  std::to_string(rows.size()));
    }
    if (int const found = lines.split(fields); found != 4) {
      throw Error(lines.where() + "expected 4 numbers (parent id tokens children), found " +
                  std::to_string(found) + " fields");
    }
    TreeRow const row{number(0, -1, count - 1, "the parent"), number(1, 0, count - 1, "the id"),
                      number(2, 0, most, "the tokens"),
                      number(3, 0, count - 1, "the number of children")};
    if (row.parent == row.id) {
      throw Error(lines.where() + "expected another node as the parent of node " +
                  std::to_string(row.id) + ", found the node itself");
    }
    rows.push_back(row);
  }
  while (lines.next()) {
    if (lines.split(fields) > 0) {
      throw Error(lines.where() + "expected the end of the file after " + std::to_string(count) +
                  " nodes, found '" + excerpt(lines.text(), 40) + "'");
    }
  }
  return rows;
}

/// A node that is its own ancestor, or -1 if there is none. O(nodes): leaves are taken away until
/// only cycles are left. `children` holds the number of children of every node.
inline int find_cycle(std::vector<int> const& parents, std::vector<int> children) {
  auto const nodes = static_cast<int>(parents.size());
  for (int leaf = 0; leaf < nodes; ++leaf) {
    int node = leaf;
    while (node >= 0 && children[node] == 0) {
      children[node] = -1;  // taken away
      node = parents[node];
      if (node >= 0) --children[node];
    }
  }
  for (int node = 0; node < nodes; ++node) {
    if (children[node] > 0) return node;
  }
  return -1;
}

/// Reads a tree from `stream`; `name` names it in errors. One request per leaf, in order of ids.
/// Guarantees: ids 0 to n - 1, parents in range, no cycle, lengths not negative. No labels.
/// Throws fasttree::Error, "name:line: expected ..., found ...", if it is empty, truncated,
/// continued past its count, not made of whole numbers that fit an int, or not a forest.
/// O(bytes); memory O(bytes) whatever the first line claims.
inline Forest read_tree_file(std::istream& stream, std::string const& name) {
  std::vector<TreeRow> const rows = read_tree_rows(stream, name);
  std::size_t const count = rows.size();
  Forest forest;
  forest.parents.assign(count, -1);
  forest.lengths.assign(count, 0);
  std::vector<long long> line_of(count, 0);
  std::vector<int> children(count, 0);
  for (std::size_t row = 0; row < count; ++row) {
    auto const id = static_cast<std::size_t>(rows[row].id);
    if (line_of[id] != 0) {
      fail_at_line(name, line_of_row(row),
                   "expected every id once, found node " + std::to_string(id) +
                       " again, first on line " + std::to_string(line_of[id]));
    }
    line_of[id] = line_of_row(row);
    forest.parents[id] = rows[row].parent;
    forest.lengths[id] = rows[row].tokens;
    if (rows[row].parent >= 0) ++children[rows[row].parent];
  }
  if (int const node = find_cycle(forest.parents, children); node >= 0) {
    fail_at_line(name, line_of[node],
                 "expected a tree, found a cycle: node " + std::to_string(node) +
                     " is its own ancestor, by its parent " + std::to_string(forest.parents[node]));
  }
  for (std::size_t row = 0; row < count; ++row) {
    auto const id = static_cast<std::size_t>(rows[row].id);
    if (rows[row].children != children[id]) {
      fail_at_line(name, line_of_row(row),
                   "expected " + std::to_string(rows[row].children) + " children of node " +
                       std::to_string(id) + ", found " + std::to_string(children[id]));
    }
  }
  for (std::size_t id = 0; id < count; ++id) {
    if (children[id] == 0) forest.request_nodes.push_back(static_cast<int>(id));
  }
  return forest;
}

/// Reads the tree in the file `path`; as above, and throws fasttree::Error if it cannot be opened.
inline Forest read_tree_file(std::filesystem::path const& path) {
  std::ifstream stream = open_file(path);
  return read_tree_file(stream, path.string());
}

/// Writes `forest` in the same format, node i on line i + 2. The format knows one request per
/// leaf: throws fasttree::Error before anything is written if `forest` is not of that kind.
/// O(nodes + requests); the same bytes under every locale.
inline void write_tree_file(std::ostream& stream, Forest const& forest) {
  std::size_t const count = forest.parents.size();
  auto const fail = [](std::string const& what) { throw Error("write_tree_file: " + what); };
  if (forest.lengths.size() != count) {
    fail("forest: expected one length per parent, found " + std::to_string(forest.lengths.size()) +
         " lengths and " + std::to_string(count) + " parents");
  }
  std::vector<int> children(count, 0), requests(count, 0);
  for (int const parent : forest.parents) {
    if (parent >= static_cast<int>(count) || parent < -1) {
      fail("forest.parents: expected nodes or -1, found " + std::to_string(parent));
    }
    if (parent >= 0) ++children[parent];
  }
  for (int const node : forest.request_nodes) {
    if (node >= static_cast<int>(count) || node < 0) {
      fail("forest.request_nodes: expected nodes, found " + std::to_string(node));
    }
    ++requests[node];
  }
  for (std::size_t node = 0; node < count; ++node) {
    if (int const expected = children[node] == 0 ? 1 : 0; requests[node] != expected) {
      fail("forest: the format holds one request per leaf and none elsewhere, found " +
           std::to_string(requests[node]) + " on node " + std::to_string(node));
    }
  }
  stream << std::to_string(count) + "\n";
  for (std::size_t node = 0; node < count; ++node) {
    stream << std::to_string(forest.parents[node]) + " " + std::to_string(node) + " " +
                  std::to_string(forest.lengths[node]) + " " + std::to_string(children[node]) +
                  "\n";
  }
}

/// Writes `forest` to the file `path`, whole or not at all; errors as above and of write_file.
inline void write_tree_file(std::filesystem::path const& path, Forest const& forest) {
  std::ostringstream text;
  write_tree_file(text, forest);
  write_file(path, text.str());
}

}  // namespace fasttree::examples
