// SPDX-License-Identifier: Apache-2.0
// Tree files of the paper's benchmark: what is read, what is written, every way to be wrong.

#include "support/tree_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using fasttree::Error;
using fasttree::examples::Forest;
using fasttree::examples::read_tree_file;
using fasttree::examples::write_tree_file;

Forest read(std::string const& text) {
  std::istringstream stream(text);
  return read_tree_file(stream, "tree.txt");
}

std::string written(Forest const& forest) {
  std::ostringstream stream;
  write_tree_file(stream, forest);
  return stream.str();
}

/// The file is refused with just this message.
void refuses(std::string const& text, char const* message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read(text), message, Error);
}

/// A name in the folder for temporary files, removed at the end.
struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / "fasttree_test_tree_file.txt";
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("a tree file: one root, one inner node, three leaves") {
  Forest const forest = read("5\n-1 0 100 2\n0 1 20 2\n0 2 7 0\n1 3 0 0\n1 4 5 0\n");
  CHECK(forest.parents == std::vector{-1, 0, 0, 1, 1});
  CHECK(forest.lengths == std::vector{100, 20, 7, 0, 5});
  CHECK(forest.request_nodes == std::vector{2, 3, 4});
  CHECK(forest.labels.empty());
}

TEST_CASE("a tree file may hold its nodes in any order") {
  CHECK(read("3\n2 0 1 0\n2 1 2 0\n-1 2 3 2\n") == read("3\n-1 2 3 2\n2 1 2 0\n2 0 1 0\n"));
}

TEST_CASE("a tree file may hold several roots, a lone root, or nothing") {
  CHECK(read("2\n-1 0 3 0\n-1 1 4 0\n").request_nodes == std::vector{0, 1});
  CHECK(read("1\n-1 0 3 0\n").request_nodes == std::vector{0});
  CHECK(read("0\n") == Forest{});
}

TEST_CASE(
    "a tree file's white space: tabs, indents, CR LF, no last line end, blank lines at the end") {
  Forest const forest = read("2\n-1 0 3 1\n0 1 4 0\n");
  CHECK(read(" 2\t\r\n-1\t0  3 1\r\n  0 1 4 0\r\n") == forest);
  CHECK(read("2\n-1 0 3 1\n0 1 4 0") == forest);
  CHECK(read("2\n-1 0 3 1\n0 1 4 0\n\n \t\n") == forest);
}

TEST_CASE("a tree file that is empty") {
  refuses("", "tree.txt: expected the number of nodes, found an empty file");
  refuses("\n", "tree.txt:1: expected one number, the number of nodes, found 0 fields");
}

TEST_CASE("a tree file whose count is no count") {
  refuses("nodes\n", "tree.txt:1: expected a whole number as the number of nodes, found 'nodes'");
  refuses("2 3\n", "tree.txt:1: expected one number, the number of nodes, found 2 fields");
  refuses("-1\n",
          "tree.txt:1: expected as the number of nodes a value from 0 to 2147483647, found '-1'");
  refuses("2147483648\n",
          "tree.txt:1: expected as the number of nodes a value from 0 to 2147483647, "
          "found '2147483648'");
}

TEST_CASE("a truncated tree file") {
  refuses(
      "3\n-1 0 5 1\n0 1 5 0\n",
      "tree.txt:4: expected 3 nodes, as the first line says, found the end of the file after 2");
  refuses("2\n-1 0 5 1\n0 1 5",
          "tree.txt:3: expected 4 numbers (parent id tokens children), found 3 fields");
  refuses("2147483647\n-1 0 5 0\n",  // no memory is taken for what is only claimed
          "tree.txt:3: expected 2147483647 nodes, as the first line says, found the end of the "
          "file after 1");
}

