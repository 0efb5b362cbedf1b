// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one exception of the library, and the one way to check an argument.
// Everything that can be wrong about a call is found here, before work is enqueued; the message
// names the function, the argument, what was expected and what was found.

#include <stdexcept>
#include <string>
#include <type_traits>

namespace fasttree {

/// A wrong argument: nothing was enqueued and nothing was changed.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

template <class Value>
std::string to_text(Value const& value) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return std::to_string(value);
  } else {
    return std::string(value);
  }
}

}  // namespace detail

/// Throws an `Error` with the text "fasttree::<function>: <argument>: expected <expected>, found
/// <found>".
template <class Expected, class Found>
[[noreturn]] void fail(char const* function, std::string const& argument, Expected const& expected,
                       Found const& found) {
  throw Error("fasttree::" + std::string(function) + ": " + argument + ": expected " +
              detail::to_text(expected) + ", found " + detail::to_text(found));
}

/// `fail(...)` for a value that is larger than it may be.
template <class Most, class Found>
[[noreturn]] void fail_above(char const* function, char const* argument, Most const& most,
                             Found const& found) {
  std::string expected("at most ");
  expected.append(std::to_string(most));
  fail(function, argument, expected, found);
}

/// `fail(...)` unless `holds`. The text is put together only then.
template <class Expected, class Found>
constexpr void require(bool holds, char const* function, char const* argument,
                       Expected const& expected, Found const& found) {
  if (!holds) fail(function, argument, expected, found);
}

}  // namespace fasttree
