// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tree, heads and random inputs; the three caches that can hold them, in any order and with nan
// in every unused place; attention over them, and the comparison with the oracle.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fasttree/tree_attention.hpp>
#include "arrays.hpp"
#include "oracle.hpp"
#include "random_forest.hpp"
#include "space.hpp"
#include "tolerance.hpp"

namespace fasttree::test {

/// Inputs in the order of the oracle. Keys and values are those of (node, token), whatever slot
/// they get: problems of one seed and forest differ in no input, whatever their slot alignment.
template <class ShapeType>
struct Problem {
  using Shape = ShapeType;
  using Stored = typename Shape::element_type;

  Shape shape;
  PrefixTree tree;
  std::vector<Stored> queries, keys, values;

  Problem(Forest const& forest, Shape const& heads, std::uint64_t seed = 1, int slot_alignment = 1)
      : shape(heads), tree(forest.tree(slot_alignment)) {
    Random random(seed);
    queries.resize(std::size_t(tree.queries()) * shape.query_heads * Shape::head_dim);
    for (Stored& x : queries) x = Stored(random.real(2));
    keys.assign(tree.slots() * shape.kv_heads * Shape::head_dim, poison<Stored>());
    values.assign(tree.slots() * shape.kv_heads * Shape::value_dim, poison<Stored>());
    for (int node = 0; node < tree.nodes(); ++node)
      for (int token = 0; token < tree.length(node); ++token)
        for (int head = 0; head < shape.kv_heads; ++head) {
          std::int64_t const slot = tree.slot_begin(node) + token;
          for (Stored& x : key(slot, head)) x = Stored(random.real(2));
          for (Stored& x : value(slot, head)) x = Stored(random.real(2));
        }
  }

  /// Of a tree that was edited, in a cache of `slots` slots: what lies in a slot, and what a row
  /// asks, depends on the seed alone.
  Problem(PrefixTree const& edited, Shape const& heads, std::uint64_t seed, std::int64_t slots)
      : shape(heads), tree(edited) {
    Random random(seed);
    keys.resize(slots * shape.kv_heads * Shape::head_dim);
    for (Stored& x : keys) x = Stored(random.real(2));
    values.resize(slots * shape.kv_heads * Shape::value_dim);
    for (Stored& x : values) x = Stored(random.real(2));
    queries.resize(std::size_t(tree.queries()) * shape.query_heads * Shape::head_dim);
    for (Stored& x : queries) x = Stored(random.real(2));
    std::vector<bool> used(slots, false);
    for (int node = 0; node < tree.nodes(); ++node)
      for (int i = 0; i < tree.length(node); ++i) used[tree.slot_begin(node) + i] = true;
    for (std::int64_t slot = 0; slot < slots; ++slot)
      for (int head = 0; head < shape.kv_heads && !used[slot]; ++head) {
        std::ranges::fill(key(slot, head), poison<Stored>());
        std::ranges::fill(value(slot, head), poison<Stored>());
      }
  }

  /// Of the cache.
  std::int64_t slots() const {
    return static_cast<std::int64_t>(keys.size()) / (shape.kv_heads * Shape::head_dim);
  }

  std::span<Stored> query(int row, int head) {
    return std::span(queries).subspan(
        (std::size_t(row) * shape.query_heads + head) * Shape::head_dim, Shape::head_dim);
  }
  std::span<Stored> key(std::int64_t slot, int head) {
    return std::span(keys).subspan((slot * shape.kv_heads + head) * Shape::head_dim,
                                   Shape::head_dim);
  }
  std::span<Stored> value(std::int64_t slot, int head) {
    return std::span(values).subspan((slot * shape.kv_heads + head) * Shape::value_dim,
                                     Shape::value_dim);
  }

