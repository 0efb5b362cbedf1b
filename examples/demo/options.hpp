// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of fasttree-demo.

#include <fasttree/core/error.hpp>

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace fasttree::examples {

inline constexpr char const* usage = R"(usage: fasttree-demo [options] FILE

Decodes one step for every request of a prefix tree: plans it, draws the plan, runs it, checks the
outputs against attention in double precision, and times it beside one request at a time.

FILE holds a tree, "parent id tokens children" a line, the number of nodes first; or prompts, an object
with the member "prompt" a line, of which every byte is a token.

  --format tree|prompts             what FILE holds; if not given, .jsonl holds prompts
  --planner minimal|greedy|every-node|none  how keys are shared (minimal)
  --query-heads N                   query heads, a multiple of the KV heads (32)
  --kv-heads N                      KV heads (8); every head has 128 dimensions
  --element half|bfloat16|float     what queries, keys, values and outputs are stored in (half)
  --seed N                          of the random keys, values and queries (1)
  --repeat N                        timed runs of each side, of which the median counts (5)
  --memory GB                       most that arrays may take together (4)
  --picture FILE.svg                where the picture goes (FILE's name, in the working directory)
  --help                            this text

Exit status: 0 if all outputs checked are right, 1 if one is not, 2 after an error.
)";

/// What the command line asks for.
struct Options {
  bool help = false;
  std::filesystem::path file;
  std::string format;
  std::string planner = "minimal";
  std::string element = "half";
  int query_heads = 32;
  int kv_heads = 8;
  int seed = 1;
  int repeat = 5;
  int memory = 4;
  std::filesystem::path picture;
};

/// Reads options one by one; every fault is a fasttree::Error that names the option.
class OptionReader {
 public:
  explicit OptionReader(std::vector<std::string> words) : words_(std::move(words)) {}

  Options read() {
    while (at_ < words_.size() && !options_.help) read_word(words_[at_++]);
    if (!options_.help) check();
    return options_;
  }

 private:
  void read_word(std::string const& word) {
    if (!only_files_ && word == "--") {
      only_files_ = true;
    } else if (only_files_ || !word.starts_with('-')) {
      if (!options_.file.empty()) throw Error("expected one FILE, found a second, " + quote(word));
      if (word.empty()) throw Error("expected a FILE, found an empty name");
      options_.file = word;
    } else {
      std::size_t const equals = word.find('=');
      name_ = word.substr(0, equals);
      value_given_ = equals != word.npos;
      value_ = value_given_ ? word.substr(equals + 1) : std::string();
      read_option();
    }
  }

  void read_option() {
    if (name_ == "--help" || name_ == "-h") {
      if (value_given_) throw Error(name_ + ": expected no value, found " + quote(value_));
      options_.help = true;
    } else if (name_ == "--format") {
      options_.format = choice({"tree", "prompts"});
    } else if (name_ == "--planner") {
      options_.planner = choice({"minimal", "greedy", "every-node", "none"});
    } else if (name_ == "--element") {
      options_.element = choice({"half", "bfloat16", "float"});
    } else if (name_ == "--query-heads") {
      options_.query_heads = number(1, 65536);
    } else if (name_ == "--kv-heads") {
      options_.kv_heads = number(1, 65536);
    } else if (name_ == "--seed") {
      options_.seed = number(0, 2147483647);
    } else if (name_ == "--repeat") {
      options_.repeat = number(1, 1000000);
    } else if (name_ == "--memory") {
      options_.memory = number(1, 65536);
    } else if (name_ == "--picture") {
      options_.picture = value();
    } else {
      throw Error("unknown option " + quote(name_) + "; --help lists all");
    }
  }

  static std::string quote(std::string const& text) { return "'" + text + "'"; }

  std::string const& value() {
    if (!value_given_ && at_ < words_.size()) {
      value_ = words_[at_++];
      value_given_ = true;
    }
    if (value_.empty()) throw Error(name_ + ": expected a value, found none");
    return value_;
  }

  std::string choice(std::vector<std::string> const& choices) {
    std::string list;
    for (std::string const& one : choices) {
      if (one == value()) return one;
      list += (list.empty() ? "" : ", ") + one;
    }
    throw Error(name_ + ": expected one of " + list + ", found " + quote(value_));
  }

  int number(int least, int most) {
    std::string const& text = value();
    int found = 0;
    auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), found);
    if (end != text.data() + text.size() || fault != std::errc{} || found < least || found > most)
      throw Error(name_ + ": expected a number from " + std::to_string(least) + " to " +
                  std::to_string(most) + ", found " + quote(text));
    return found;
  }

  void check() {
    if (options_.file.empty()) throw Error("expected a FILE, found none; --help says more");
    if (options_.query_heads % options_.kv_heads != 0)
      throw Error("--query-heads: expected a multiple of --kv-heads = " +
                  std::to_string(options_.kv_heads) + ", found " +
                  std::to_string(options_.query_heads));
    if (options_.format.empty())
      options_.format = options_.file.extension() == ".jsonl" ? "prompts" : "tree";
    if (options_.picture.empty()) options_.picture = options_.file.stem().string() + ".svg";
    std::error_code ignored;
    if (std::filesystem::equivalent(options_.picture, options_.file, ignored))
      throw Error("--picture: expected another file than " + options_.file.string() +
                  ", which would be overwritten");
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  std::string name_, value_;
  bool value_given_ = false, only_files_ = false;
  Options options_;
};

}  // namespace fasttree::examples
