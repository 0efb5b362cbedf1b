// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of each row (a query and a head) by itself, in double precision, straight from the
// tree: no plan, no tiles, nothing in common with the library's kernels. It says how far results
// are off.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cuda_fp16.h>

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/tree/prefix_tree.hpp>
#include "arrays.hpp"

namespace fasttree::bench {

/// ||output - reference|| / ||reference|| of a row may be as large: results of half are rounded by
/// 2^-11, softmax weights as well.
inline constexpr double tolerance = 3e-3;

/// A tree and its heads as the reference kernel sees them.
struct ReferenceProblem {
  __half const *keys, *values, *queries, *outputs;  ///< contiguous rows of head_dim
  int const* node_of_query;
  int const* parents;  ///< -1 above a root
  int const* lengths;
  std::int64_t const* first_slots;
  int query_heads, kv_heads;
};

inline constexpr int reference_warps = 8;
inline constexpr int lane_dims = head_dim / 32;  ///< each lane of a warp has so many of a row

__device__ inline void load_lane(__half const* row, double (&to)[lane_dims]) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < lane_dims; ++i)
    to[i] = static_cast<double>(__half2float(row[lane * lane_dims + i]));
}

__device__ inline double sum_of_warp(double x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

/// Softmax of some keys of a row, as a warp holds it.
struct SoftmaxOfWarp {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double weighted[lane_dims] = {};

  __device__ void add(double score, double const (&value)[lane_dims]) {
    if (score > largest) {
      double const shrink = exp(largest - score);
      sum *= shrink;
      for (double& x : weighted) x *= shrink;
      largest = score;
    }
    double const weight = exp(score - largest);
    sum += weight;
    for (int i = 0; i < lane_dims; ++i) weighted[i] += weight * value[i];
  }
};

/// One block for each row: each warp takes some of its keys, then the block merges what they have
/// and compares the row's output.
__global__ void __launch_bounds__(reference_warps * 32)
    row_errors(ReferenceProblem const problem, float* errors) {
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int const row = static_cast<int>(blockIdx.x);
  int const query = row / problem.query_heads, head = row % problem.query_heads;
  int const kv_head = head / (problem.query_heads / problem.kv_heads);
  std::int64_t const row_begin = std::int64_t{row} * head_dim;
  double const scale = 1 / sqrt(static_cast<double>(head_dim));

  double q[lane_dims], key[lane_dims], value[lane_dims];
  load_lane(problem.queries + row_begin, q);
  SoftmaxOfWarp softmax;
  for (int node = problem.node_of_query[query]; node >= 0; node = problem.parents[node])
    for (int i = warp; i < problem.lengths[node]; i += reference_warps) {
      std::int64_t const slot = problem.first_slots[node] + i;
      std::int64_t const at = (slot * problem.kv_heads + kv_head) * head_dim;
      load_lane(problem.keys + at, key);
      load_lane(problem.values + at, value);
      double product = 0;
      for (int d = 0; d < lane_dims; ++d) product += q[d] * key[d];
      softmax.add(scale * sum_of_warp(product), value);
    }

  __shared__ double largest[reference_warps], sums[reference_warps];
  __shared__ double weighted[reference_warps][head_dim];
  __shared__ double squares[2][reference_warps];
  largest[warp] = softmax.largest;
  sums[warp] = softmax.sum;
  for (int d = 0; d < lane_dims; ++d) weighted[warp][lane * lane_dims + d] = softmax.weighted[d];
  __syncthreads();

  double difference = 0, exact = 0;
  if (int const d = static_cast<int>(threadIdx.x); d < head_dim) {
    double all_largest = largest[0];
    for (double const x : largest) all_largest = fmax(all_largest, x);
    double sum = 0, all_weighted = 0;
    for (int w = 0; w < reference_warps; ++w) {
      double const share = exp(largest[w] - all_largest);
      sum += share * sums[w];
      all_weighted += share * weighted[w][d];
    }
    exact = all_weighted / sum;
    difference = static_cast<double>(__half2float(problem.outputs[row_begin + d])) - exact;
  }
  double const difference_squared = sum_of_warp(difference * difference);
  double const exact_squared = sum_of_warp(exact * exact);
  if (lane == 0) squares[0][warp] = difference_squared, squares[1][warp] = exact_squared;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double sums_of_squares[2] = {};
  for (int k = 0; k < 2; ++k)
    for (double const x : squares[k]) sums_of_squares[k] += x;
  errors[row] = static_cast<float>(sqrt(sums_of_squares[0] / sums_of_squares[1]));  // or nan
}

/// What the check found over all rows.
struct Check {
  double worst = 0;  ///< infinite where an output is not a number
  std::int64_t rows = 0, wrong = 0;
  std::int64_t first_wrong = -1;

  bool passed() const { return wrong == 0 && rows > 0; }
};

/// The reference for a tree; outputs are compared with it any number of times.
class Reference {
 public:
  Reference(Space const& space, PrefixTree const& tree, Arrays const& arrays)
      : rows_(std::int64_t{tree.queries()} * static_cast<int>(arrays.queries().extent(1))),
        errors_(Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "bench::errors"), rows_) {
    std::vector<int> node_of_query(tree.queries()), parents, lengths;
    std::vector<std::int64_t> first_slots;
    for (int request = 0; request < tree.requests(); ++request)
      node_of_query[tree.first_query(request)] = tree.request(request).node;
    for (int node = 0; node < tree.nodes(); ++node) {
      parents.push_back(tree.parent(node));
      lengths.push_back(tree.length(node));
      first_slots.push_back(tree.slot_begin(node));
    }
    node_of_query_ = on_device(node_of_query);
    parents_ = on_device(parents);
    lengths_ = on_device(lengths);
    first_slots_ = on_device(first_slots);
    auto const rows_of = [](Arrays::View const& view) {
      return reinterpret_cast<__half const*>(view.data());
    };
    problem_ = {.keys = rows_of(arrays.keys()),
                .values = rows_of(arrays.values()),
                .queries = rows_of(arrays.queries()),
                .outputs = rows_of(arrays.outputs()),
                .node_of_query = node_of_query_.data(),
                .parents = parents_.data(),
                .lengths = lengths_.data(),
                .first_slots = first_slots_.data(),
                .query_heads = static_cast<int>(arrays.queries().extent(1)),
                .kv_heads = static_cast<int>(arrays.keys().extent(1))};
  }

  /// Waits for what was enqueued before, and checks the outputs. Throws an `Error` where CUDA does.
  Check check(Space const& space) const {
    constexpr char const* function = "bench::Reference::check";
    cuda::check(cudaStreamSynchronize(space.cuda_stream()), function, "the kernels under test");
    row_errors<<<static_cast<unsigned>(rows_), reference_warps * 32, 0, space.cuda_stream()>>>(
        problem_, errors_.data());
    cuda::check(cudaGetLastError(), function, "row_errors");
    std::vector<float> errors(static_cast<std::size_t>(rows_));
    cuda::check(cudaMemcpyAsync(errors.data(), errors_.data(), errors.size() * sizeof(float),
                                cudaMemcpyDeviceToHost, space.cuda_stream()),
                function, "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(space.cuda_stream()), function, "cudaStreamSynchronize");
    Check found{.rows = rows_};
    for (std::int64_t row = 0; row < rows_; ++row) {
      double const error = std::isnan(errors[row]) ? std::numeric_limits<double>::infinity()
                                                   : static_cast<double>(errors[row]);
      found.worst = std::max(found.worst, error);
      if (error <= tolerance) continue;
      if (found.wrong++ == 0) found.first_wrong = row;
    }
    return found;
  }

  /// In words, for a results file.
  std::string describe(Check const& check) const {
    return std::to_string(check.wrong) + " of " + std::to_string(check.rows) +
           " rows are wrong, the first is that of query " +
           std::to_string(check.first_wrong / problem_.query_heads) + ", head " +
           std::to_string(check.first_wrong % problem_.query_heads) + "; the worst error is " +
           std::to_string(check.worst);
  }

 private:
  template <class T>
  using Memory = Kokkos::View<T*, Space>;

  template <class T>
  static Memory<T> on_device(std::vector<T> const& host) {
    Memory<T> const memory(Kokkos::view_alloc(Kokkos::WithoutInitializing, "bench::reference"),
                           host.size());
    Kokkos::deep_copy(
        memory, Kokkos::View<T const*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                    host.data(), host.size()));
    return memory;
  }

  std::int64_t rows_;
  Memory<float> errors_;
  Memory<int> node_of_query_, parents_, lengths_;
  Memory<std::int64_t> first_slots_;
  ReferenceProblem problem_{};
};

}  // namespace fasttree::bench
