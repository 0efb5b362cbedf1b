// SPDX-License-Identifier: Apache-2.0
// JSON-lines files of prompts: what JSON allows, and every way to be wrong, with its column.

#include "support/prompt_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace {

using fasttree::Error;
using fasttree::examples::read_prompt_file;

std::vector<std::string> read(std::string const& text) {
  std::istringstream stream(text);
  return read_prompt_file(stream, "prompts.jsonl");
}

/// The file is refused with just this message.
void refuses(std::string const& text, char const* message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read(text), message, Error);
}

using Prompts = std::vector<std::string>;

}  // namespace

TEST_CASE("prompts, one a line") {
  CHECK(read("{\"prompt\":\"a\"}\n{\"prompt\": \"b c\"}\n") == Prompts{"a", "b c"});
  CHECK(read("{\"prompt\":\"\"}") == Prompts{""});
}

TEST_CASE("blank lines, CR LF and a byte order mark are skipped") {
  CHECK(read("\n  \t\n{\"prompt\":\"a\"}\r\n\r\n") == Prompts{"a"});
  CHECK(read("\xef\xbb\xbf{\"prompt\":\"a\"}\n") == Prompts{"a"});
}

TEST_CASE("other members are skipped, before and after, of every kind and nested") {
  CHECK(read("{\"id\":-1.5e+3,\"on\":true,\"off\":false,\"none\":null,\"prompt\":\"a\",\"s\":"
             "\"\\n\"}") == Prompts{"a"});
  CHECK(read("{ \"x\" : [ { } , [ ] , { \"prompt\" : [ 0 , \"b\" , { \"y\" : [ [ 1 ] ] } ] } ] , "
             "\"prompt\" : \"a\" , \"z\" : { \"p\" : { \"q\" : 0.5E-7 } , \"r\" : [ ] } } ") ==
        Prompts{"a"});
}

TEST_CASE("a million nested arrays and objects are skipped without recursion") {
  std::string deep, close;
  for (int i = 0; i < 500'000; ++i) deep += "[{\"a\":";
  for (int i = 0; i < 500'000; ++i) close += "}]";
  CHECK(read("{\"x\":" + deep + "0" + close + ",\"prompt\":\"a\"}") == Prompts{"a"});
  CHECK_THROWS_AS(read("{\"x\":" + deep), Error);
}

TEST_CASE("escapes") {
  CHECK(read(R"({"prompt":"\"\\\/\b\f\n\r\t"})") == Prompts{"\"\\/\b\f\n\r\t"});
  CHECK(read(R"({"prompt":"\u0041\u00e9\u20AC\ud83c\udf33"})") ==
        Prompts{"A\u00e9\u20ac\U0001f333"});
  CHECK(read(R"({"prompt":"a\u0000b"})") == Prompts{std::string("a\0b", 3)});
  CHECK(read(R"({"\u0070rompt":"a"})") == Prompts{"a"});
}

TEST_CASE("UTF-8 passes through") {
  CHECK(read("{\"prompt\":\"\u00e9 \u20ac \U0001f333\"}") == Prompts{"\u00e9 \u20ac \U0001f333"});
}

TEST_CASE("no prompts at all") {
  refuses("", "prompts.jsonl: expected a line with a prompt, found an empty file");
  refuses("\n \n", "prompts.jsonl: expected a line with a prompt, found 2 blank lines");
}

TEST_CASE("a line that is no object") {
  refuses("\"a\"", "prompts.jsonl:1:1: expected an object, '{', found '\"a\"'");
  refuses("{\"prompt\":\"a\"}\n[]", "prompts.jsonl:2:1: expected an object, '{', found '[]'");
  refuses("{\"prompt\":\"a\"} x",
          "prompts.jsonl:1:16: expected the end of the line after the "
          "object, found 'x'");
  refuses("{\"prompt\":\"a\"}{}",
          "prompts.jsonl:1:15: expected the end of the line after the "
          "object, found '{}'");
}

TEST_CASE("an object without a prompt, with two, or with one that is no string") {
  refuses("{}", "prompts.jsonl:1:3: expected a member \"prompt\" in the object, found none");
  refuses("{\"Prompt\":\"a\"}",
          "prompts.jsonl:1:15: expected a member \"prompt\" in the object, found none");
  refuses("{\"prompt\":\"a\",\"prompt\":\"b\"}",
          "prompts.jsonl:1:15: expected one member \"prompt\", found a second");
  refuses("{\"prompt\":3}",
          "prompts.jsonl:1:11: expected a string as the member \"prompt\", found '3}'");
  refuses("{\"prompt\":null}",
          "prompts.jsonl:1:11: expected a string as the member \"prompt\", found 'null}'");
}

