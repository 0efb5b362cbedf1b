// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where results of query rows go: to the output where an item has its rows for itself, else to the
// workspace as partial results, which blocks that find no task left merge, in the plan's order. The
// formula is that of core/log_sum_exp.hpp for any number of sides.

#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>
#include <fasttree/backend/cuda/sm80/row_values.hpp>
#include <fasttree/backend/cuda/sm80/staged_rows.hpp>

namespace fasttree::cuda::sm80 {

/// What a warp writes of a task: some blocks of eight columns, the first in its registers, of its
/// rows from `row` on.
struct OwnResults {
  int row, first_block, blocks;
};

template <int Warps, class Shape, class Output, LogBase Base>
struct ResultRows {
  static constexpr int value_dim = Shape::value_dim;

  Results<Output, Base> results;
  PartialArrays partials;

  /// Writes what the warp has of `Rows` rows, eight or 16; of 16 all columns. Returns a bit for
  /// each that is to be computed again: something of its output is not finite, or its logits are so
  /// large that rounding spoils its weights. `stage`: of the warp's own, for StagedRows.
  template <int Rows>
  __device__ unsigned write(Shape const& shape, TaskRecord<Warps> const& record,
                            OwnResults const& own, QueryRows<Shape, Warps> const& rows,
                            std::uint32_t stage) const {
    int const thread = static_cast<int>(threadIdx.x) % 32;
    int const first_block = Rows == warp_rows ? 0 : own.first_block;
    int const blocks = Rows == warp_rows ? value_dim / 8 : own.blocks;
    unsigned spoiled = 0;
    FASTTREE_UNROLL
    for (int x = 0; x < Rows / 8; ++x) {
      int const row = own.row + thread / 4 + 8 * x;
      bool const exists = row < record.task.rows;
      float const factor = rows.sum[x] == 0.f ? 0.f : __fdividef(1.f, rows.sum[x]);  // 0: no key
      float const largest = rows.maximum[x] * rows.scale;
      bool const is_rough = fabsf(largest) > 0x1p24f && rows.maximum[x] > -detail::infinity;
      if (exists && (is_rough || !rows.is_finite(x, blocks))) spoiled |= 1u << (thread / 4 + 8 * x);
      write_row(shape, record, min(row, record.task.rows - 1), log_sum_exp_of(largest, rows.sum[x]),
                exists && thread % 4 == 0 && first_block == 0, [&](auto* to, std::int64_t stride) {
                  write_elements(to + 8 * first_block * stride, stride, exists, rows, x, blocks,
                                 factor, stage);
                });
    }
    return __reduce_or_sync(all, spoiled);
  }

  /// Writes a row of a task: `elements` is given where to and with which stride.
  template <class Elements>
  __device__ void write_row(Shape const& shape, TaskRecord<Warps> const& record, int row,
                            NaturalLogSumExp log_sum_exp, bool writes_log_sum_exp,
                            Elements const& elements) const {
    Task const& task = record.task;
    auto const [query, head] = record.row(row);
    if (task.item.partial_begin == WorkItem::direct) {
      int const to = record.queries[row];
      elements(&results.outputs(to, head, 0), results.outputs.strides[2]);
      if (writes_log_sum_exp) results.write_log_sum_exp(to, head, log_sum_exp);
    } else {
      std::int64_t const to =
          static_cast<std::int64_t>(task.item.partial_begin + query) * shape.query_heads + head;
      elements(partials.outputs + to * value_dim, 1);
      if (writes_log_sum_exp) partials.log_sum_exps[to] = log_sum_exp;
    }
  }

  __device__ static NaturalLogSumExp log_sum_exp_of(float maximum, float sum) {
    constexpr float ln2 = 0.693147180559945f;
    return {sum == 0.f ? -detail::infinity : (maximum + __log2f(sum)) * ln2};
  }

  /// Counts partial results of so many rows from `row` on, which the warp sees written.
  __device__ void count_arrivals(Shape const& shape, PlanArrays const& plan,
                                 TaskRecord<Warps> const& record, int row, int rows) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    __threadfence();
    if (lane >= rows || row + lane >= record.task.rows) return;
    auto const [query, head] = record.row(row + lane);
    atomicAdd(arrived(shape, plan.merge_begin[record.task.item.query_begin + query], head), 1);
  }

  /// Merges partial results of all rows that have some, or no key, the warps of all blocks in turn,
  /// each row when the last of them has arrived. To be called when the block has no tasks and will
  /// take none: so whom it waits for is at work.
  __device__ void merge_rows(Shape const& shape, PlanArrays const& plan, int merge_queries) const {
    int const blocks = static_cast<int>(gridDim.x), warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
    for (int row = warp * blocks + static_cast<int>(blockIdx.x);
         row < merge_queries * shape.query_heads; row += Warps * blocks)
      merge_row(shape, plan, plan.merge_queries[row / shape.query_heads], row % shape.query_heads);
  }

 private:
  static constexpr unsigned all = 0xffffffffu;

  /// Partial results of a row that are there, 0 between calls.
  __device__ int* arrived(Shape const& shape, int merge_begin, int head) const {
    return partials.arrivals + static_cast<std::int64_t>(merge_begin) * shape.query_heads + head;
  }

