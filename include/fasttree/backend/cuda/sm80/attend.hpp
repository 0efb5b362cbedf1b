// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention on tensor cores in one launch: persistent blocks of warps that multiply and half as
// many that build tiles and start their copies. A block sees one stream of tiles across its tasks,
// of each the queries and then the keys, through a ring in shared memory; but for the ends of
// tasks, warps wait for each other at its places alone. Blocks that find no task left merge
// partial results.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/cuda/sm80/query_rows.hpp>
#include <fasttree/backend/cuda/sm80/result_rows.hpp>
#include <fasttree/backend/cuda/sm80/shared_rows.hpp>
#include <fasttree/backend/cuda/sm80/single_row.hpp>
#include <fasttree/backend/cuda/sm80/tile_builder.hpp>
#include <fasttree/backend/cuda/sm80/tile_copy.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// The kernel.
template <int Warps, int Blocks, class Shape, class Cache, class Output, LogBase Base>
class Attend {
 public:
  static constexpr int threads = Block<Warps>::threads;
  static constexpr int blocks_per_processor = Blocks;
  using Stored = typename Shape::element_type;
  using Memory = SharedMemory<Shape, Warps, Blocks>;

  Shape shape;
  PlanArrays plan;
  WorkQueue* queue;
  StridedArray<Stored const, 3> queries;
  Cache cache;
  ResultRows<Warps, Shape, Output, Base> result_rows;
  int stages;  ///< places in the ring

  __device__ void operator()() const {
    prefetch_plan();
    extern __shared__ __align__(1024) uint4 shared_memory[];
    auto* const ring = reinterpret_cast<Tile*>(shared_memory);
    auto& memory = *reinterpret_cast<Memory*>(ring + stages);
    if (threadIdx.x == 0)
#pragma unroll 1
      for (int stage = 0; stage < stages; ++stage) {
        memory.full[stage].initialize(Block<Warps>::build_warps * (32 + 1));
        memory.empty[stage].initialize(Warps);
      }
    __syncthreads();
    // The registers of a multiprocessor, less what those that build can spare.
    constexpr bool moves_registers = Warps == 8 && sm90::has_wgmma();
    if (threadIdx.x >= multiply_threads) {
      if constexpr (moves_registers) sm90::give_registers<104>();
      build_tiles(ring, memory);
    } else {
      if constexpr (moves_registers) sm90::take_registers<200>();
      multiply_tiles(ring, memory);
    }
  }

 private:
  using Tile = KeyTile<Shape, Warps>;
  using Record = TileRecord<Warps>;
  static constexpr int multiply_threads = Block<Warps>::multiply_threads;
  static constexpr int unopened = Record::none - 1;  ///< no task yet
  static constexpr unsigned all = 0xffffffffu;

  /// Asks for all tables: what is looked up in them is looked up one after the other.
  __device__ void prefetch_plan() const {
    std::size_t const at = std::size_t{128} * (blockIdx.x + gridDim.x * threadIdx.x);
    if (at < plan.bytes) prefetch_to_l2(reinterpret_cast<std::byte const*>(plan.counts) + at);
  }

  // ---- the warps that build

  __device__ void build_tiles(Tile* ring, Memory& memory) const {
    TileBuilder<Cache, Warps> builder(plan, queue, cache, queries, shape.kv_heads, shape.group(),
                                      memory.builder);
    int task = 0;
    RingPlace at;
    auto const put = [&](int of_task) {
      if (threadIdx.x == multiply_threads) memory.tiles[at.index].task = of_task;
      memory.full[at.index].arrive_with_copies();
      __syncwarp();
      if (threadIdx.x % 32 == 0) memory.full[at.index].arrive();
      at.advance(stages);
    };
    auto const open_task = [&] {
      task = task <= stages ? task + 1 : 0;
      memory.empty[at.index].wait(at.parity ^ 1);
      builder.describe_task(memory.tasks[task], [&](KeyRow<Stored> const* rows, int part) {
        TileCopy<Shape, Warps>::start_queries(rows, part, queries.strides[2], ring[at.index]);
      });
      put(task);
    };
    while (builder.gather(open_task)) {
      builder.locate();
      memory.empty[at.index].wait(at.parity ^ 1);
      Record& record = memory.tiles[at.index];
      if (!builder.is_empty()) TileCopy<Shape, Warps>::start(builder, ring[at.index]);
      builder.describe(record);
      builder.pass();
      bool const is_last = builder.ends_task();
      if (threadIdx.x == multiply_threads) record.is_last = is_last;
      put(task);
    }
    memory.empty[at.index].wait(at.parity ^ 1);
    put(Record::none);
  }

  // ---- the warps that multiply

