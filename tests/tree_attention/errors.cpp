// SPDX-License-Identifier: Apache-2.0
// Every argument of make_plan, make_workspace and tree_attention that can be wrong: the message
// names function, argument, expected and found; nothing is enqueued and no output is changed.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "support/arrays.hpp"
#include "support/random_forest.hpp"
#include "support/space.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8, 16>;
using Extents = std::array<std::int64_t, 3>;
constexpr Shape shape{.query_heads = 4, .kv_heads = 2};

/// Arguments of a call on a tree of 5 queries and 13 slots, right unless a test makes one wrong.
struct Call {
  Space space{};
  PrefixTree tree = Forest{{-1, 0}, {10, 3}, {{1, 2}, {0}, {1, 2}}}.tree();
  AttentionPlan<Space, Shape, DefaultBackend<Space>> plan = make_plan(space, tree, shape);
  Workspace<Space> workspace = make_workspace(space, plan);
  Extents queries{5, 4, 8}, keys{13, 2, 8}, values{13, 2, 16}, outputs{5, 4, 16};
  std::array<std::int64_t, 2> log_sum_exps{5, 4};

  void refused(std::string const& message) const {
    auto const asked = make_array<float>(queries);
    auto const cache =
        make_contiguous_cache(space, make_array<float>(keys), make_array<float>(values));
    auto const output = make_array<float>(outputs);
    auto const sums = make_array<NaturalLogSumExp>(log_sum_exps);
    ToolEvents const events;
    CHECK_THROWS_WITH_AS(tree_attention(space, plan, asked, cache, output, sums, workspace),
                         ("fasttree::tree_attention: " + message).c_str(), Error);
    CHECK(events.kernels() == "");
    for (float const x : output.read()) CHECK(std::isnan(x));
  }
};

}  // namespace

TEST_CASE("refused: queries of other extents than tree, heads and head_dim") {
  Call call;
  call.queries[0] = 3;
  call.refused("queries.extent(0): expected 5, found 3");
  call.queries = {5, 2, 8};
  call.refused("queries.extent(1): expected 4, found 2");
  call.queries = {5, 4, 16};
  call.refused("queries.extent(2): expected 8, found 16");
}

TEST_CASE("refused: a cache of other heads or dimensions, or of too few slots") {
  Call call;
  call.keys[1] = call.values[1] = 4;
  call.refused("cache.kv_heads(): expected 2, found 4");
  call.keys = {13, 2, 16}, call.values = {13, 2, 16};
  call.refused("cache.head_dim(): expected 8, found 16");
  call.keys = {13, 2, 8}, call.values = {13, 2, 8};
  call.refused("cache.value_dim(): expected 16, found 8");
  call.keys = {12, 2, 8}, call.values = {12, 2, 16};
  call.refused("cache.slots(): expected at least 13, found 12");
}

TEST_CASE("refused: an output of other extents") {
  Call call;
  call.outputs[0] = 6;
  call.refused("output.extent(0): expected 5, found 6");
  call.outputs = {5, 2, 16};
  call.refused("output.extent(1): expected 4, found 2");
  call.outputs = {5, 4, 8};
  call.refused("output.extent(2): expected 16, found 8");
}

TEST_CASE("refused: log-sum-exps of other extents") {
  Call call;
  call.log_sum_exps[0] = 4;
  call.refused("log_sum_exps.extent(0): expected 5, found 4");
  call.log_sum_exps = {5, 2};
  call.refused("log_sum_exps.extent(1): expected 4, found 2");
}

TEST_CASE("refused: a workspace that is one byte short; one that just suffices is taken") {
  Call call;
  make_plan_into(call.space, call.tree, call.plan, ShareEveryNode{});  // has partial results
  std::size_t const bytes = workspace_bytes(call.space, call.plan);
  CHECK(make_workspace(call.space, call.plan).bytes() == bytes);
  using Memory = Workspace<Space>::Memory;
  auto const smaller = make_plan(call.space, Forest{{-1}, {3}, {{0}}}.tree(), shape);
  call.workspace = make_workspace(call.space, smaller, Memory("memory", bytes - 1));
  call.refused("workspace.bytes(): expected at least " + std::to_string(bytes) + ", found " +
               std::to_string(bytes - 1));
  CHECK_NOTHROW(make_workspace(call.space, call.plan, Memory("memory", bytes)));
  CHECK_THROWS_WITH_AS(make_workspace(call.space, call.plan, Memory("memory", bytes - 1)),
                       ("fasttree::make_workspace: memory.size(): expected " +
                        std::to_string(bytes) + ", found " + std::to_string(bytes - 1))
                           .c_str(),
                       Error);
}

TEST_CASE("refused: a workspace that was made for a plan of other heads") {
  Call call;
  Shape const more_heads{.query_heads = 8, .kv_heads = 2};
  call.workspace = make_workspace(call.space, make_plan(call.space, call.tree, more_heads));
  call.refused(
      "workspace: expected one that was made for a plan of these heads, on this space, "
      "found another");
}

TEST_CASE("refused: workspace memory that is not aligned to 64 bytes") {
  Call const call;
  std::size_t const bytes = workspace_bytes(call.space, call.plan);
  using Memory = Workspace<Space>::Memory;
  Memory const memory("memory", bytes + 8);
  CHECK_THROWS_WITH_AS(
      make_workspace(call.space, call.plan, Memory(memory.data() + 8, bytes)),
      "fasttree::make_workspace: memory.data(): expected an address that is a multiple "
      "of 64, found another",
      Error);
}

TEST_CASE("refused: log-sum-exps without memory") {
  Call call;
  call.log_sum_exps = {0, 0};
  call.refused("log_sum_exps.extent(0): expected 5, found 0");
}

TEST_CASE("refused: heads that no plan can have") {
  Call const call;
  CHECK_THROWS_WITH_AS(make_plan(call.space, call.tree, Shape{.query_heads = 5, .kv_heads = 2}),
                       "fasttree::make_plan: shape.query_heads: expected a positive multiple of "
                       "kv_heads = 2, found 5",
                       Error);
}
