// SPDX-License-Identifier: Apache-2.0
// The picture of a tree: well-formed for any text, nothing outside, nothing on top of another.

#include "support/tree_picture.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/svg.hpp"

namespace {

using fasttree::CodePoint;
using fasttree::decode_utf8;
using fasttree::Error;
using namespace fasttree::examples;
using fasttree::test::attribute;
using fasttree::test::count;
using fasttree::test::well_formed;

std::string draw(TreePicture const& picture) {
  std::ostringstream stream;
  write_tree_picture(stream, picture);
  return stream.str();
}

/// A node of `length` tokens below `parent`, with the columns begin to end - 1.
PictureNode node(int parent, int begin, int end, int length, std::string label = "") {
  PictureNode made;
  made.parent = parent;
  made.begin_request = begin;
  made.end_request = end;
  made.length = length;
  made.label = std::move(label);
  made.tooltip = "node";
  return made;
}

TreePicture two_leaves() {
  TreePicture picture;
  picture.title = "two leaves";
  picture.requests = 2;
  picture.nodes = {node(-1, 0, 2, 100, "shared"), node(0, 0, 1, 10), node(0, 1, 2, 20)};
  return picture;
}

struct Rectangle {
  double x, y, width, height;
};

std::vector<Rectangle> rectangles(std::string const& text) {
  std::vector<Rectangle> found;
  std::string const patch = "<rect class=\"patch\"";
  for (auto at = text.find(patch); at != text.npos; at = text.find(patch, at + 1)) {
    found.push_back({attribute(text, at, "x"), attribute(text, at, "y"),
                     attribute(text, at, "width"), attribute(text, at, "height")});
  }
  return found;
}

/// A random forest of about `requests` columns.
TreePicture random_picture(std::mt19937& random, int requests) {
  TreePicture picture;
  picture.title = "random";
  picture.requests = requests;
  picture.nodes.push_back(node(-1, 0, requests, static_cast<int>(random() % 3000)));
  for (std::size_t i = 0; i < picture.nodes.size(); ++i) {
    int at = picture.nodes[i].begin_request;
    int const end = picture.nodes[i].end_request;
    if (end - at < 2) continue;
    if (random() % 3 == 0) ++at;  // a request on this node itself
    while (at < end) {
      int const next = std::min(end, at + 1 + static_cast<int>(random() % (end - at)));
      if (next - at == picture.requests) break;
      picture.nodes.push_back(
          node(static_cast<int>(i), at, next, static_cast<int>(random() % 500)));
      at = next;
    }
  }
  return picture;
}

}  // namespace

TEST_CASE("a picture has a rectangle and a tooltip for every node and a dot for every request") {
  std::string const text = draw(two_leaves());
  CHECK(well_formed(text));
  CHECK(rectangles(text).size() == 3);
  CHECK(count(text, "<circle") == 2);
  CHECK(count(text, "<title>node</title>") == 3);
  CHECK(count(text, ">shared</text>") == 1);
  CHECK(count(text, ">100 tokens</text>") == 1);
}

TEST_CASE("children stand below their parent and within it") {
  auto const boxes = rectangles(draw(two_leaves()));
  REQUIRE(boxes.size() == 3);
  for (std::size_t child : {1, 2}) {
    CHECK(boxes[child].y >= boxes[0].y + boxes[0].height);
    CHECK(boxes[child].x >= boxes[0].x);
    CHECK(boxes[child].x + boxes[child].width <= boxes[0].x + boxes[0].width + 0.02);
  }
  CHECK(boxes[2].height > boxes[1].height);
  CHECK(boxes[2].x >= boxes[1].x + boxes[1].width);
}

TEST_CASE("in pictures of random trees nothing overlaps and nothing is outside") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::string const text = draw(random_picture(random, 2 + static_cast<int>(random() % 60)));
    CHECK(well_formed(text));
    auto const boxes = rectangles(text);
    double const width = attribute(text, 0, "width"), height = attribute(text, 0, "height");
    constexpr double rounding = 0.02;  // two decimals are written
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      Rectangle const& a = boxes[i];
      CHECK((a.x >= 0 && a.y >= 0 && a.x + a.width <= width && a.y + a.height <= height));
      for (std::size_t j = 0; j < i; ++j) {
        Rectangle const& b = boxes[j];
        bool const apart = a.x + a.width <= b.x + rounding || b.x + b.width <= a.x + rounding ||
                           a.y + a.height <= b.y + rounding || b.y + b.height <= a.y + rounding;
        if (!apart) FAIL("nodes " << i << " and " << j << " overlap");
      }
    }
  }
}

TEST_CASE("patches are drawn within their node, in their colours, with their tooltips") {
  TreePicture picture = two_leaves();
  picture.nodes[0].patches = {{0, 2, 0, 50, 0, "first"}, {0, 2, 50, 100, 1, "second"}};
  std::string const text = draw(picture);
  auto const boxes = rectangles(text);
  REQUIRE(boxes.size() == 5);
  CHECK(boxes[1].y == doctest::Approx(boxes[0].y));
  CHECK(boxes[2].y + boxes[2].height ==
        doctest::Approx(boxes[0].y + boxes[0].height).epsilon(1e-4));
  CHECK(count(text, picture_colour(0)) == 1);
  CHECK(count(text, picture_colour(1)) == 1);
  CHECK(count(text, "<title>first</title>") == 1);
  CHECK(count(text, "<title>second</title>") == 1);
}

