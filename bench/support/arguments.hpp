// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command line, option after option.

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string>

namespace fasttree::bench {

struct BadArguments : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Goes from one option to the next. Those of Kokkos are left to Kokkos.
class Arguments {
 public:
  Arguments(int argc, char const* const* argv) : count_(argc), all_(argv) {}

  /// Whether there is one more.
  bool next() {
    do ++at_;
    while (at_ < count_ && std::strncmp(all_[at_], "--kokkos-", 9) == 0);
    return at_ < count_;
  }

  std::string name() const { return all_[at_]; }

  /// What follows the option. Errors: `BadArguments` where nothing does.
  std::string value() {
    std::string const option = name();
    if (at_ + 1 >= count_) throw BadArguments(option + " needs a value");
    return all_[++at_];
  }

  /// The same, a positive whole number. Errors: `BadArguments` where it is none.
  int positive() {
    std::string const option = name(), text = value();
    char const* const end = text.data() + text.size();
    int number = 0;
    auto const [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < 1)
      throw BadArguments(option + " needs a positive number, not \"" + text + "\"");
    return number;
  }

  [[noreturn]] void refuse() const { throw BadArguments("unknown argument \"" + name() + "\""); }

 private:
  int count_;
  char const* const* all_;
  int at_ = 0;
};

}  // namespace fasttree::bench
