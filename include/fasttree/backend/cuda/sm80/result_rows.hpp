// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where results of query rows go: to the output where an item has its rows for itself, else to the
// workspace as partial results, which the warp that writes the last one of a row merges, in the
// plan's order. The formula is that of core/log_sum_exp.hpp for any number of sides.

#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>

namespace fasttree::cuda::sm80 {

/// Writes an element, rounded to nearest even.
__device__ __forceinline__ void store(float* to, float value) { *to = value; }
template <class T>
__device__ __forceinline__ void store(T* to, float value) {
  to->bits = static_cast<std::uint16_t>(pack<operand<T>>(value, 0.f));
}

/// Writes two neighbouring elements at a multiple of their size.
__device__ __forceinline__ void store_pair(float* to, float a, float b) {
  *reinterpret_cast<float2*>(to) = make_float2(a, b);
}
template <class T>
__device__ __forceinline__ void store_pair(T* to, float a, float b) {
  *reinterpret_cast<std::uint32_t*>(to) = pack<operand<T>>(a, b);
}

template <class Shape, class Output, LogBase Base>
struct ResultRows {
  static constexpr int value_dim = Shape::value_dim;

  Results<Output, Base> results;
  PartialArrays partials;

  /// The query of a row of a task, in the plan's order, and its head.
  struct RowOf {
    int query, head;

    __device__ RowOf(Shape const& shape, Task const& task, int row)
        : query(task.item.query_begin + task.query_of(row, shape.group())),
          head(task.head_of(row, shape.group())) {}
  };

  /// Writes the rows of a warp, from row `first_row` of the task on. Returns a bit for each row of
  /// the 16 whose output is not finite, or whose logits are so large that rounding took all
  /// weights.
  __device__ unsigned write(Shape const& shape, PlanArrays const& plan, Task const& task,
                            int first_row, QueryRows<Shape> const& rows) const {
    int const thread = static_cast<int>(threadIdx.x) % 32;
    unsigned not_finite = 0;
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      int const row = first_row + thread / 4 + 8 * x;
      if (row >= task.rows) continue;
      float const factor = rows.sum[x] == 0.f ? 0.f : __fdividef(1.f, rows.sum[x]);  // 0: no key
      bool const lost = rows.sum[x] == 0.f && rows.maximum[x] > -detail::infinity;
      if (lost || !rows.is_finite(x)) not_finite |= 1u << (thread / 4 + 8 * x);
      write_row(shape, plan, task, row, log_sum_exp_of(rows.maximum[x] * rows.scale, rows.sum[x]),
                thread % 4 == 0, [&](auto* to, std::int64_t stride) {
                  write_elements(to, stride, rows, x, factor);
                });
    }
    return __reduce_or_sync(all, not_finite);
  }

  /// Writes a row of a task: `elements` is given where to and with which stride.
  template <class Elements>
  __device__ void write_row(Shape const& shape, PlanArrays const& plan, Task const& task, int row,
                            NaturalLogSumExp log_sum_exp, bool writes_log_sum_exp,
                            Elements const& elements) const {
    auto const [query, head] = RowOf(shape, task, row);
    if (task.item.partial_begin == WorkItem::direct) {
      int const to = plan.query_order[query];
      elements(&results.outputs(to, head, 0), results.outputs.strides[2]);
      if (writes_log_sum_exp) results.write_log_sum_exp(to, head, log_sum_exp);
    } else {
      std::int64_t const to =
          static_cast<std::int64_t>(task.item.partial_begin + query - task.item.query_begin) *
              shape.query_heads +
          head;
      elements(partials.outputs + to * value_dim, 1);
      if (writes_log_sum_exp) partials.log_sum_exps[to] = log_sum_exp;
    }
  }

  __device__ static NaturalLogSumExp log_sum_exp_of(float maximum, float sum) {
    constexpr float ln2 = 0.693147180559945f;
    return {sum == 0.f ? -detail::infinity : (maximum + log2f(sum)) * ln2};
  }