  /// Merges the partial results of a row in the plan's order, and writes it.
  __device__ void merge_row(Shape const& shape, PlanArrays const& plan, int query, int head) const {
    constexpr int parts = RowValues<value_dim>::parts;
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int const begin = plan.merge_begin[query], end = plan.merge_begin[query + 1];
    int const to = plan.query_order[query];
    constexpr int batch = 8;  // partial results that are looked at together
    int const of_batch = lane % batch;
    // Rows are numbered by int: 2^31 of them, of 256 bytes and more, fit into no GPU's memory.
    auto const partial = [&](int from) {
      return plan.merge_partials[min(from + of_batch, end - 1)] * shape.query_heads + head;
    };
    int own = begin < end ? partial(begin) : 0;
    wait_for_arrivals(arrived(shape, begin, head), end - begin);
    float top = -detail::infinity, sum = 0.f;
    RowValues<value_dim> output;
#pragma unroll 1
    for (int from = begin; from < end; from += batch) {
      float4 more[batch][parts];
      FASTTREE_UNROLL
      for (int k = 0; k < batch; ++k) FASTTREE_UNROLL
      for (int p = 0; p < parts; ++p) {
        auto const* const elements = reinterpret_cast<float4 const*>(
            partials.outputs + std::int64_t{__shfl_sync(all, own, k)} * value_dim);
        more[k][p] = output.has(p) ? __ldcg(elements + 32 * p + lane) : float4{};
      }
      bool const exists = from + of_batch < end;
      float const own_log = exists ? __ldcg(&partials.log_sum_exps[own].value) : -detail::infinity;
      if (from + batch < end) own = partial(from + batch);
      float raised = fmaxf(top, own_log);
      for (int step = batch / 2; step > 0; step /= 2)
        raised = fmaxf(raised, __shfl_xor_sync(all, raised, step));
      float const base = raised == -detail::infinity ? 0.f : raised;
      float const factor = __expf(top - base), own_weight = __expf(own_log - base);
      top = raised;
      sum *= factor;
      if (factor > 0.f) {
        output.scale(factor);
      } else {
        output = {};  // not finite, perhaps
      }
      FASTTREE_UNROLL
      for (int k = 0; k < batch; ++k) {
        float const weight = __shfl_sync(all, own_weight, k);
        if (weight == 0.f) continue;  // perhaps without keys: what its output holds is not used
        sum += weight;
        output.add(weight, more[k]);
      }
    }
    output.scale(sum == 0.f ? 0.f : __fdividef(1.f, sum));
    output.store(&results.outputs(to, head, 0), results.outputs.strides[2]);
    if (lane == 0)
      results.write_log_sum_exp(to, head, {sum == 0.f ? -detail::infinity : top + __logf(sum)});
  }

  /// Waits until so many have arrived, and prepares for the next call.
  __device__ static void wait_for_arrivals(int* arrived, int count) {
    if (count > 0 && threadIdx.x % 32 == 0) {
      while (acquire(arrived) < count) __nanosleep(20);
      *arrived = 0;
    }
    __syncwarp();
  }

  /// Reads a number so that what others wrote before they raised it is seen. PTX ISA, "ld".
  __device__ static int acquire(int const* number) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(number) : "memory");
    return value;
  }

  /// Writes a row of the warp, if it exists; called by all threads. Of every eight columns each of
  /// the four threads of the row has two.
  __device__ static void write_elements(float* to, std::int64_t stride, bool exists,
                                        QueryRows<Shape, Warps> const& rows, int x, int blocks,
                                        float factor, std::uint32_t) {
    if (!exists) return;
    to += threadIdx.x % 4 * 2 * stride;
    auto const element = [&](int i, int e) { return rows.output[i][2 * x + e] * factor; };
    if (stride == 1 && reinterpret_cast<std::uintptr_t>(to) % sizeof(float2) == 0) {
      FASTTREE_UNROLL
      for (int i = 0; i < value_dim / 8; ++i) {
        if (rows.ends_at(i) && i >= blocks) break;
        *reinterpret_cast<float2*>(to + 8 * i) = make_float2(element(i, 0), element(i, 1));
      }
    } else {
      FASTTREE_UNROLL
      for (int i = 0; i < value_dim / 8; ++i) {
        if (rows.ends_at(i) && i >= blocks) break;
        FASTTREE_UNROLL
        for (int e = 0; e < 2; ++e) to[(8 * i + e) * stride] = element(i, e);
      }
    }
  }
  template <class T>
  __device__ static void write_elements(T* to, std::int64_t stride, bool exists,
                                        QueryRows<Shape, Warps> const& rows, int x, int blocks,
                                        float factor, std::uint32_t stage) {
    StagedRows<value_dim> const staged(stage);
    FASTTREE_UNROLL
    for (int i = 0; i < value_dim / 8; ++i) {
      if (rows.ends_at(i) && i >= blocks) break;
      staged.put_pair(
          i, pack<operand<T>>(rows.output[i][2 * x] * factor, rows.output[i][2 * x + 1] * factor));
    }
    __syncwarp();
    int const thread = static_cast<int>(threadIdx.x) % 4;
    if (exists && stride == 1 && reinterpret_cast<std::uintptr_t>(to) % sizeof(uint4) == 0) {
      FASTTREE_UNROLL
      for (int i = thread; i < value_dim / 8 && i < blocks; i += 4)
        reinterpret_cast<uint4*>(to)[i] = staged.get_chunk(i);
    } else if (exists) {
#pragma unroll 1
      for (int d = thread; d < 8 * blocks; d += 4) to[d * stride].bits = staged.get_element(d);
    }
    __syncwarp();
  }
};

}  // namespace fasttree::cuda::sm80