TEST_CASE("every text is escaped, whatever bytes it holds") {
  TreePicture picture = two_leaves();
  std::string const bad = "<b a='1'>&\"\x01\xff\xc3\xed\xa0\x80\uffff\x7f</b>";
  picture.title = picture.subtitle = picture.caption = bad;
  picture.nodes[0].label = picture.nodes[0].tooltip = bad;
  picture.legend = {{0, bad}};
  std::string const text = draw(picture);
  CHECK(well_formed(text));
  CHECK(count(text, "<b") == 0);
  CHECK(count(text, "&lt;b a=&#39;1&#39;&gt;&amp;&quot;\ufffd") >= 3);
  for (std::string_view rest = text; !rest.empty();) {
    CodePoint const point = decode_utf8(rest);
    REQUIRE(point.bytes > 0);
    CHECK((point.value == '\n' || (point.value >= 0x20 && point.value < 0xfffe)));
    rest.remove_prefix(point.bytes);
  }
}

TEST_CASE(
    "pictures of no request, of empty nodes, of a chain of 5 000 nodes, of 100 000 requests") {
  TreePicture picture;
  picture.title = "nothing";
  CHECK(well_formed(draw(picture)));
  CHECK(count(draw(picture), "no requests") == 1);

  picture = two_leaves();
  for (PictureNode& empty : picture.nodes) empty.length = 0;
  CHECK(rectangles(draw(picture)).size() == 3);

  picture.nodes.clear();
  picture.requests = 1;
  for (int i = 0; i < 5'000; ++i) picture.nodes.push_back(node(i - 1, 0, 1, 100));
  std::string text = draw(picture);
  CHECK(well_formed(text));
  CHECK(attribute(text, 0, "height") < 1200);

  picture.nodes = {node(-1, 0, 100'000, 100)};
  picture.requests = 100'000;
  for (int i = 0; i < 100'000; ++i) picture.nodes.push_back(node(0, i, i + 1, 10));
  text = draw(picture);
  CHECK(well_formed(text));
  CHECK(count(text, "100000 nodes too small to be seen are left out") == 1);
}

TEST_CASE("a long legend is cut, and says so") {
  TreePicture picture = two_leaves();
  for (int i = 0; i < 30; ++i) picture.legend.push_back({i, "item"});
  CHECK(count(draw(picture), ">item</text>") == 24);
  CHECK(count(draw(picture), ">and 6 more</text>") == 1);
}

TEST_CASE("colours: 36 that differ, then again; -1 is grey") {
  std::vector<std::string> seen;
  for (int i = -1; i < 36; ++i) {
    CHECK(std::find(seen.begin(), seen.end(), picture_colour(i)) == seen.end());
    seen.push_back(picture_colour(i));
  }
  CHECK(picture_colour(36) == picture_colour(0));
}

TEST_CASE("numbers and lines of text") {
  CHECK(group_thousands(0) == "0");
  CHECK(group_thousands(999) == "999");
  CHECK(group_thousands(1'000) == "1,000");
  CHECK(group_thousands(-1'234'567) == "-1,234,567");
  CHECK(group_thousands(-123) == "-123");
  CHECK(wrap_text("one two three four", 9, 2) ==
        std::vector<std::string>{"one two", "three fo\u2026"});
  CHECK(wrap_text("unbreakable", 6, 3) == std::vector<std::string>{"unbre", "akabl", "e"});
  CHECK(wrap_text("", 9, 2).empty());
  CHECK(excerpt(" a \n\t b\x01 ", 10) == "a b\ufffd");
  CHECK(excerpt("abcdef", 3) == "abc\u2026");
}

TEST_CASE("a picture that cannot be is refused before anything is written") {
  std::ostringstream stream;
  TreePicture picture = two_leaves();
  picture.nodes[1].parent = 1;
  CHECK_THROWS_WITH_AS(
      write_tree_picture(stream, picture),
      "write_tree_picture: picture.nodes[1]: expected a node before this one or -1 "
      "as the parent, found 1",
      Error);
  picture = two_leaves();
  picture.nodes[2].end_request = 3;
  CHECK_THROWS_WITH_AS(write_tree_picture(stream, picture),
                       "write_tree_picture: picture.nodes[2]: expected requests within 0 to 2, "
                       "found 1 to 3",
                       Error);
  picture = two_leaves();
  picture.nodes[0].length = -1;
  CHECK_THROWS_WITH_AS(write_tree_picture(stream, picture),
                       "write_tree_picture: picture.nodes[0]: expected tokens, found -1", Error);
  picture = two_leaves();
  picture.nodes[1].patches = {{0, 1, 0, 11, 0, ""}};
  CHECK_THROWS_WITH_AS(write_tree_picture(stream, picture),
                       "write_tree_picture: picture.nodes[1]: expected a patch within the node, "
                       "found requests 0 to 1, tokens 0 to 11",
                       Error);
  picture = two_leaves();
  picture.requests = -1;
  CHECK_THROWS_WITH_AS(write_tree_picture(stream, picture),
                       "write_tree_picture: picture.requests: expected 0 or more, found -1", Error);
  CHECK(stream.str().empty());
}

TEST_CASE("a picture file is written whole") {
  auto const path = std::filesystem::temp_directory_path() / "fasttree_test_tree_picture.svg";
  write_tree_picture(path, two_leaves());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == draw(two_leaves()));
  std::filesystem::remove(path);
}