  /// Counts partial results of the warp's rows that have been written. Returns a bit for each row
  /// of the 16 that has all of its partial results.
  __device__ unsigned count_arrivals(Shape const& shape, PlanArrays const& plan, Task const& task,
                                     int first_row) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    bool const counts = lane < warp_rows && first_row + lane < task.rows;
    auto const [query, head] = RowOf(shape, task, counts ? first_row + lane : 0);
    int const begin = plan.merge_begin[query], end = plan.merge_begin[query + 1];
    __threadfence();
    __syncwarp();
    bool complete = false;
    if (counts) {
      int* const arrived =
          partials.arrivals + static_cast<std::int64_t>(begin) * shape.query_heads + head;
      complete = atomicAdd(arrived, 1) == end - begin - 1;
      if (complete) *arrived = 0;  // for the next call
    }
    __threadfence();
    __syncwarp();
    return __ballot_sync(all, complete);
  }

  /// Merges four rows of a task from `first_row` on, those of `rows`: each by eight threads.
  __device__ void merge_four(Shape const& shape, PlanArrays const& plan, Task const& task,
                             int first_row, unsigned rows) const {
    int const row = static_cast<int>(threadIdx.x) % 32 / 8;
    bool const merges = (rows >> row & 1) != 0;
    RowOf const of(shape, task, merges ? first_row + row : 0);
    int const begin = plan.merge_begin[of.query];
    merge_row(shape, plan, of, begin, merges ? plan.merge_begin[of.query + 1] : begin);
  }

  /// Writes (0, -inf) for queries without keys.
  __device__ void write_empty(Shape const& shape, PlanArrays const& plan) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const warps = static_cast<int>(gridDim.x) * multiply_warps;
    for (int i = static_cast<int>(blockIdx.x) * multiply_warps + threadIdx.x / 32;
         i < plan.counts->merge_queries; i += warps) {
      int const query = plan.merge_queries[i];
      if (plan.merge_begin[query] < plan.merge_begin[query + 1]) continue;
      int const to = plan.query_order[query];
      for (int head = 0; head < shape.query_heads; ++head) {
        for (int d = lane; d < value_dim; d += 32)
          results.outputs(to, head, d) = static_cast<Output>(0.f);
        if (lane == 0) results.write_log_sum_exp(to, head, {-detail::infinity});
      }
    }
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

  /// Merges partial results from `begin` to `end` of the plan's list by eight threads of the warp,
  /// the others of which merge other rows.
  __device__ void merge_row(Shape const& shape, PlanArrays const& plan, RowOf const& row, int begin,
                            int end) const {
    constexpr int parts = value_dim / 32;  // of four elements, of a thread
    int const thread = static_cast<int>(threadIdx.x) % 8;
    if (__all_sync(all, begin == end)) return;
    auto const partial = [&](int i) {
      return static_cast<long long>(plan.merge_partials[i]) * shape.query_heads + row.head;
    };
    auto const log_sum_exp = [&](long long at) { return __ldcg(&partials.log_sum_exps[at].value); };
    float top = -detail::infinity;
    for (int i = begin + thread; i < end; i += 8) top = fmaxf(top, log_sum_exp(partial(i)));
    for (int step = 4; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(all, top, step));
    int const most = __reduce_max_sync(all, end - begin);
    float sum = 0.f;
    float4 output[parts] = {};
    for (int from = 0; from < most; from += 8) {  // each thread weighs one of the next 8
      int const i = begin + from + thread;
      long long const own = partial(i < end ? i : begin);
      float const own_log = i < end ? log_sum_exp(own) : -detail::infinity;
      float const own_weight = own_log == -detail::infinity ? 0.f : __expf(own_log - top);
      constexpr int batch = 4;  // partial results that are loaded before the first is added
#pragma unroll 1
      for (int j = 0; j < 8 && from + j < most; j += batch) {
        float4 more[batch][parts];
        FASTTREE_UNROLL
        for (int k = 0; k < batch; ++k) FASTTREE_UNROLL
        for (int p = 0; p < parts; ++p)
          more[k][p] = __ldcg(reinterpret_cast<float4 const*>(
              partials.outputs + __shfl_sync(all, own, j + k, 8) * value_dim +
              4 * (thread + 8 * p)));
        FASTTREE_UNROLL
        for (int k = 0; k < batch; ++k)
          add(__shfl_sync(all, own_weight, j + k, 8), more[k], sum, output);
      }
    }
    if (begin == end) return;
    float const factor = sum == 0.f ? 0.f : __fdividef(1.f, sum);
    int const to = plan.query_order[row.query];
    FASTTREE_UNROLL
    for (int p = 0; p < parts; ++p) {
      Output* const first = &results.outputs(to, row.head, 4 * (thread + 8 * p));
      std::int64_t const stride = results.outputs.strides[2];
      float const elements[] = {output[p].x, output[p].y, output[p].z, output[p].w};
      FASTTREE_UNROLL
      for (int d = 0; d < 4; ++d) store(first + d * stride, elements[d] * factor);
    }
    if (thread == 0)
      results.write_log_sum_exp(to, row.head, {sum == 0.f ? -detail::infinity : top + logf(sum)});
  }

  template <int Parts>
  __device__ static void add(float weight, float4 const (&more)[Parts], float& sum,
                             float4 (&output)[Parts]) {
    if (weight == 0.f) return;  // perhaps without keys: what its output holds is not read
    sum += weight;
    FASTTREE_UNROLL
    for (int p = 0; p < Parts; ++p) {
      output[p].x += weight * more[p].x;
      output[p].y += weight * more[p].y;
      output[p].z += weight * more[p].z;
      output[p].w += weight * more[p].w;
    }
  }

  template <class T>
  __device__ static void write_elements(T* to, std::int64_t stride, QueryRows<Shape> const& rows,
                                        int x, float factor) {
    T* const begin = to + static_cast<int>(threadIdx.x) % 4 * 2 * stride;
    if (stride == 1 && reinterpret_cast<std::uintptr_t>(to) % (2 * sizeof(T)) == 0) {
      FASTTREE_UNROLL
      for (int i = 0; i < value_dim / 8; ++i)
        store_pair(begin + 8 * i, rows.output[i][2 * x] * factor,
                   rows.output[i][2 * x + 1] * factor);
    } else {
      FASTTREE_UNROLL
      for (int i = 0; i < value_dim / 8; ++i) FASTTREE_UNROLL
      for (int e = 0; e < 2; ++e)
        store(begin + (8 * i + e) * stride, rows.output[i][2 * x + e] * factor);
    }
  }
};

}  // namespace fasttree::cuda::sm80
