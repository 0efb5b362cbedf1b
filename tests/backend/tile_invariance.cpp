// SPDX-License-Identifier: Apache-2.0
// Tile invariance: where all items have one arithmetic and are not cut along their keys, the bits
// of a request's result depend on its own queries, keys and values alone; not on where the nodes of
// its path end, nor on who else is in the batch and thus in which row, register and panel it lies.

#include <fasttree/tree_attention.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/one_tile_policy.hpp"
#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

constexpr int path_length = 1 + 3 + 63 + 64 + 65 + 200;

/// A batch with the request that all batches have in common.
struct Batch {
  Forest forest;
  int common = 0;
};

/// The common request on a chain of nodes of these lengths, with `others` other requests of 1 to 3
/// queries, on the nodes of the chain or on leaves below them, before it and behind it.
Batch batch_of(std::vector<int> const& lengths, int queries, int others, std::uint64_t seed) {
  REQUIRE(std::accumulate(lengths.begin(), lengths.end(), 0) == path_length);
  Random random(seed);
  Batch batch;
  int const last = static_cast<int>(lengths.size()) - 1;
  for (int node = 0; node <= last; ++node) batch.forest.parents.push_back(node - 1);
  batch.forest.lengths = lengths;
  batch.common = random.integer(0, others);
  for (int request = 0; request <= others; ++request) {
    int node = random.integer(0, last);
    if (request != batch.common && random.one_in(2)) {
      batch.forest.parents.push_back(node);
      batch.forest.lengths.push_back(random.integer(1, 70));
      node = static_cast<int>(batch.forest.parents.size()) - 1;
    }
    batch.forest.requests.push_back(request == batch.common ? Request{last, queries}
                                                            : Request{node, random.integer(1, 3)});
  }
  return batch;
}

std::vector<Batch> batches(int queries) {
  return {batch_of({path_length}, queries, 0, 1),
          batch_of({path_length}, queries, 20, 2),
          batch_of({1, 3, 63, 64, 65, 200}, queries, 0, 3),
          batch_of({200, 65, 64, 63, 3, 1}, queries, 9, 4),
          batch_of({64, 64, 3, 65, 200}, queries, 30, 5),
          batch_of({0, 130, 1, 1, 1, 200, 63}, queries, 14, 6)};
}

/// The bits of the common request's outputs and log-sum-exps.
using Bits = std::vector<std::uint32_t>;

/// \param query_size  of the elements of its queries: logits have about this size, in base 2
template <class Backend, class Shape, class Policy>
Bits attend_to(Batch const& batch, Shape const& shape, float query_size, Policy const& policy) {
  Problem<Shape> problem(batch.forest, shape);
  Request const& request = problem.tree.request(batch.common);
  int const begin = problem.tree.first_query(batch.common), end = begin + request.query_length;
  Random random(99);
  auto const fill = [&](auto const& elements, float most) {
    for (auto& x : elements) x = typename Shape::element_type(random.real(most));
  };
  for (int row = begin; row < end; ++row)
    for (int head = 0; head < shape.query_heads; ++head) fill(problem.query(row, head), query_size);
  for (std::int64_t const slot : path_slots(problem.tree, request.node))
    for (int head = 0; head < shape.kv_heads; ++head) {
      fill(problem.key(slot, head), 2);
      fill(problem.value(slot, head), 2);
    }

  Space const space{};
  AttentionPlan<Space, Shape, Backend> plan(shape);
  make_plan_into(space, problem.tree, plan, policy);
  auto const workspace = make_workspace(space, plan);
  auto const held = contiguous_cache(problem);
  Arrays<float, LogBase::e, Problem<Shape>> const arrays(problem);
  tree_attention(space, plan, arrays.queries, held.cache, arrays.outputs, arrays.log_sum_exps,
                 workspace);
  space.fence();
  Result<float> const result = arrays.read();

  Bits bits;
  for (int row = begin * shape.query_heads; row < end * shape.query_heads; ++row) {
    bits.push_back(std::bit_cast<std::uint32_t>(result.log_sum_exps[row]));
    for (int d = 0; d < Shape::value_dim; ++d)
      bits.push_back(std::bit_cast<std::uint32_t>(result.outputs[row * Shape::value_dim + d]));
  }
  return bits;
}

template <class Shape, class Backend = DefaultBackend<Space>>
void does_not_depend_on_tiles(std::vector<int> const& groups,
                              std::vector<float> const& query_sizes) {
  for (int const group : groups)
    for (float const query_size : query_sizes)
      for (int const queries : {1, 3}) {
        CAPTURE(group);
        CAPTURE(query_size);
        CAPTURE(queries);
        Shape const shape{.query_heads = group, .kv_heads = 1};
        std::vector<Batch> const all = batches(queries);
        Bits const alone = attend_to<Backend>(all.front(), shape, query_size, OneTilePolicy{});
        for (std::size_t i = 0; i < all.size(); ++i)
          for (int const queries_per_item : {1, 5, 1000}) {
            CAPTURE(i);
            CAPTURE(queries_per_item);
            OneTilePolicy const policy{.queries_per_item = queries_per_item};
            bool const same = attend_to<Backend>(all[i], shape, query_size, policy) == alone;
            CHECK(same);
          }
      }
}

}  // namespace

TEST_CASE("float: the bits of a request do not depend on tiles, lanes and other requests") {
  // From all weights alike to logits that have no fraction left.
  does_not_depend_on_tiles<AttentionShape<float, 64>>({1, 2, 4, 8}, {0.01f, 2, 60});
  does_not_depend_on_tiles<AttentionShape<float, 64>>({4}, {3e5f, 3e6f, 1e8f});
  does_not_depend_on_tiles<AttentionShape<float, 128>>({1, 4}, {2});
}

TEST_CASE("16 bits: the bits of a request do not depend on tiles, lanes and other requests") {
  does_not_depend_on_tiles<AttentionShape<fasttree::half, 64>>({2, 8}, {0.01f, 60});
  does_not_depend_on_tiles<AttentionShape<fasttree::half, 128>>({4}, {2});
  does_not_depend_on_tiles<AttentionShape<bfloat16, 128, 64>>({1, 4}, {2, 60});
}

TEST_CASE("MinimalTraffic with fixed pieces: the bits of a request do not depend on the batch") {
  using Shape = AttentionShape<float, 64>;
  for (int const group : {1, 4, 8})
    for (int const piece : {1, 64, 100, 1000}) {
      CAPTURE(group);
      CAPTURE(piece);
      Shape const shape{.query_heads = 2 * group, .kv_heads = 2};
      MinimalTraffic<> const policy{.fixed_piece = piece};
      for (int const queries : {1, 3}) {
        CAPTURE(queries);
        std::vector<Batch> const all = batches(queries);
        Bits const alone = attend_to<DefaultBackend<Space>>(all.front(), shape, 2, policy);
        for (Batch const& batch : all) {
          bool const same = attend_to<DefaultBackend<Space>>(batch, shape, 2, policy) == alone;
          CHECK(same);
        }
      }
    }
}

TEST_CASE("other lanes and teams: the bits of a request do not depend on tiles") {
  using Shape = AttentionShape<float, 64>;
  does_not_depend_on_tiles<Shape, portable::Backend<Space, 1, 1>>({4}, {2, 60});
  does_not_depend_on_tiles<Shape, portable::Backend<Space, 4, 1>>({4}, {2, 60});
  if (Space{}.concurrency() < 3) return;  // Kokkos::Serial has one
  does_not_depend_on_tiles<Shape, portable::Backend<Space, 4, 3>>({4}, {2, 60});
}
