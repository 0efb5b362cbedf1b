// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention on tensor cores in one launch: persistent blocks of four warps that multiply and two
// that build tiles and start their copies. A block sees one stream of key tiles across its tasks,
// through a ring in shared memory; but for the ends of tasks, warps wait for each other at its
// places alone. Who writes the last partial result of a row merges them.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>
#include <fasttree/backend/cuda/sm80/result_rows.hpp>
#include <fasttree/backend/cuda/sm80/single_row.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// The kernel.
template <class Shape, class Cache, class Output, LogBase Base>
class Attend {
 public:
  static constexpr int threads = sm80::threads;
  static constexpr int blocks_per_processor = 2;
  using Stored = typename Shape::element_type;
  using Memory = SharedMemory<Shape>;

  Shape shape;
  PlanArrays plan;
  WorkQueue* queue;
  StridedArray<Stored const, 3> queries;
  Cache cache;
  ResultRows<Shape, Output, Base> result_rows;
  int stages;  ///< places in the ring

  __device__ void operator()() const {
    extern __shared__ __align__(1024) uint4 shared_memory[];
    auto* const ring = reinterpret_cast<Tile*>(shared_memory);
    auto& memory = *reinterpret_cast<Memory*>(ring + stages);
    if (threadIdx.x == 0)
      for (int stage = 0; stage < stages; ++stage) {
        memory.full[stage].initialize(32 + 1);
        memory.empty[stage].initialize(multiply_warps);
      }
    __syncthreads();
    if (threadIdx.x >= multiply_threads) {
      build_tiles(ring, memory);
    } else {
      result_rows.write_empty(shape, plan);
      multiply_tiles(ring, memory);
    }
  }

 private:
  using Tile = KeyTile<Shape>;
  static constexpr int unopened = TileRecord::none - 1;  ///< no task yet

  // ---- the warps that build

  __device__ void build_tiles(Tile* ring, Memory& memory) const {
    TileBuilder<Cache> builder(plan, queue, cache, queries, shape.kv_heads, shape.group(),
                               memory.builder);
    int const warp = static_cast<int>(threadIdx.x) / 32 % build_warps;
    int task = 0, turn = 0;
    bool more = true, opens_task;
    for (RingPlace at; more; at.advance(stages), turn = (turn + 1) % build_warps) {
      int const next_task = task <= stages ? task + 1 : 0;
      more = builder.gather(memory.tasks[next_task], opens_task);
      if (opens_task) task = next_task;
      if (turn == warp) {
        memory.empty[at.index].wait(at.parity ^ 1);
        TileRecord& record = memory.tiles[at.index];
        record.task = more ? task : TileRecord::none;
        if (more) {
          builder.write(record);
          copy(builder.aligned(), builder.rows(), ring[at.index]);
        }
        memory.full[at.index].arrive_with_copies();
        __syncwarp();
        if (threadIdx.x % 32 == 0) memory.full[at.index].arrive();
      }
      if (more) builder.pass();
    }
    finish();
  }

  /// Says that the block found no task left; the last block empties the queue for the next call.
  __device__ void finish() const {
    if (threadIdx.x != multiply_threads) return;
    if (atomicAdd(&queue->finished, 1) == static_cast<int>(gridDim.x) - 1) *queue = WorkQueue{};
  }

  /// Starts to copy keys and values of a tile.
  __device__ void copy(bool aligned, KeyRow<Stored> const* rows, Tile& tile) const {
    if (!aligned) {
      copy_elements<Shape::head_dim>(rows, &KeyRow<Stored>::key, tile.keys);
      copy_elements<Shape::value_dim>(rows, &KeyRow<Stored>::value, tile.values);
      return;
    }
    static_assert(Shape::head_dim == Shape::value_dim);
    constexpr int dim = Shape::head_dim, chunks = dim / 8, rows_at_once = 32 / chunks, batch = 8;
    int const chunk = static_cast<int>(threadIdx.x) % chunks;
    int const first = static_cast<int>(threadIdx.x) % 32 / chunks;
    std::uint32_t const keys = shared_address(tile.keys), values = shared_address(tile.values);
#pragma unroll 1
    for (int begin = first; begin < tile_keys; begin += batch * rows_at_once) {
      KeyRow<Stored> from[batch];  // all loaded before the first copy starts
      FASTTREE_UNROLL
      for (int i = 0; i < batch; ++i) from[i] = rows[begin + i * rows_at_once];
      FASTTREE_UNROLL
      for (int i = 0; i < batch; ++i) {
        std::uint32_t const to = chunk_at(begin + i * rows_at_once, chunk);
        copy_16(keys + to, from[i].key + 8 * chunk);
        copy_16(values + to, from[i].value + 8 * chunk);
      }
    }
  }

