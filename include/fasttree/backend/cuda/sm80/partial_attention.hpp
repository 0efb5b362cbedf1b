// SPDX-License-Identifier: Apache-2.0
#pragma once
// Partial attention on tensor cores: a persistent block of four warps that multiply and one that
// builds tiles. A block sees one stream of key tiles across its tasks: while one is multiplied, the
// next is copied and the one after that is looked up.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/cp_async.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>
#include <fasttree/backend/cuda/sm80/result_rows.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// The kernel.
template <class Shape, class Cache, class Output, LogBase Base>
class PartialAttention {
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

  __device__ void operator()() const {
    extern __shared__ uint4 shared_memory[];
    auto& memory = *reinterpret_cast<Memory*>(shared_memory);
    if (threadIdx.x >= multiply_threads) {
      build_tiles(memory);
    } else {
      multiply_tiles(memory);
    }
  }

 private:
  using Record = TileRecord<Stored>;
  static constexpr int stages = Memory::stages;

  __device__ static Record& record_of(Memory& memory, int tile) {
    return memory.records[tile % Memory::records_in_use];
  }

  // ---- the warp that builds; its barriers are those of multiply_tiles

  __device__ void build_tiles(Memory& memory) const {
    TileBuilder<Cache> builder(plan, queue, cache, queries, shape.kv_heads, shape.group());
    for (int tile = 0; tile < stages - 1; ++tile) {
      builder.build(record_of(memory, tile));
      __syncthreads();
    }
    for (int tile = 0;; ++tile) {
      builder.build(record_of(memory, tile + stages - 1));
      __syncthreads();
      if (record_of(memory, tile).number == Record::none) break;
    }
    finish();
  }

  /// Says that the block found no task left; the last block empties the queue for the next call.
  __device__ void finish() const {
    if (threadIdx.x != multiply_threads) return;
    if (atomicAdd(&queue->finished, 1) == static_cast<int>(gridDim.x) - 1) *queue = WorkQueue{};
  }

  // ---- the warps that multiply

  __device__ void multiply_tiles(Memory& memory) const {
    QueryRows<Shape> rows;
    rows.scale = shape.softmax_scale * 1.44269504088896f;  // log2(e)
    int const warp = static_cast<int>(threadIdx.x) / 32;
    for (int tile = 0; tile < stages - 1; ++tile) {
      __syncthreads();
      copy(memory, tile);
    }
    int number = Record::none;
    for (int tile = 0;; ++tile) {
      wait_for_copies<stages - 2>();
      __syncthreads();  // all see the tile, and none needs the one before any more
      Record const& record = record_of(memory, tile);
      if (record.number == Record::none) break;
      copy(memory, tile + stages - 1);
      bool const opens_task = record.number != number;
      number = record.number;
      if (opens_task) open_task(record, rows);
      std::uint32_t const keys = shared_address(memory.keys[tile % stages]);
      std::uint32_t const values = shared_address(memory.values[tile % stages]);
      if (record.task.narrow) {
        rows.template attend<1>(record, warp, 0, keys, values);
      } else {
        // Logits of half a tile at a time: those of all of it would not fit the registers.
#pragma unroll 1
        for (int group = 0; group < tile_keys / group_keys; group += 2)
          rows.template attend<2>(record, group, warp, keys, values);
      }
      if (record_of(memory, tile + 1).number != number) close_task(memory, record.task, rows);
    }
    wait_for_copies<0>();
  }

  /// Starts to copy a tile into the ring, if there is one; counts as a group of copies in any case.
  __device__ void copy(Memory& memory, int tile) const {
    Record const& record = record_of(memory, tile);
    if (record.number != Record::none) {
      copy_rows<Shape::head_dim>(record.keys, record.aligned, memory.keys[tile % stages]);
      copy_rows<Shape::value_dim>(record.values, record.aligned, memory.values[tile % stages]);
    }
    commit_copies();
  }

  template <int Dim>
  __device__ void copy_rows(Stored const* const* rows, bool aligned, Stored* to) const {
    constexpr int chunks = Dim / 8, rows_at_once = multiply_threads / chunks;
    int const chunk = static_cast<int>(threadIdx.x) % chunks;
    int const first = static_cast<int>(threadIdx.x) / chunks;
    std::uint32_t const base = shared_address(to);
    if (aligned) {
#pragma unroll 4  // all of it would take the registers of the rows' state
      for (int i = 0; i < tile_keys / rows_at_once; ++i) {
        int const row = first + i * rows_at_once;
        Stored const* const from = rows[row];
        bool const exists = from != nullptr;
        copy_16(base + chunk_at<Dim>(row, chunk), exists ? from + 8 * chunk : queries.data, exists);
      }
      return;
    }
#pragma unroll 1
    for (int row = first; row < tile_keys; row += rows_at_once) {  // a cache of odd strides
      auto* const elements =
          reinterpret_cast<Stored*>(reinterpret_cast<char*>(to) + chunk_at<Dim>(row, chunk));
#pragma unroll 1
      for (int d = 0; d < 8; ++d)
        elements[d].bits = rows[row] != nullptr ? rows[row][8 * chunk + d].bits : 0;
    }
  }

  /// Loads the queries of the warp's rows.
  __device__ void open_task(Record const& record, QueryRows<Shape>& rows) const {
    rows.clear();
    int const thread = static_cast<int>(threadIdx.x) % 32;
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      int const row = first_row(record.task) + thread / 4 + 8 * x;
      rows.visible[x] = record.visible[row];
      Stored const* const from = record.queries[row];
      FASTTREE_UNROLL
      for (int i = 0; i < Shape::head_dim / 16; ++i) {
        rows.query[i][x] = pair(from, 16 * i + thread % 4 * 2);
        rows.query[i][x + 2] = pair(from, 16 * i + thread % 4 * 2 + 8);
      }
    }
  }

  /// Elements d and d + 1 of a query.
  __device__ std::uint32_t pair(Stored const* query, int d) const {
    std::int64_t const stride = queries.strides[2];
    if (stride == 1 && reinterpret_cast<std::uintptr_t>(query) % 4 == 0)
      return *reinterpret_cast<std::uint32_t const*>(query + d);
    return query[d * stride].bits | static_cast<std::uint32_t>(query[(d + 1) * stride].bits) << 16;
  }

  __device__ static int first_row(Task const& task) {
    return task.narrow ? 0 : static_cast<int>(threadIdx.x) / 32 * 16;
  }

  __device__ void close_task(Memory& memory, Task const& task, QueryRows<Shape>& rows) const {
    rows.finish_sums();
    if (task.narrow) {
      merge_warps(memory, rows);
      if (threadIdx.x >= 32) return;
    }
    result_rows.write(shape, plan, task, first_row(task), rows);
  }

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
      float const base = top == -detail::infinity ? 0.f : top;
      for (int w = 0; w < multiply_warps; ++w) sum += exp2f(part[w].x - base) * part[w].y;
      factor[x] = exp2f(rows.maximum[x] - base);
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
