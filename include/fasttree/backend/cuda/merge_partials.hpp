// SPDX-License-Identifier: Apache-2.0
#pragma once
// Merge of partial results: a warp for each query and head, in the order of the plan's list, to the
// final output. A query without any gets (0, -inf). The formula is that of core/log_sum_exp.hpp for
// any number of sides.

#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::cuda {

/// The kernel. Blocks share out the rows, however many the plan has.
template <class Shape, class Output, LogBase Base>
class MergePartials {
 public:
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = 8;
  static constexpr int columns = (Shape::value_dim + 31) / 32;  ///< of a thread, 32 apart

  Shape shape;
  PlanArrays plan;
  PartialArrays partials;
  Results<Output, Base> results;

  __device__ void operator()() const {
    constexpr int warps = threads / 32;
    auto const rows = static_cast<std::int64_t>(plan.counts->merge_queries) * shape.query_heads;
    std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
    for (std::int64_t row = first; row < rows; row += static_cast<std::int64_t>(gridDim.x) * warps)
      merge_row(plan.merge_queries[row / shape.query_heads],
                static_cast<int>(row % shape.query_heads));
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

  __device__ std::int64_t partial(int i, int head) const {
    return static_cast<std::int64_t>(plan.merge_partials[i]) * shape.query_heads + head;
  }

  __device__ void merge_row(int query, int head) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const begin = plan.merge_begin[query], end = plan.merge_begin[query + 1];
    float top = -detail::infinity;
    for (int i = begin + lane; i < end; i += 32)
      top = fmaxf(top, partials.log_sum_exps[partial(i, head)].value);
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(all, top, step));
    float sum = 0.f, output[columns] = {};
    for (int i = begin; i < end; i += 32) {  // each thread weighs one of the next 32
      std::int64_t const own = i + lane < end ? partial(i + lane, head) : 0;
      float const log_sum_exp =
          i + lane < end ? partials.log_sum_exps[own].value : -detail::infinity;
      float const weight = log_sum_exp == -detail::infinity ? 0.f : expf(log_sum_exp - top);
      for (int j = 0; j < 32 && i + j < end; ++j)
        add(__shfl_sync(all, weight, j), __shfl_sync(all, own, j), sum, output);
    }
    float const factor = sum == 0.f ? 0.f : 1.f / sum;
    int const to = plan.query_order[query];
    FASTTREE_UNROLL
    for (int c = 0; c < columns; ++c)
      if (int const d = lane + 32 * c; d < Shape::value_dim)
        results.outputs(to, head, d) = static_cast<Output>(output[c] * factor);
    if (lane == 0)
      results.write_log_sum_exp(to, head, {sum == 0.f ? -detail::infinity : top + logf(sum)});
  }

  __device__ void add(float weight, std::int64_t partial, float& sum,
                      float (&output)[columns]) const {
    if (weight == 0.f) return;  // perhaps without keys: what its output holds is not read
    sum += weight;
    FASTTREE_UNROLL
    for (int c = 0; c < columns; ++c)
      if (int const d = static_cast<int>(threadIdx.x) % 32 + 32 * c; d < Shape::value_dim)
        output[c] += weight * partials.outputs[partial * Shape::value_dim + d];
  }
};

}  // namespace fasttree::cuda