  /// The same for rows of any alignment, by the threads themselves.
  template <int Dim>
  __device__ void copy_elements(KeyRow<Stored> const* rows, Stored const* KeyRow<Stored>::*part,
                                Stored* to) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int i = lane; i < tile_keys * Dim / 8; i += 32) {
      int const row = i / (Dim / 8), chunk = i % (Dim / 8);
      auto* const elements =
          reinterpret_cast<Stored*>(reinterpret_cast<char*>(to) + chunk_at(row, chunk));
      for (int d = 0; d < 8; ++d) elements[d].bits = (rows[row].*part)[8 * chunk + d].bits;
    }
  }

  // ---- the warps that multiply

  __device__ void multiply_tiles(Tile* ring, Memory& memory) const {
    QueryRows<Shape> rows;
    float const scale = fabsf(log2_scale());  // the sign goes to the queries
    rows.scale = scale < 1e-30f ? 1e-30f : scale;
    int const warp = static_cast<int>(threadIdx.x) / 32;
    int task = unopened;
    for (RingPlace at;; at.advance(stages)) {
      memory.full[at.index].wait(at.parity);
      TileRecord const& record = memory.tiles[at.index];
      if (record.task != task) {
        if (task != unopened) close_task(memory, memory.tasks[task].task, rows);
        task = record.task;
        if (task == TileRecord::none) return;
        open_task(memory.tasks[task], rows);
      }
      std::uint32_t const keys = shared_address(ring[at.index].keys);
      std::uint32_t const values = shared_address(ring[at.index].values);
      bool const narrow = memory.tasks[task].task.narrow;
      if constexpr (sm90::has_wgmma()) {
        if (record.together) {
          rows.attend_together(record, memory.tasks[task].visible, warp * warp_rows, keys, values);
          release(memory, at.index);
          continue;
        }
      }
      rows.attend(record, memory.tasks[task].visible, narrow ? 0 : warp * warp_rows,
                  narrow ? record.groups_of(0) & 1 << warp : record.groups_of(warp), keys, values);
      release(memory, at.index);
    }
  }

  /// Says that this warp does not need a place of the ring any more.
  __device__ static void release(Memory& memory, int place) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) memory.empty[place].arrive();
  }

  /// Loads the queries of the warp's rows.
  __device__ void open_task(TaskRecord const& record, QueryRows<Shape>& rows) const {
    rows.clear();
    int const thread = static_cast<int>(threadIdx.x) % 32;
    std::int64_t const stride = queries.strides[2];
    std::uint32_t const signs = shape.softmax_scale < 0.f ? 0x80008000u : 0u;
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      int const row = first_row(record.task) + thread / 4 + 8 * x;
      int const head = record.task.head_of(min(row, record.task.rows - 1), shape.group());
      Stored const* const from = &queries(record.queries[row], head, 0);
      if (stride == 1 && reinterpret_cast<std::uintptr_t>(from) % 4 == 0) {
        auto const* const pairs = reinterpret_cast<unsigned const*>(from) + thread % 4;
        load_row(rows, x, signs, [&](int pair) { return __ldg(pairs + pair); });
      } else {
        load_row(rows, x, signs, [&](int pair) {
          std::uint16_t const* const bits = &from[2 * (pair + thread % 4) * stride].bits;
          return bits[0] | static_cast<unsigned>(bits[stride]) << 16;
        });
      }
    }
  }

  /// Loads pairs of elements of a query row; `signs` of them are changed.
  template <class Load>
  __device__ static void load_row(QueryRows<Shape>& rows, int x, std::uint32_t signs,
                                  Load const& load) {
    FASTTREE_UNROLL
    for (int i = 0; i < Shape::head_dim / 16; ++i) FASTTREE_UNROLL
    for (int half = 0; half < 2; ++half)
      rows.query[i][x + 2 * half] = load(8 * i + 4 * half) ^ signs;
  }

  __device__ static int first_row(Task const& task) {
    return task.narrow ? 0 : static_cast<int>(threadIdx.x) / 32 * warp_rows;
  }

  __device__ void close_task(Memory& memory, Task const& task, QueryRows<Shape>& rows) const {
    rows.finish_sums();
    if (task.narrow) merge_warps(memory, rows);
    unsigned complete = 0;
    if (!task.narrow || threadIdx.x < 32) complete = write_rows(task, rows);
    if (task.item.partial_begin == WorkItem::direct) return;
    int first = first_row(task), quarters = 4;
    if (task.narrow) {  // all warps take part
      if (threadIdx.x == 0) memory.complete = complete;
      barrier<1, multiply_threads>();
      first = static_cast<int>(threadIdx.x) / 32 * 4;
      complete = memory.complete >> first;
      quarters = 1;
    }
#pragma unroll 1
    for (int i = 0; i < quarters; ++i)
      result_rows.merge_four(shape, plan, task, first + 4 * i, complete >> 4 * i);
  }

  /// Writes the rows of the warp. Returns a bit for each that has now all of its partial results.
  __device__ unsigned write_rows(Task const& task, QueryRows<Shape> const& rows) const {
    unsigned not_finite = result_rows.write(shape, plan, task, first_row(task), rows);
    __syncwarp();
    for (; not_finite != 0; not_finite &= not_finite - 1)
      compute_again(task, first_row(task) + __ffs(not_finite) - 1);
    if (task.item.partial_begin == WorkItem::direct) return 0;
    return result_rows.count_arrivals(shape, plan, task, first_row(task));
  }

  /// Computes and writes a row again, apart from the others.
  __device__ void compute_again(Task const& task, int row) const {
    auto const [query, head] = typename ResultRows<Shape, Output, Base>::RowOf(shape, task, row);
    SingleRow<Shape, Cache> single(&queries(plan.query_order[query], head, 0), queries.strides[2],
                                   log2_scale(), plan.visible_keys[query]);
    for (int i = task.item.range_begin; i < task.item.range_end; ++i) {
      KeyRange const range = plan.ranges[i];
      if (query >= range.query_begin && query < range.query_end)
        single.attend(range, cache, task.kv_head);
    }
    float const factor = single.sum == 0.f ? 0.f : __fdividef(1.f, single.sum);
    int const thread = static_cast<int>(threadIdx.x) % 32;
    result_rows.write_row(shape, plan, task, row,
                          result_rows.log_sum_exp_of(single.maximum, single.sum), thread == 0,
                          [&](auto* to, std::int64_t stride) {
                            for (int p = 0; p < single.value_parts; ++p)
                              if (int const d = thread + 32 * p; d < Shape::value_dim)
                                store(to + d * stride, single.output[p] * factor);
                          });
  }

  /// Of products of queries and keys, so that logits are in base 2.
  __device__ float log2_scale() const { return shape.softmax_scale * 1.44269504088896f; }

  /// Merges what the warps have of the same rows into the first warp.
  __device__ void merge_warps(Memory& memory, QueryRows<Shape>& rows) const {
    int const warp = static_cast<int>(threadIdx.x) / 32,
              thread = static_cast<int>(threadIdx.x) % 32;
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x)
      if (thread % 4 == 0)
        memory.sums[warp][thread / 4 + 8 * x] = make_float2(rows.maximum[x], rows.sum[x]);
    barrier<1, multiply_threads>();
    float factor[2];
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      float2 part[multiply_warps];
      float top = -detail::infinity, sum = 0.f;
      for (int w = 0; w < multiply_warps; ++w) {
        part[w] = memory.sums[w][thread / 4 + 8 * x];
        top = fmaxf(top, part[w].x);
      }
      float const base = top == -detail::infinity ? 0.f : top * rows.scale;
      for (int w = 0; w < multiply_warps; ++w)
        sum += exp2_approximate(part[w].x * rows.scale - base) * part[w].y;
      factor[x] = exp2_approximate(rows.maximum[x] * rows.scale - base);
      rows.maximum[x] = top;
      rows.sum[x] = sum;
    }
    rows.scale_outputs(factor);
    for (int from = 1; from < multiply_warps; ++from) {
      if (warp == from)
        exchange(
            memory,
            [](float2& to, float a, float b) {
              to = {a, b};
            },
            rows);
      barrier<1, multiply_threads>();
      if (warp == 0)
        exchange(
            memory, [](float2 const& other, float& a, float& b) { a += other.x, b += other.y; },
            rows);
      barrier<1, multiply_threads>();
    }
  }

  /// Calls body(pair in shared memory, output, output) for each pair of outputs of the thread.
  template <class Body>
  __device__ static void exchange(Memory& memory, Body const& body, QueryRows<Shape>& rows) {
    int const thread = static_cast<int>(threadIdx.x) % 32;
    FASTTREE_UNROLL
    for (int i = 0; i < Shape::value_dim / 8; ++i) FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      int const at = (thread / 4 + 8 * x) * Shape::value_dim + 8 * i + thread % 4 * 2;
      body(*reinterpret_cast<float2*>(memory.outputs + at), rows.output[i][2 * x],
           rows.output[i][2 * x + 1]);
    }
  }
};

}  // namespace fasttree::cuda::sm80