  Answer answer() const {
    return attention_oracle<Shape, Stored>(tree, shape, queries, keys, values);
  }
};

/// A cache and the arrays that it refers to.
template <class Cache, int Rank, class Index = int>
struct HeldCache {
  using Stored = typename Cache::element_type;
  Array<Stored, Rank> keys, values;
  Array<Index, 1> table;
  Cache cache;
};

/// The contiguous cache of a problem; `heads_first`: (kv_heads, slots, dim) in memory.
template <class P>
auto contiguous_cache(P const& problem, bool heads_first = false, int padding = 0) {
  using Stored = typename P::Stored;
  constexpr int head_dim = P::Shape::head_dim, value_dim = P::Shape::value_dim;
  std::int64_t const slots = problem.slots();
  int const heads = problem.shape.kv_heads;
  Layout<3> const layout{heads_first ? std::array{1, 0, 2} : std::array{0, 1, 2}, padding};
  auto const keys = make_array<Stored>(std::array<std::int64_t, 3>{slots, heads, head_dim}, layout);
  auto const values =
      make_array<Stored>(std::array<std::int64_t, 3>{slots, heads, value_dim}, layout);
  keys.write([&](auto at) { return problem.keys[(at[0] * heads + at[1]) * head_dim + at[2]]; });
  values.write(
      [&](auto at) { return problem.values[(at[0] * heads + at[1]) * value_dim + at[2]]; });
  auto const cache = make_contiguous_cache(Space{}, keys, values);
  return HeldCache<std::remove_const_t<decltype(cache)>, 3>{keys, values, {}, cache};
}

/// The paged cache of a problem whose tree was made with slot_alignment = page_size: pages
/// shuffled, three of them unused, values in another order of dimensions than keys.
template <class P>
auto paged_cache(P const& problem, int page_size, std::uint64_t seed) {
  using Stored = typename P::Stored;
  constexpr int head_dim = P::Shape::head_dim, value_dim = P::Shape::value_dim;
  int const entries = static_cast<int>(problem.tree.slots() / page_size);
  int const pages = entries + 3, heads = problem.shape.kv_heads;
  std::vector<int> page = Random(seed).permutation(pages);
  std::vector<int> entry_of_page(pages, -1);
  for (int i = 0; i < entries; ++i) entry_of_page[page[i]] = i;
  auto const keys = make_array<Stored>(
      std::array<std::int64_t, 4>{pages, page_size, heads, head_dim}, {{0, 2, 1, 3}, 3});
  auto const values = make_array<Stored>(
      std::array<std::int64_t, 4>{pages, page_size, heads, value_dim}, {{0, 1, 2, 3}, 5});
  auto const fill = [&](auto const& array, auto const& from, int dim) {
    array.write([&](auto at) {
      int const entry = entry_of_page[at[0]];
      std::int64_t const slot = std::int64_t{entry} * page_size + at[1];
      return entry < 0 ? poison<Stored>() : from[(slot * heads + at[2]) * dim + at[3]];
    });
  };
  fill(keys, problem.keys, head_dim);
  fill(values, problem.values, value_dim);
  auto const table = make_array<int>(std::array<std::int64_t, 1>{entries});
  table.write([&](auto at) { return page[at[0]]; });
  auto const cache = make_paged_cache(Space{}, keys, values, table);
  return HeldCache<std::remove_const_t<decltype(cache)>, 4>{keys, values, table, cache};
}

/// The indexed cache of a problem: rows shuffled, seven of them unused.
template <class P>
auto indexed_cache(P const& problem, std::uint64_t seed) {
  using Stored = typename P::Stored;
  constexpr int head_dim = P::Shape::head_dim, value_dim = P::Shape::value_dim;
  int const slots = static_cast<int>(problem.tree.slots());
  int const rows = slots + 7, heads = problem.shape.kv_heads;
  std::vector<int> const row = Random(seed).permutation(rows);
  std::vector<int> slot_of_row(rows, -1);
  for (int i = 0; i < slots; ++i) slot_of_row[row[i]] = i;
  auto const keys =
      make_array<Stored>(std::array<std::int64_t, 3>{rows, heads, head_dim}, {{0, 1, 2}, 1});
  auto const values =
      make_array<Stored>(std::array<std::int64_t, 3>{rows, heads, value_dim}, {{1, 0, 2}, 0});
  auto const fill = [&](auto const& array, auto const& from, int dim) {
    array.write([&](auto at) {
      std::int64_t const slot = slot_of_row[at[0]];
      return slot < 0 ? poison<Stored>() : from[(slot * heads + at[1]) * dim + at[2]];
    });
  };
  fill(keys, problem.keys, head_dim);
  fill(values, problem.values, value_dim);
  auto const table = make_array<std::int64_t>(std::array<std::int64_t, 1>{slots});
  table.write([&](auto at) { return row[at[0]]; });
  auto const cache = make_indexed_cache(Space{}, keys, values, table);
  return HeldCache<std::remove_const_t<decltype(cache)>, 3, std::int64_t>{keys, values, table,
                                                                          cache};
}

/// Results in the order of the oracle; log-sum-exps in the base that was asked for.
template <class Written>
struct Result {
  std::vector<Written> outputs;
  std::vector<float> log_sum_exps;
  double weight_roundoff = 0;  ///< of the backend that computed it
};

/// The arrays that attention of a problem reads and writes, beside the cache.
template <class Written, LogBase Base, class P>
struct Arrays {
  Array<typename P::Stored, 3> queries;
  Array<Written, 3> outputs;
  Array<LogSumExp<Base>, 2> log_sum_exps;

