// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prompts from a JSON-lines file: every line an object with a string member "prompt"; other members
// are checked and skipped, blank lines are allowed. One member of one object is all that is needed,
// so this is a scanner of RFC 8259 and no document model: it holds one line, nests without
// recursion, so no depth can overflow the stack, and knows the byte at which a line is wrong.
// Errors are one fasttree::Error, "name:line:column: expected ..., found ...", columns in bytes.

#include "files.hpp"
#include "text.hpp"

#include <fasttree/core/error.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

/// A scanner over one line of JSON.
class JsonLine {
 public:
  JsonLine(std::string_view text, std::string const& name, long long line, std::size_t start = 0)
      : text_(text), name_(name), line_(line), at_(start) {}

  /// The member "prompt" of the object that is the whole line. Throws fasttree::Error if the line
  /// is not such an object, or has that member not at all, twice, or not as a string. O(bytes).
  std::string read_prompt() {
    std::string prompt, member;
    bool found = false;
    expect('{', "an object, '{'");
    if (!accept('}')) {
      do {
        skip_space();
        std::size_t const begin = at_;
        read_name(&member);
        if (member != "prompt") {
          skip_value();
          continue;
        }
        if (found) fail(begin, "expected one member \"prompt\", found a second");
        skip_space();
        if (peek() != '"') fail_here("a string as the member \"prompt\"");
        read_string(&prompt);
        found = true;
      } while (accept(','));
      expect('}', "',' or '}'");
    }
    skip_space();
    if (at_ != text_.size()) fail_here("the end of the line after the object");
    if (!found) fail(text_.size(), "expected a member \"prompt\" in the object, found none");
    return prompt;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string const& message) const {
    throw Error(name_ + ":" + std::to_string(line_) + ":" + std::to_string(at + 1) + ": " +
                message);
  }

  [[noreturn]] void fail_here(std::string const& expected) const {
    if (at_ >= text_.size()) fail(at_, "expected " + expected + ", found the end of the line");
    std::string const found = excerpt(text_.substr(at_), 12);
    fail(at_,
         "expected " + expected + ", found " + (found.empty() ? "white space" : "'" + found + "'"));
  }

  /// The byte here, or -1 at the end of the line.
  int peek() const {
    return at_ < text_.size() ? static_cast<int>(static_cast<unsigned char>(text_[at_])) : -1;
  }

  bool digit_here() const { return peek() >= '0' && peek() <= '9'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') ++at_;
  }

  /// Skips space, then `byte` if it stands there; whether it did.
  bool accept(char byte) {
    skip_space();
    bool const here = at_ < text_.size() && text_[at_] == byte;
    if (here) ++at_;
    return here;
  }

  void expect(char byte, char const* expected) {
    if (!accept(byte)) fail_here(expected);
  }

  void read_name(std::string* into) {
    skip_space();
    if (peek() != '"') fail_here("the name of a member, '\"'");
    read_string(into);
    expect(':', "':'");
  }

  /// Reads the string that begins here; keeps its text unless `into` is null.
  void read_string(std::string* into) {
    std::size_t const begin = at_++;
    if (into) into->clear();
    while (peek() != '"') {
      if (at_ >= text_.size()) fail(begin, "expected a '\"' that ends this string, found none");
      if (peek() == '\\') {
        read_escape(into);
        continue;
      }
      if (peek() < 0x20) fail(at_, "expected an escape, found a control character in a string");
      CodePoint const point = decode_utf8(text_.substr(at_));
      if (point.bytes == 0) fail(at_, "expected UTF-8, found bytes that are not");
      if (into) into->append(text_, at_, point.bytes);
      at_ += point.bytes;
    }
    ++at_;
  }

