// SPDX-License-Identifier: Apache-2.0
// Any bytes as a small forest and a machine: a fasttree::Error, or plans of every policy that keep
// the law.

#include <fasttree/planner/build_plan.hpp>
#include <fasttree/planner/greedy_edges.hpp>
#include <fasttree/planner/minimal_traffic.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

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

template <class Policy>
void keeps_the_law(PrefixTree const& tree, PlanTarget const& target, Policy const& policy) {
  static Grouping grouping;  // memory of the inputs before: what it held must not matter
  static PlanTables tables;
  build_plan(tree, target, policy, grouping, tables);
  std::string const broken = test::PlanLaw(tree, target, tables).broken();
  if (broken.empty()) return;
  std::fprintf(stderr, "broken law: %s\n", broken.c_str());
  std::abort();
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
    PrefixTree const tree(parents, lengths, requests, alignment);
    keeps_the_law(tree, target, NoSharing{});
    keeps_the_law(tree, target, ShareEveryNode{});
    keeps_the_law(tree, target, greedy);
    keeps_the_law(tree, target, minimal);
    keeps_the_law(tree, target, MinimalTraffic<>{.fixed_piece = greedy.short_piece});
    keeps_the_law(tree, target, test::SubtreePolicy{.keys_per_item = greedy.long_piece});
  } catch (Error const&) {
  }
  return 0;
}
