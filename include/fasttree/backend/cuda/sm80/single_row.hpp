// SPDX-License-Identifier: Apache-2.0
#pragma once
// A query row by itself, key by key: for rows whose result is not finite. On tensor cores a weight
// of 0 does not keep nan or inf among the values from rows that do not see them; so such a row is
// computed again from the keys that it sees. Slow, and rare.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/row_values.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/log_sum_exp.hpp>
#include <fasttree/core/strided_array.hpp>
#include <fasttree/plan/attention_plan.hpp>

namespace fasttree::cuda::sm80 {

/// Online softmax of one row by a warp.
template <class Shape, class Cache>
class SingleRow {
 public:
  using Stored = typename Shape::element_type;

  float maximum = -detail::infinity, sum = 0.f;  ///< logits in base 2
  RowValues<Shape::value_dim> output;

  /// `query`: its elements, `stride` apart; `visible`: keys of its path that it sees.
  __device__ SingleRow(Stored const* query, std::int64_t stride, float scale, int visible)
      : query_(query), stride_(stride), scale_(scale), visible_(visible) {}

  /// Attends to the keys of a range.
  __device__ void attend(KeyRange const& range, Cache const& cache, int kv_head) {
    int const keys = min(range.length, visible_ - range.position);
#pragma unroll 1
    for (int k = 0; k < keys; ++k) {
      auto const at = cache.locate(range.slot_begin + k);
      add(logit(cache.key(at, kv_head)), cache.value(at, kv_head));
    }
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ float logit(Stored const* key) const {
    float product = 0.f;
    for (int d = thread(); d < Shape::head_dim; d += 32)
      product += static_cast<float>(query_[d * stride_]) * static_cast<float>(key[d]);
    for (int step = 16; step > 0; step /= 2) product += __shfl_xor_sync(all, product, step);
    return __fmul_rn(product, scale_);  // not into an fma: the largest weight is 2^0
  }

  __device__ void add(float logit, Stored const* value) {
    float const top = fmaxf(maximum, logit), base = top == -detail::infinity ? 0.f : top;
    float const factor = exp2f(maximum - base), weight = exp2f(logit - base);
    maximum = top;
    sum = sum * factor + weight;
    FASTTREE_UNROLL
    for (int p = 0; p < output.parts; ++p) FASTTREE_UNROLL
    for (int e = 0; e < 4; ++e)
      if (output.has(p))
        output.of[p][e] =
            output.of[p][e] * factor + weight * static_cast<float>(value[output.column(p) + e]);
  }

  Stored const* query_;
  std::int64_t stride_;
  float scale_;
  int visible_;
};

}  // namespace fasttree::cuda::sm80