  void read_escape(std::string* into) {
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    std::size_t const begin = at_++;
    char32_t value = 0;
    if (peek() == 'u') {
      value = read_hexadecimal();
      if (value >= 0xdc00 && value < 0xe000) {
        fail(begin, "expected a code point, found the second half of a surrogate pair alone");
      }
      if (value >= 0xd800 && value < 0xdc00) {
        if (text_.substr(at_, 2) != "\\u") fail_here("the second half of a surrogate pair");
        std::size_t const second = at_++;
        char32_t const low = read_hexadecimal();
        if (low < 0xdc00 || low >= 0xe000) {
          fail(second, "expected the second half of a surrogate pair, found another code point");
        }
        value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
      }
    } else {
      std::size_t const letter =
          peek() < 0 ? letters.npos : letters.find(static_cast<char>(peek()));
      if (letter == letters.npos) fail_here("one of \"\\/bfnrtu after a backslash");
      value = static_cast<char32_t>(meanings[letter]);
      ++at_;
    }
    if (into) append_utf8(*into, value);
  }

  /// The four hexadecimal digits after the 'u' that stands here.
  char32_t read_hexadecimal() {
    ++at_;
    char32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      int const byte = peek(), letter = byte | 0x20;
      bool const in_alphabet = byte >= 0 && letter >= 'a' && letter <= 'f';
      if (!digit_here() && !in_alphabet) fail_here("four hexadecimal digits after \\u");
      value = value * 16 + static_cast<char32_t>(digit_here() ? byte - '0' : letter - 'a' + 10);
    }
    return value;
  }

  /// Skips the value that begins here, however deeply it nests: `open` holds the closing brackets
  /// that are still owed, innermost last.
  void skip_value() {
    std::string open;
    do {
      skip_space();
      if (peek() == '{' || peek() == '[') {
        char const close = peek() == '{' ? '}' : ']';
        open += close;
        ++at_;
        if (!accept(close)) {
          if (close == '}') read_name(nullptr);
          continue;  // the first value of this object or array is due
        }
        open.pop_back();
      } else {
        skip_scalar();
      }
      while (!open.empty()) {
        if (accept(',')) {
          if (open.back() == '}') read_name(nullptr);
          break;  // the next value of the innermost one is due
        }
        expect(open.back(), open.back() == '}' ? "',' or '}'" : "',' or ']'");
        open.pop_back();
      }
    } while (!open.empty());
  }

  void skip_scalar() {
    if (peek() == '"') return read_string(nullptr);
    if (peek() == '-' || digit_here()) return skip_number();
    for (std::string_view const word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return;
      }
    }
    fail_here("a value");
  }

  void skip_number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      skip_digits();
    }
    if (peek() == '.') {
      ++at_;
      skip_digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      skip_digits();
    }
  }

  void skip_digits() {
    if (!digit_here()) fail_here("a digit");
    while (digit_here()) ++at_;
  }

  std::string_view text_;
  std::string const& name_;
  long long line_;
  std::size_t at_;
};

/// Reads the prompts of a JSON-lines stream, in order; `name` names it in errors. A byte order mark
/// at the beginning is skipped. Prompts may hold any code point, U+0000 too.
/// Throws fasttree::Error, "name:line:column: ...", for a line that is not JSON in UTF-8 or holds
/// no prompt, and if there is no prompt at all or reading fails. O(bytes).
inline std::vector<std::string> read_prompt_file(std::istream& stream, std::string const& name) {
  std::vector<std::string> prompts;
  std::string text;
  long long line = 0;
  while (std::getline(stream, text)) {
    ++line;
    std::size_t const start = line == 1 && text.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0;
    if (text.find_first_not_of(" \t\r", start) == text.npos) continue;
    prompts.push_back(JsonLine(text, name, line, start).read_prompt());
  }
  if (stream.bad()) fail_at_line(name, line + 1, "reading fails here");
  if (prompts.empty()) {
    throw Error(name + ": expected a line with a prompt, found " +
                (line == 0 ? "an empty file" : std::to_string(line) + " blank lines"));
  }
  return prompts;
}

/// Reads the file `path`; as above, and throws fasttree::Error if it cannot be opened.
inline std::vector<std::string> read_prompt_file(std::filesystem::path const& path) {
  std::ifstream stream = open_file(path);
  return read_prompt_file(stream, path.string());
}

}  // namespace fasttree::examples
