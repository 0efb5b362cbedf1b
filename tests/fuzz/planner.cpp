// SPDX-License-Identifier: Apache-2.0
// Any bytes as a small forest and a machine: a fasttree::Error, or plans of every policy that keep
// the law, also after some updates.

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "../support/edited_forest.hpp"
#include "../support/plan_law.hpp"
#include "../support/subtree_policy.hpp"

namespace {

using namespace fasttree;

/// Reads the input byte by byte; zeros follow its end.
class Bytes {
 public:
  explicit Bytes(std::span<std::uint8_t const> bytes) : bytes_(bytes) {}
  int next() {
    if (bytes_.empty()) return 0;
    int const byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  /// An integer of [least, most].
  int next(int least, int most) { return least + next() % (most - least + 1); }

 private:
  std::span<std::uint8_t const> bytes_;
};

void check(PrefixTree const& tree, PlanTarget const& target, PlanTables const& tables,
           test::PlanIs made) {
  std::string const broken = test::PlanLaw(tree, target, tables, made).broken();
  if (broken.empty()) return;
  std::fprintf(stderr, "broken law: %s\n", broken.c_str());
  std::abort();
}

/// A plan, in memory of the inputs before: what it held must not matter.
template <class Policy>
struct Plan {
  PlanTarget const& target;
  Policy const& policy;
  test::EditedForest const& forest;
  int room;
  static inline Grouping grouping;
  static inline PlanTables tables;

  bool append_tokens() const { return fasttree::append_tokens(tables); }
  void remove_request(int row) const { fasttree::remove_request(tables, row); }
  void add_request(std::vector<SlotRange> const& path, int with_room) const {
    fasttree::add_request(tables, target, path, with_room);
  }
  void make_anew() const { build_plan(forest.tree(room), target, policy, grouping, tables); }
};

template <class Policy>
void keeps_the_law(test::Forest const& shape, SlotLayout const& layout, int seed,
                   PlanTarget const& target, Policy const& policy) {
  test::EditedForest forest(shape, layout.room);
  Plan<Policy> const plan{target, policy, forest, layout.room};
  PrefixTree const tree(shape.parents, shape.lengths, shape.requests, layout);
  build_plan(tree, target, policy, plan.grouping, plan.tables);
  check(tree, target, plan.tables, test::PlanIs::fresh);
  plan.make_anew();
  test::Random random(seed);
  for (int step = 0; step < 16; ++step) {
    forest.edit(random, plan);
    check(forest.tree(), target, plan.tables, test::PlanIs::updated);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  Bytes bytes({data, size});
  PlanTarget const target{{{bytes.next(1, 100), bytes.next(1, 64), bytes.next(1, 16)},
                           {bytes.next(1, 30), bytes.next(1, 64), bytes.next(1, 16)}},
                          bytes.next(1, 20),
                          bytes.next(1, 8),
                          bytes.next(1, 200)};
  if (target.tiles.narrow.query_rows > target.tiles.wide.query_rows) return 0;
  GreedyEdges<> const greedy{.costs = {.gamma = bytes.next() * 0.1},
                             .long_piece = bytes.next(1, 256),
                             .short_piece = bytes.next(1, 64)};
  MinimalTraffic<> const minimal{{.item = 0.01 * bytes.next(1, 200),
                                  .memory = 100.0 * bytes.next(1, 200),
                                  .cache = 100.0 * bytes.next(1, 200),
                                  .wide = 1e3 * bytes.next(1, 200),
                                  .narrow = 1e3 * bytes.next(1, 200),
                                  .alone = 0.5 * bytes.next(2, 8)}};
  int const alignment = bytes.next(0, 20);
  std::vector<int> parents, lengths;
  std::vector<Request> requests;
  int const nodes = bytes.next(0, 40), count = bytes.next(0, 40);
  for (int i = 0; i < nodes; ++i) {
    parents.push_back(bytes.next(-2, nodes));
    lengths.push_back(bytes.next(-1, 254));
  }
  for (int i = 0; i < count; ++i) {
    int const node = bytes.next(-1, nodes);
    requests.push_back({node, bytes.next(-1, 9)});
  }
  try {
    test::Forest const forest{parents, lengths, requests};
    SlotLayout const layout{alignment, bytes.next(0, 8)};
    int const seed = bytes.next();
    keeps_the_law(forest, layout, seed, target, NoSharing{});
    keeps_the_law(forest, layout, seed, target, ShareEveryNode{});
    keeps_the_law(forest, layout, seed, target, greedy);
    keeps_the_law(forest, layout, seed, target, minimal);
    keeps_the_law(forest, layout, seed, target,
                  MinimalTraffic<>{.fixed_piece = greedy.short_piece});
    keeps_the_law(forest, layout, seed, target,
                  test::SubtreePolicy{.keys_per_item = greedy.long_piece});
  } catch (Error const&) {
  }
  return 0;
}