TEST_CASE("a tree file with something after its last node") {
  refuses("1\n-1 0 5 0\n-1 1 5 0\n",
          "tree.txt:3: expected the end of the file after 1 nodes, found '-1 1 5 0'");
  refuses("1\n-1 0 5 0\n\n\nend\n",
          "tree.txt:5: expected the end of the file after 1 nodes, found 'end'");
  refuses("0\n-1 0 5 0\n",
          "tree.txt:2: expected the end of the file after 0 nodes, found '-1 0 5 0'");
}

TEST_CASE("a tree file with too many or too few fields, or a blank line between nodes") {
  refuses("1\n-1 0 5 0 0\n",
          "tree.txt:2: expected 4 numbers (parent id tokens children), found 5 fields");
  refuses("2\n-1 0 5 1\n\n0 1 5 0\n",
          "tree.txt:3: expected 4 numbers (parent id tokens children), found 0 fields");
}

TEST_CASE("a tree file with fields that are no whole numbers") {
  refuses("1\nroot 0 5 0\n", "tree.txt:2: expected a whole number as the parent, found 'root'");
  refuses("1\n-1 0x0 5 0\n", "tree.txt:2: expected a whole number as the id, found '0x0'");
  refuses("1\n-1 0 5.0 0\n", "tree.txt:2: expected a whole number as the tokens, found '5.0'");
  refuses("1\n-1 0 +5 0\n", "tree.txt:2: expected a whole number as the tokens, found '+5'");
  refuses("1\n-1 0 5 -\n",
          "tree.txt:2: expected a whole number as the number of children, found '-'");
}

TEST_CASE("a tree file with numbers that no int holds") {
  refuses("1\n-1 0 2147483648 0\n",
          "tree.txt:2: expected as the tokens a value from 0 to 2147483647, found '2147483648'");
  refuses("1\n-1 0 99999999999999999999999 0\n",
          "tree.txt:2: expected as the tokens a value from 0 to 2147483647, "
          "found '99999999999999999999999'");
}

TEST_CASE("a tree file with a negative length") {
  refuses("1\n-1 0 -5 0\n",
          "tree.txt:2: expected as the tokens a value from 0 to 2147483647, found '-5'");
}

TEST_CASE("a tree file with a parent or an id that is not there") {
  refuses("2\n-1 0 5 1\n2 1 5 0\n",
          "tree.txt:3: expected as the parent a value from -1 to 1, found '2'");
  refuses("1\n-2 0 5 0\n", "tree.txt:2: expected as the parent a value from -1 to 0, found '-2'");
  refuses("1\n-1 1 5 0\n", "tree.txt:2: expected as the id a value from 0 to 0, found '1'");
}

TEST_CASE("a tree file with a node that is its own parent") {
  refuses("2\n-1 0 5 0\n1 1 5 1\n",
          "tree.txt:3: expected another node as the parent of node 1, found the node itself");
}

TEST_CASE("a tree file with a cycle") {
  refuses(
      "4\n-1 0 5 1\n0 3 1 0\n2 1 5 1\n1 2 5 1\n",
      "tree.txt:4: expected a tree, found a cycle: node 1 is its own ancestor, by its parent 2");
  refuses(
      "4\n3 0 1 1\n0 1 1 1\n1 2 1 1\n2 3 1 1\n",
      "tree.txt:2: expected a tree, found a cycle: node 0 is its own ancestor, by its parent 3");
}

TEST_CASE("a tree file with a wrong number of children") {
  refuses("2\n-1 0 5 0\n0 1 5 0\n", "tree.txt:2: expected 0 children of node 0, found 1");
  refuses("2\n-1 0 5 1\n0 1 5 1\n", "tree.txt:3: expected 1 children of node 1, found 0");
  refuses("2\n-1 0 5 2\n0 1 5 0\n",
          "tree.txt:2: expected as the number of children a value from 0 to 1, found '2'");
}

TEST_CASE("a tree file with an id twice") {
  refuses("3\n-1 0 5 1\n0 1 5 0\n0 1 6 0\n",
          "tree.txt:4: expected every id once, found node 1 again, first on line 3");
}

