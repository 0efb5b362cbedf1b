// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention over a tree as benchmarks time it: random inputs, a plan by some planner, and the check
// against the oracle, without which no time counts.

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fasttree/tree_attention.hpp>
#include <support/oracle.hpp>
#include <support/random_forest.hpp>
#include <support/tolerance.hpp>
#include "anchors.hpp"
#include "heads.hpp"

namespace fasttree::bench {

inline constexpr int head_dim = 128;

enum class Order { token_major, head_major };

/// Keys and values of all points of an element type: one block of random numbers, as large as the
/// largest point so far. No point writes to it.
template <class E>
E const* random_elements(std::size_t count) {
  static std::unique_ptr<E[]> pool;
  static std::size_t size = 0;
  if (size < count) {
    pool.reset();
    pool.reset(new E[size = count]);
    E* const to = pool.get();
    Kokkos::parallel_for(Kokkos::RangePolicy<Host>(0, count), [=](std::int64_t i) {
      std::uint64_t bits = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;  // splitmix64
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
      to[i] = E(static_cast<float>(bits >> 40) * 0x1p-23f - 1.f);
    });
    Host().fence();
  }
  return pool.get();
}

/// One tree, its heads, the order of its cache and its plan.
template <class E>
class Point {
 public:
  using Shape = AttentionShape<E, head_dim>;

  template <class Policy>
  Point(test::Forest forest, Heads heads, Order order, Policy const& planner)
      : forest_(std::move(forest)),
        tree_(forest_.tree()),
        shape_{.query_heads = heads.queries, .kv_heads = heads.keys},
        order_(order),
        plan_(make_plan(Host(), tree_, shape_, planner)),
        workspace_(make_workspace(Host(), plan_)),
        queries_("bench::queries", tree_.queries(), heads.queries, head_dim),
        outputs_("bench::outputs", tree_.queries(), heads.queries, head_dim) {
    E const* const random = random_elements<E>(queries_.size());
    std::copy(random, random + queries_.size(), queries_.data());
  }

  PlanSummary summary() const { return summarize(plan_); }
  PlanTables const& tables() const { return plan_.tables(); }
  double flops() const { return 4.0 * summary().path_keys * shape_.query_heads * head_dim; }

  void attend() const {
    fasttree::tree_attention(Host(), plan_, queries_, cache(), outputs_, workspace_);
    Host().fence();
  }

  /// The largest error of some requests' outputs, in units of what is tolerated.
  double worst_error() const {
    attend();
    int const checked = std::min(tree_.requests(), 6);
    std::set<int> requests;
    for (int i = 0; i < checked; ++i)
      requests.insert(checked > 1 ? i * (tree_.requests() - 1) / (checked - 1) : 0);
    double worst = 0;
    for (int const request : requests) worst = std::max(worst, error_of(request));
    return worst;
  }

 private:
  ContiguousCache<E> cache() const {
    std::int64_t const slots = tree_.slots(), heads = shape_.kv_heads, all = slots * heads;
    E const* const keys = random_elements<E>(2 * all * head_dim);
    StridedArray<E const, 3> array{keys, {slots, heads, head_dim}, {heads * head_dim, head_dim, 1}};
    if (order_ == Order::head_major)
      array.strides[0] = head_dim, array.strides[1] = slots * head_dim;
    StridedArray<E const, 3> const key_array = array;
    array.data += all * head_dim;
    return {key_array, array};
  }

  /// One request alone, by the oracle: its path as a tree of one node.
  double error_of(int request) const {
    int const row = tree_.first_query(request), node = tree_.request(request).node;
    std::vector<std::int64_t> const slots = test::path_slots(tree_, node);
    auto const from = cache();
    std::vector<E> keys, values;
    for (std::int64_t const slot : slots)
      for (int head = 0; head < shape_.kv_heads; ++head) {
        keys.insert(keys.end(), from.key(slot, head), from.key(slot, head) + head_dim);
        values.insert(values.end(), from.value(slot, head), from.value(slot, head) + head_dim);
      }
    test::Forest const path{{PrefixTree::no_parent}, {static_cast<int>(slots.size())}, {{0}}};
    std::size_t const row_size = static_cast<std::size_t>(shape_.query_heads) * head_dim;
    std::span<E const> const query(queries_.data() + row * row_size, row_size);
    test::Answer const answer =
        test::attention_oracle<Shape, E>(path.tree(), shape_, query, keys, values);
    double worst = 0;
    for (std::size_t i = 0; i < row_size; ++i) {
      double const exact = answer.outputs[i];
      double const tolerance =
          test::output_tolerance<E>(answer.rows[i / head_dim], head_dim, exact);
      float const found = outputs_.data()[row * row_size + i];
      worst = std::max(worst, test::error_in(tolerance, found, exact));
    }
    return worst;
  }

  test::Forest forest_;
  PrefixTree tree_;
  Shape shape_;
  Order order_;
  AttentionPlan<Host, Shape, DefaultBackend<Host>> plan_;
  Workspace<Host> workspace_;
  Kokkos::View<E***, Kokkos::LayoutRight, Host> queries_, outputs_;
};

}  // namespace fasttree::bench
