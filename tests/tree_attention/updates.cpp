// SPDX-License-Identifier: Apache-2.0
// Attention by updated plans: after any sequence of updates it is that of a fresh plan, and of the
// oracle; what lies in slots that no request attends to, or no more, has no influence.

#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "support/edited_forest.hpp"
#include "support/problem.hpp"
#include "support/subtree_policy.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

using Shape = AttentionShape<float, 8>;
constexpr Shape shape{.query_heads = 6, .kv_heads = 2};
template <class S>
using PlanOf = AttentionPlan<Space, S, DefaultBackend<Space, S>>;
using Plan = PlanOf<Shape>;

/// What EditedForest::edit asks of a plan.
template <class Plan, class Policy>
struct Updates {
  Plan& plan;
  EditedForest const& forest;
  int room;
  Policy policy;

  bool append_tokens() const { return fasttree::append_tokens(Space{}, plan); }
  void remove_request(int row) const { fasttree::remove_request(Space{}, plan, row); }
  void add_request(std::vector<SlotRange> const& path, int with_room) const {
    fasttree::add_request(Space{}, plan, path, with_room);
  }
  void make_anew() const { make_plan_into(Space{}, forest.tree(room), plan, policy); }
};

template <class Policy, class S = Shape>
void attends_as_a_fresh_plan(Policy const& policy, S const& heads = shape,
                             std::uint64_t seeds = 12) {
  constexpr int room = 8;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    EditedForest forest(random_forest(seed, {12, 80, 20, seed % 4 == 0 ? 3 : 1}), room);
    PlanOf<S> plan = make_plan(Space{}, forest.tree(), heads, policy);
    std::string done = "a plan";
    for (int step = 0; step < 40; ++step) {
      done += ", " + forest.edit(random, Updates<PlanOf<S>, Policy>{plan, forest, room, policy});
      if (step % 4 != 3) continue;
      CAPTURE(done);
      Problem<S> const problem(forest.tree(), heads, seed, forest.slots());
      Answer const answer = problem.answer();
      PlanOf<S> const fresh = make_plan(Space{}, problem.tree, heads, policy);
      for (PlanOf<S> const* const by : std::array<PlanOf<S> const*, 2>{&plan, &fresh}) {
        auto const result = attend(*by, problem, make_workspace(Space{}, *by));
        REQUIRE(worst_error(result, answer, S::head_dim) <= 1);
      }
      done.clear();
    }
  }
}

}  // namespace

TEST_CASE("NoSharing: attention by an updated plan is that of a fresh one") {
  attends_as_a_fresh_plan(NoSharing{});
}

TEST_CASE("ShareEveryNode: attention by an updated plan is that of a fresh one") {
  attends_as_a_fresh_plan(ShareEveryNode{});
}

TEST_CASE("GreedyEdges: attention by an updated plan is that of a fresh one") {
  attends_as_a_fresh_plan(GreedyEdges<>{});
  attends_as_a_fresh_plan(GreedyEdges<>{.long_piece = 50, .short_piece = 20});
}

TEST_CASE("MinimalTraffic: attention by an updated plan is that of a fresh one") {
  attends_as_a_fresh_plan(MinimalTraffic<>{});
}

TEST_CASE("groups that carry subtrees: attention by an updated plan is that of a fresh one") {
  attends_as_a_fresh_plan(SubtreePolicy{});
  attends_as_a_fresh_plan(SubtreePolicy{.keys_per_item = 30});
}

TEST_CASE("half, head_dim 64: attention by an updated plan is that of a fresh one") {
  AttentionShape<fasttree::half, 64> const heads{.query_heads = 6, .kv_heads = 2};
  attends_as_a_fresh_plan(ShareEveryNode{}, heads, 4);
  attends_as_a_fresh_plan(MinimalTraffic<>{}, heads, 4);
  attends_as_a_fresh_plan(SubtreePolicy{.keys_per_item = 30}, heads, 4);
}

TEST_CASE("a workspace made for more partial results serves requests added") {
  Space const space{};
  EditedForest forest(level_forest({1, 6}, {600, 20}), 0);
  Plan plan = make_plan(space, forest.tree(), shape);
  auto const large = make_workspace(space, plan, 20);
  std::size_t const bytes = workspace_bytes(space, plan);
  for (int i = 0; i < 4; ++i) {
    add_request(space, plan, forest.path(1 + i));
    forest.add_request(1 + i);
  }
  CHECK(workspace_bytes(space, plan) >= bytes);
  REQUIRE(workspace_bytes(space, plan) <= large.bytes());
  Problem<Shape> const problem(forest.tree(), shape, 1, forest.slots());
  CHECK(worst_error(problem, attend(plan, problem, large)) <= 1);
}

TEST_CASE("an update that is refused leaves the plan as it was") {
  Space const space{};
  EditedForest const forest(random_forest(7, {12, 80, 20, 1}), 0);
  Problem<Shape> const problem(forest.tree(), shape, 7, forest.slots());
  Plan plan = make_plan(space, problem.tree, shape);
  SlotRange const wrong[] = {{0, 4}, {-1, 4}};
  CHECK_THROWS_AS(remove_request(space, plan, problem.tree.queries()), Error);
  CHECK_THROWS_AS(add_request(space, plan, wrong), Error);
  CHECK_FALSE(append_tokens(space, plan));
  CHECK(worst_error(problem, attend(plan, problem, make_workspace(space, plan))) <= 1);
}

TEST_CASE("updates fence nothing, and allocate nothing once the memory suffices") {
  Space const space{};
  Forest const forest = level_forest({1, 8}, {300, 20});
  PrefixTree const tree(forest.parents, forest.lengths, forest.requests, SlotLayout{.room = 1000});
  Plan plan = make_plan(space, tree, shape, ShareEveryNode{});
  auto const updates = [&] {
    CHECK(append_tokens(space, plan));
    remove_request(space, plan, 3);
    SlotRange const path[] = {{0, 300}, {tree.slot_begin(4), 20}};
    add_request(space, plan, path, 900);
  };
  for (int i = 0; i < 100; ++i) updates();
  ToolEvents const events;
  for (int i = 0; i < 100; ++i) updates();
  CHECK(events.allocations() == "");
  CHECK(events.fences() == "");
  CHECK(events.kernels() == "");
}