TEST_CASE("a tree file that is no text: long lines and bytes of all kinds") {
  refuses(std::string(1000, '1'),
          "tree.txt:1: expected a line of a tree, found one of more than 255 bytes");
  refuses(std::string("1\n\0\1 \xff 5 0\n", 11),
          "tree.txt:2: expected a whole number as the parent, found '\ufffd\ufffd'");
}

TEST_CASE("a tree file that cannot be opened") {
  CHECK_THROWS_WITH_AS(read_tree_file(std::filesystem::path("/no/such/tree.txt")),
                       "/no/such/tree.txt: cannot be read: No such file or directory", Error);
  auto const folder = std::filesystem::temp_directory_path();
  CHECK_THROWS_WITH_AS(read_tree_file(folder),
                       (folder.string() + ": expected a file, found a folder").c_str(), Error);
}

TEST_CASE("a stream that fails is an error, not an empty tree") {
  std::ifstream stream("/no/such/tree.txt");
  CHECK_THROWS_WITH_AS(read_tree_file(stream, "tree.txt"), "tree.txt: cannot be read", Error);
}

TEST_CASE("what is written is read back") {
  std::string const text = "5\n-1 0 100 2\n0 1 20 2\n0 2 7 0\n1 3 0 0\n1 4 5 0\n";
  CHECK(written(read(text)) == text);
  TemporaryFile const file;
  write_tree_file(file.path, read(text));
  CHECK(read_tree_file(file.path) == read(text));
  CHECK_FALSE(std::filesystem::exists(file.path.string() + ".partial"));
}

TEST_CASE("a forest that the format cannot hold is not written") {
  Forest forest{{-1, 0}, {3, 4}, {0, 1}, {}};
  CHECK_THROWS_WITH_AS(written(forest),
                       "write_tree_file: forest: the format holds one request per leaf and none "
                       "elsewhere, found 1 on node 0",
                       Error);
  forest = {{-1, 0}, {3}, {1}, {}};
  CHECK_THROWS_WITH_AS(written(forest),
                       "write_tree_file: forest: expected one length per parent, found 1 lengths "
                       "and 2 parents",
                       Error);
  forest = {{-1, 2}, {3, 4}, {1}, {}};
  CHECK_THROWS_WITH_AS(written(forest),
                       "write_tree_file: forest.parents: expected nodes or -1, found 2", Error);
  forest = {{-1, 0}, {3, 4}, {2}, {}};
  CHECK_THROWS_WITH_AS(written(forest),
                       "write_tree_file: forest.request_nodes: expected nodes, found 2", Error);
}

TEST_CASE("a file that cannot be written leaves what was there") {
  TemporaryFile const file;
  write_tree_file(file.path, read("1\n-1 0 3 0\n"));
  CHECK_THROWS_AS(write_tree_file(file.path, Forest{{-1}, {3}, {}, {}}), Error);
  CHECK(read_tree_file(file.path) == read("1\n-1 0 3 0\n"));
  CHECK_THROWS_WITH_AS(write_tree_file(std::filesystem::path("/no/such/tree.txt"), Forest{}),
                       "/no/such/tree.txt: cannot be written: No such file or directory", Error);
}

TEST_CASE("a chain of 200 000 nodes and a star of as many leaves are read without recursion") {
  int const count = 200'000;
  Forest chain, star;
  for (int node = 0; node < count; ++node) {
    chain.parents.push_back(node - 1);
    star.parents.push_back(node == 0 ? -1 : 0);
    if (node > 0) star.request_nodes.push_back(node);
  }
  chain.lengths.assign(count, 1);
  star.lengths.assign(count, 1);
  chain.request_nodes = {count - 1};
  CHECK(read(written(chain)) == chain);
  CHECK(read(written(star)) == star);
}