  explicit Arrays(P const& problem, Layout<3> layout = {}, Layout<2> log_layout = {}) {
    std::int64_t const rows = problem.tree.queries(), heads = problem.shape.query_heads;
    constexpr int head_dim = P::Shape::head_dim, value_dim = P::Shape::value_dim;
    queries =
        make_array<typename P::Stored>(std::array<std::int64_t, 3>{rows, heads, head_dim}, layout);
    queries.write(
        [&](auto at) { return problem.queries[(at[0] * heads + at[1]) * head_dim + at[2]]; });
    outputs = make_array<Written>(std::array<std::int64_t, 3>{rows, heads, value_dim}, layout);
    log_sum_exps =
        make_array<LogSumExp<Base>>(std::array<std::int64_t, 2>{rows, heads}, log_layout);
  }

  Result<Written> read() const {
    Result<Written> result{outputs.read(), {}, 0};
    for (auto const x : log_sum_exps.read()) result.log_sum_exps.push_back(x.value);
    return result;
  }
};

/// Attention of a problem by a plan and a workspace that a test has made, from the contiguous cache
/// or another.
template <class Plan, class P, class Cache>
auto attend(Plan const& plan, P const& problem, Workspace<Space> const& workspace,
            Cache const& held) {
  Arrays<typename P::Stored, LogBase::e, P> const arrays(problem);
  tree_attention(Space{}, plan, arrays.queries, held.cache, arrays.outputs, arrays.log_sum_exps,
                 workspace);
  Space{}.fence();
  auto result = arrays.read();
  result.weight_roundoff = Plan::backend_type::template weight_roundoff<typename P::Shape>;
  return result;
}
template <class Plan, class P>
auto attend(Plan const& plan, P const& problem, Workspace<Space> const& workspace) {
  return attend(plan, problem, workspace, contiguous_cache(problem));
}

/// The same by a plan of a backend and a policy.
template <class Backend, class P, class Cache, class Policy = DefaultPlanner>
auto attend_by(P const& problem, Cache const& held, Policy const& policy = {}) {
  AttentionPlan<Space, typename P::Shape, Backend> plan(problem.shape);
  make_plan_into(Space{}, problem.tree, plan, policy);
  return attend(plan, problem, make_workspace(Space{}, plan), held);
}

/// The same for the backend of the space under test.
template <class P, class Cache, class Policy = DefaultPlanner>
auto attend(P const& problem, Cache const& held, Policy const& policy = {}) {
  return attend_by<DefaultBackend<Space, typename P::Shape>>(problem, held, policy);
}

/// The largest error of a result against the oracle, in units of what is tolerated: at most 1 is
/// right. Both outputs and log-sum-exps (natural) count.
template <class Written>
double worst_error(Result<Written> const& result, Answer const& answer, int head_dim) {
  double worst = 0;
  std::size_t const rows = answer.rows.size();
  if (result.outputs.size() != answer.outputs.size() || result.log_sum_exps.size() != rows)
    return std::numeric_limits<double>::infinity();
  std::size_t const dim = rows > 0 ? answer.outputs.size() / rows : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    RowFacts const& facts = answer.rows[row];
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i) {
      double const exact = answer.outputs[i];
      worst = std::max(
          worst, error_in(output_tolerance<Written>(facts, head_dim, exact, result.weight_roundoff),
                          static_cast<float>(result.outputs[i]), exact));
    }
    worst = std::max(worst, error_in(log_sum_exp_tolerance(facts, head_dim),
                                     result.log_sum_exps[row], answer.log_sum_exps[row]));
  }
  return worst;
}

template <class P, class Written>
double worst_error(P const& problem, Result<Written> const& result) {
  return worst_error(result, problem.answer(), P::Shape::head_dim);
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Written>
bool same_bits(Result<Written> const& a, Result<Written> const& b) {
  return same_bits(a.outputs, b.outputs) && same_bits(a.log_sum_exps, b.log_sum_exps);
}

}  // namespace fasttree::test