TEST_CASE("a truncated line") {
  refuses("{", "prompts.jsonl:1:2: expected the name of a member, '\"', found the end of the line");
  refuses("{\"pro", "prompts.jsonl:1:2: expected a '\"' that ends this string, found none");
  refuses("{\"prompt\"", "prompts.jsonl:1:10: expected ':', found the end of the line");
  refuses("{\"prompt\":",
          "prompts.jsonl:1:11: expected a string as the member \"prompt\", found "
          "the end of the line");
  refuses("{\"prompt\":\"a",
          "prompts.jsonl:1:11: expected a '\"' that ends this string, found none");
  refuses("{\"prompt\":\"a\"",
          "prompts.jsonl:1:14: expected ',' or '}', found the end of the line");
  refuses("{\"x\":[1", "prompts.jsonl:1:8: expected ',' or ']', found the end of the line");
  refuses("{\"x\":{\"y\":1", "prompts.jsonl:1:12: expected ',' or '}', found the end of the line");
}

TEST_CASE("commas and colons that are missing or too many") {
  refuses("{\"prompt\":\"a\",}",
          "prompts.jsonl:1:15: expected the name of a member, '\"', found '}'");
  refuses("{,}", "prompts.jsonl:1:2: expected the name of a member, '\"', found ',}'");
  refuses("{\"prompt\" \"a\"}", "prompts.jsonl:1:11: expected ':', found '\"a\"}'");
  refuses("{\"x\":1 \"prompt\":\"a\"}",
          "prompts.jsonl:1:8: expected ',' or '}', found '\"prompt\":\"a\"\u2026'");
  refuses("{\"x\":[1 2]}", "prompts.jsonl:1:9: expected ',' or ']', found '2]}'");
  refuses("{\"x\":[1,]}", "prompts.jsonl:1:9: expected a value, found ']}'");
  refuses("{\"x\":[,1]}", "prompts.jsonl:1:7: expected a value, found ',1]}'");
  refuses("{\"x\":[}", "prompts.jsonl:1:7: expected a value, found '}'");
  refuses("{\"x\":{\"y\":1]}", "prompts.jsonl:1:12: expected ',' or '}', found ']}'");
}

TEST_CASE("values that are none") {
  refuses("{\"x\":tru}", "prompts.jsonl:1:6: expected a value, found 'tru}'");
  refuses("{\"x\":NaN}", "prompts.jsonl:1:6: expected a value, found 'NaN}'");
  refuses("{\"x\":'a'}", "prompts.jsonl:1:6: expected a value, found ''a'}'");
  refuses("{\"x\":truest}", "prompts.jsonl:1:10: expected ',' or '}', found 'st}'");
}

TEST_CASE("numbers that are none") {
  refuses("{\"x\":-}", "prompts.jsonl:1:7: expected a digit, found '}'");
  refuses("{\"x\":01}", "prompts.jsonl:1:7: expected ',' or '}', found '1}'");
  refuses("{\"x\":1.}", "prompts.jsonl:1:8: expected a digit, found '}'");
  refuses("{\"x\":1e+}", "prompts.jsonl:1:9: expected a digit, found '}'");
  refuses("{\"x\":.5}", "prompts.jsonl:1:6: expected a value, found '.5}'");
}

TEST_CASE("escapes that are none") {
  refuses("{\"prompt\":\"\\x\"}",
          "prompts.jsonl:1:13: expected one of \"\\/bfnrtu after a backslash, found 'x\"}'");
  refuses("{\"prompt\":\"\\u12g4\"}",
          "prompts.jsonl:1:16: expected four hexadecimal digits after \\u, found 'g4\"}'");
  refuses("{\"prompt\":\"\\",
          "prompts.jsonl:1:13: expected one of \"\\/bfnrtu after a backslash, found the end of the "
          "line");
}

TEST_CASE("halves of surrogate pairs") {
  refuses("{\"prompt\":\"\\udf33\"}",
          "prompts.jsonl:1:12: expected a code point, found the second half of a surrogate pair "
          "alone");
  refuses("{\"prompt\":\"\\ud83c\"}",
          "prompts.jsonl:1:18: expected the second half of a surrogate pair, found '\"}'");
  refuses("{\"prompt\":\"\\ud83c\\u0041\"}",
          "prompts.jsonl:1:18: expected the second half of a surrogate pair, found another code "
          "point");
}

TEST_CASE("strings with bytes that JSON does not allow") {
  refuses("{\"prompt\":\"a\tb\"}",
          "prompts.jsonl:1:13: expected an escape, found a control character in a string");
  for (char const* bytes : {"\xff", "\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xf8\x80\x80\x80"}) {
    refuses("{\"prompt\":\"" + std::string(bytes) + "\"}",
            "prompts.jsonl:1:12: expected UTF-8, found bytes that are not");
  }
}

TEST_CASE("bytes outside a string are shown as they can be") {
  refuses(std::string("{\0\"prompt\"", 10),
          "prompts.jsonl:1:2: expected the name of a member, '\"', found '\ufffd\"prompt\"'");
  refuses("\v{", "prompts.jsonl:1:1: expected an object, '{', found '{'");
}

TEST_CASE("a prompt file that cannot be opened") {
  CHECK_THROWS_WITH_AS(read_prompt_file(std::filesystem::path("/no/such/prompts.jsonl")),
                       "/no/such/prompts.jsonl: cannot be read: No such file or directory", Error);
}