  __device__ void multiply_tiles(Tile* ring, Memory& memory) const {
    QueryRows<Shape, Warps> rows;
    float const scale = fabsf(log2_scale());  // the sign goes to the queries
    rows.scale = scale < 1e-30f ? 1e-30f : scale;
    int const warp = static_cast<int>(threadIdx.x) / 32;
    int const merge_queries = plan.counts->merge_queries;
    int task = unopened, row = 0, row_warps = 0;
    for (RingPlace at;;) {
      memory.full[at.index].wait(at.parity);
      Record const& record = memory.tiles[at.index];
      std::uint32_t const keys = shared_address(ring[at.index].keys);
      if (task == unopened) {  // the first tile of a task: queries in the place of keys
        task = record.task;
        if (task == Record::none) break;
        row = first_row(memory.tasks[task].task);
        row_warps = memory.tasks[task].task.row_warps;
        rows.open(keys, row, shape.softmax_scale < 0.f);
        release(memory, at.index);
        at.advance(stages);
        continue;
      }
      int const together = record.together;
      bool is_last = record.is_last;
      if (record.task == task) {
        std::uint32_t const values = shared_address(ring[at.index].values);
        int const* const visible = memory.tasks[task].visible;
        if (sm90::has_wgmma() && together > 0 && row_warps >= 4) {
          if constexpr (sm90::has_wgmma()) {
            int const first_key = warp < row_warps ? 0 : 64;
            if (row_warps == Warps && (Warps == 4 || together * Record::part_keys > 64)) {
              rows.template attend_together<Block<Warps>::tile_keys>(record, 0, visible, row, keys,
                                                                     values);
            } else if (together * Record::part_keys > first_key) {
              rows.template attend_together<64>(record, first_key, visible, row, keys, values);
            }
          }
        } else {
          rows.attend(record, visible, row, record.groups_of(warp), keys, values);
        }
        release(memory, at.index);
        at.advance(stages);
      } else {
        is_last = true;  // what was left of the task's ranges had no keys for it
      }
      if (is_last) {
        close_task(memory, memory.tasks[task], rows);
        task = unopened;
      }
    }
    result_rows.merge_rows(shape, plan, merge_queries);
    finish();
  }

  /// Says that the block is done; the last of all empties the queue for the next call.
  __device__ void finish() const {
    barrier<1, multiply_threads>();
    if (threadIdx.x != 0) return;
    if (atomicAdd(&queue->finished, 1) == static_cast<int>(gridDim.x) - 1) *queue = WorkQueue{};
  }

  /// Says that this warp does not need a place of the ring any more.
  __device__ static void release(Memory& memory, int place) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) memory.empty[place].arrive();
  }

  /// Which rows of a task the warp has.
  __device__ static int first_row(Task const& task) {
    return (static_cast<int>(threadIdx.x) / 32 & (task.row_warps - 1)) * warp_rows;
  }

  __device__ void close_task(Memory& memory, TaskRecord<Warps> const& record,
                             QueryRows<Shape, Warps>& rows) const {
    rows.finish_sums();
    Task const& task = record.task;
    std::uint32_t const stage = memory.stage_of_warp();
    bool const shares_rows = task.row_warps < Warps;
    OwnResults own{first_row(task), 0, Shape::value_dim / 8};
    unsigned spoiled = 0;
    if (shares_rows) {
      own = SharedRows<Shape, Warps, Memory>(memory, task.row_warps, rows).add_up(own);
      spoiled = result_rows.template write<8>(shape, record, own, rows, stage);
    } else {
      spoiled = result_rows.template write<warp_rows>(shape, record, own, rows, stage);
    }
    __syncwarp();
    for (; spoiled != 0; spoiled &= spoiled - 1)
      compute_again(record, own.row + __ffs(spoiled) - 1, own);
    if (task.item.partial_begin == WorkItem::direct) return;
    if (own.blocks < Shape::value_dim / 8) {
      barrier<1, multiply_threads>();  // others have other columns
    } else {
      __syncwarp();
    }
    if (own.first_block == 0)
      result_rows.count_arrivals(shape, plan, record, own.row, shares_rows ? 8 : warp_rows);
  }

  /// Computes a row again, apart from the others, and writes what the warp has of it.
  __device__ void compute_again(TaskRecord<Warps> const& record, int row,
                                OwnResults const& own) const {
    Task const& task = record.task;
    auto const [of_item, head] = record.row(row);
    int const query = task.item.query_begin + of_item;
    SingleRow<Shape, Cache> single(&queries(record.queries[row], head, 0), queries.strides[2],
                                   log2_scale(), record.visible[row]);
    for (int i = task.item.range_begin; i < task.item.range_end; ++i) {
      KeyRange const range = plan.ranges[i];
      if (query >= range.query_begin && query < range.query_end)
        single.attend(range, cache, task.kv_head);
    }
    single.output.scale(single.sum == 0.f ? 0.f : __fdividef(1.f, single.sum));
    result_rows.write_row(
        shape, record, row, result_rows.log_sum_exp_of(single.maximum, single.sum),
        threadIdx.x % 32 == 0 && own.first_block == 0, [&](auto* to, std::int64_t stride) {
          single.output.store(to, stride, 8 * own.first_block, 8 * (own.first_block + own.blocks));
        });
  }

  /// Of products of queries and keys, so that logits are in base 2.
  __device__ float log2_scale() const { return shape.softmax_scale * 1.44269504088896f; }
};

}  // namespace fasttree::cuda::sm80
