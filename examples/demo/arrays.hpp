// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arrays of one decode step, filled with random numbers that are the same on every machine. A key
// or value follows from seed, token, position and head: equal tokens at equal positions are equal.

#include <fasttree/core/attention_shape.hpp>
#include <fasttree/core/kokkos.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "progress.hpp"
#include "workload.hpp"

namespace fasttree::examples {

using Space = Kokkos::DefaultExecutionSpace;
using Host = Kokkos::DefaultHostExecutionSpace;

/// A random sequence of its own for each of its first numbers (splitmix64).
class Sequence {
 public:
  template <class... Numbers>
  explicit Sequence(Numbers... numbers) {
    for (std::uint64_t const number : {static_cast<std::uint64_t>(numbers)...}) {
      state_ ^= number;
      state_ = bits();
    }
  }

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// A number of mean 0 and variance 1, near to normal: the sum of four that are evenly spread.
  float normal() {
    std::uint64_t const all = bits();
    std::int64_t const sum = static_cast<std::int64_t>((all & 0xffff) + (all >> 16 & 0xffff) +
                                                       (all >> 32 & 0xffff) + (all >> 48));
    return static_cast<float>(sum - 131070) * (1.7320508f / 65536.f);
  }

 private:
  std::uint64_t state_ = 0;
};

/// Queries, keys and values on the host, and where Space can reach them.
template <class ShapeType>
class Arrays {
 public:
  using Shape = ShapeType;
  using Stored = typename Shape::element_type;
  using Device = Kokkos::View<Stored***, Kokkos::LayoutRight, Space>;
  using OnHost = Kokkos::View<Stored***, Kokkos::LayoutRight, Kokkos::HostSpace>;

  /// Bytes that the arrays of a tree take, without those of a device. As a double it cannot overflow.
  static double bytes(PrefixTree const& tree, Shape const& shape) {
    double const per_slot = double(shape.kv_heads) * (Shape::head_dim + Shape::value_dim);
    double const per_query = double(shape.query_heads) * (Shape::head_dim + 2 * Shape::value_dim);
    return sizeof(Stored) * (per_slot * double(tree.slots()) + per_query * tree.queries());
  }

  Arrays(Workload const& workload, Shape const& shape, int seed)
      : host_queries_(
            make<OnHost>("queries", workload.tree().queries(), shape.query_heads, Shape::head_dim)),
        host_keys_(make<OnHost>("keys", workload.tree().slots(), shape.kv_heads, Shape::head_dim)),
        host_values_(
            make<OnHost>("values", workload.tree().slots(), shape.kv_heads, Shape::value_dim)) {
    fill(workload, seed);
    queries = Kokkos::create_mirror_view_and_copy(Space(), host_queries_);
    keys = Kokkos::create_mirror_view_and_copy(Space(), host_keys_);
    values = Kokkos::create_mirror_view_and_copy(Space(), host_values_);
  }

  Device queries, keys, values;

  std::span<Stored const> host_queries() const { return all(host_queries_); }
  std::span<Stored const> host_keys() const { return all(host_keys_); }
  std::span<Stored const> host_values() const { return all(host_values_); }

  /// An array for outputs.
  static Device make_output(PrefixTree const& tree, Shape const& shape) {
    return make<Device>("output", tree.queries(), shape.query_heads, Shape::value_dim);
  }

 private:
  template <class View>
  static View make(std::string const& label, std::int64_t rows, int heads, int dim) {
    return View(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), rows, heads, dim);
  }

  static std::span<Stored const> all(OnHost const& array) { return {array.data(), array.size()}; }

  static void fill_row(OnHost const& array, std::int64_t row, float size, Sequence sequence) {
    for (std::size_t head = 0; head < array.extent(1); ++head)
      for (std::size_t i = 0; i < array.extent(2); ++i)
        array(row, head, i) = Stored(size * sequence.normal());
  }

  void fill(Workload const& workload, int seed) {
    PrefixTree const& tree = workload.tree();
    constexpr int step = 4096;
    Progress progress("filling keys and values", tree.slots());
    for (int node = 0; node < tree.nodes(); ++node)
      for (int begin = 0; begin < tree.length(node); begin += step) {
        Kokkos::parallel_for(
            "fasttree-demo::fill",
            Kokkos::RangePolicy<Host>(begin, begin + std::min(step, tree.length(node) - begin)),
            [&](int i) {
              std::int64_t const slot = tree.slot_begin(node) + i;
              std::uint64_t const token = workload.token(node, i);
              fill_row(host_keys_, slot, 1, Sequence(seed, 1, token, tree.position(node) + i));
              fill_row(host_values_, slot, 1, Sequence(seed, 2, token, tree.position(node) + i));
            });
        progress.at(tree.slot_begin(node) + begin);
      }
    // Long queries attend to few keys, as those of models do: a key that is missing shows.
    constexpr float query_size = 4;
    Kokkos::parallel_for(
        "fasttree-demo::fill", Kokkos::RangePolicy<Host>(0, tree.queries()),
        [&](int row) { fill_row(host_queries_, row, query_size, Sequence(seed, 3, row, 0)); });
  }

  OnHost host_queries_, host_keys_, host_values_;
};

}  // namespace fasttree::examples
