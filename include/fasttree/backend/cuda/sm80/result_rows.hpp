// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where results of query rows go: to the output where an item has its rows for itself, else to the
// workspace as partial results.

#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>

namespace fasttree::cuda::sm80 {

template <class Shape, class Output, LogBase Base>
struct ResultRows {
  Results<Output, Base> results;
  PartialArrays partials;

  /// Writes the rows of a warp, from row `first_row` of the task on.
  __device__ void write(Shape const& shape, PlanArrays const& plan, Task const& task, int first_row,
                        QueryRows<Shape> const& rows) const {
    int const thread = static_cast<int>(threadIdx.x) % 32;
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      int const row = first_row + thread / 4 + 8 * x;
      if (row >= task.rows) continue;
      int const query = (task.first_row + row) / shape.group();
      int const head = task.kv_head * shape.group() + (task.first_row + row) % shape.group();
      float const factor = rows.sum[x] == 0.f ? 0.f : 1.f / rows.sum[x];  // 0: it saw no key
      NaturalLogSumExp const log_sum_exp = log_sum_exp_of(rows.maximum[x], rows.sum[x]);
      if (task.item.partial_begin == WorkItem::direct) {
        int const to = plan.query_order[task.item.query_begin + query];
        write_row(&results.outputs(to, head, 0), results.outputs.strides[2], rows, x, factor);
        if (thread % 4 == 0) results.write_log_sum_exp(to, head, log_sum_exp);
      } else {
        std::int64_t const to =
            static_cast<std::int64_t>(task.item.partial_begin + query) * shape.query_heads + head;
        write_row(partials.outputs + to * Shape::value_dim, 1, rows, x, factor);
        if (thread % 4 == 0) partials.log_sum_exps[to] = log_sum_exp;
      }
    }
  }

 private:
  __device__ static NaturalLogSumExp log_sum_exp_of(float maximum, float sum) {
    constexpr float ln2 = 0.693147180559945f;
    return {sum == 0.f ? -detail::infinity : (maximum + log2f(sum)) * ln2};
  }

  template <class T>
  __device__ static void write_row(T* to, std::int64_t stride, QueryRows<Shape> const& rows, int x,
                                   float factor) {
    int const column = static_cast<int>(threadIdx.x) % 4 * 2;
    bool const in_pairs =
        stride == 1 && reinterpret_cast<std::uintptr_t>(to) % (2 * sizeof(T)) == 0;
    FASTTREE_UNROLL
    for (int i = 0; i < Shape::value_dim / 8; ++i) {
      float const a = rows.output[i][2 * x] * factor, b = rows.output[i][2 * x + 1] * factor;
      int const d = 8 * i + column;
      if constexpr (std::is_same_v<T, float>) {
        if (in_pairs) {
          *reinterpret_cast<float2*>(to + d) = make_float2(a, b);
        } else {
          to[d * stride] = a;
          to[(d + 1) * stride] = b;
        }
      } else {
        std::uint32_t const both = pack<operand<T>>(a, b);
        if (in_pairs) {
          *reinterpret_cast<std::uint32_t*>(to + d) = both;
        } else {
          to[d * stride].bits = static_cast<std::uint16_t>(both);
          to[(d + 1) * stride].bits = static_cast<std::uint16_t>(both >> 16);
        }
      }
    }
  }
};

}  // namespace fasttree::cuda::sm80
