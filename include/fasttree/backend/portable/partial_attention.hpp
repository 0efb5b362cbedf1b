// SPDX-License-Identifier: Apache-2.0
#pragma once
// Partial attention by Kokkos alone: the readable specification of what a backend
// does, and the fast path on hosts. Persistent teams take tasks, (work item, KV head) pairs, from
// one queue; an item's query rows are packed once, its keys and values pass by in tiles. Rows lie
// in panels with a lane for each (panel.hpp), or, where the plan takes the narrow tile, with lanes
// along head_dim (narrow.hpp). A team sees one stream of tiles across its tasks: while one is
// computed with, the next is fetched.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/portable/narrow.hpp>
#include <fasttree/backend/portable/panel.hpp>
#include <fasttree/backend/portable/scratch.hpp>
#include <fasttree/backend/portable/tile_stream.hpp>
#include <fasttree/backend/portable/tiles.hpp>

namespace fasttree::portable {

/// The kernel: persistent teams of TeamSize threads, each team with scratch memory of its own; a
/// thread computes with N lanes.
template <class Space, int N, int TeamSize, class Shape, class Cache, class Output, LogBase Base>
class PartialAttention {
 public:
  static constexpr int M = narrow_lanes<N, Shape>;
  static constexpr int width = Panel<N>::width;
  static constexpr int head_dim = Shape::head_dim;
  static constexpr int value_dim = Shape::value_dim;
  using TeamScratch = Scratch<Shape, N, TeamSize>;
  using Stored = typename Shape::element_type;
  using Policy = Kokkos::TeamPolicy<Space>;
  using Team = typename Policy::member_type;

  Shape shape;
  TilePolicy tile_policy;
  TileStream tiles;
  StridedArray<Stored const, 3> queries;
  Cache cache;
  Results<Output, Base> results;
  PartialArrays partials;
  float* scratch;
  std::size_t scratch_stride;

  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    TeamScratch const memory = scratch_of(team);
    Tile tile = tiles.first(team);
    int buffer = 0;
    locate(team, memory, tile, buffer);
    for (bool opens_task = true; tile.task < tiles.tasks(); buffer = 1 - buffer) {
      Tile const ahead = tiles.after(team, tile);
      locate(team, memory, ahead, 1 - buffer);
      Task const task = task_of(tile.task);
      bool const closes_task = ahead.task != tile.task;
      auto const keys = rows_of(memory, buffer, tile.count);
      auto const keys_ahead = rows_of(memory, 1 - buffer, ahead.count);
      if (has_narrow<N> && tiles.is_narrow(task.item)) {
        attend_narrow(team, memory, task, tile, keys, keys_ahead, opens_task, closes_task);
      } else {
        attend_panels(team, memory, task, tile, keys, keys_ahead, opens_task, closes_task);
      }
      opens_task = closes_task;
      tile = ahead;
    }
    tiles.finish(team);
  }

 private:
  /// A work item for one KV head.
  struct Task {
    WorkItem item;
    int kv_head;
    int rows;
  };

  KOKKOS_INLINE_FUNCTION Task task_of(int task) const {
    WorkItem const& item = tiles.item(task);
    return {item, tiles.kv_head(task), (item.query_end - item.query_begin) * shape.group()};
  }

  // ---- memory

  KOKKOS_INLINE_FUNCTION TeamScratch scratch_of(Team const& team) const {
    int const rows =
        tile_policy.query_rows > shape.group() ? tile_policy.query_rows : shape.group();
    return TeamScratch(scratch + team.league_rank() * scratch_stride, rows, tile_policy.key_rows);
  }

  KOKKOS_INLINE_FUNCTION Panel<N> panel_of(Team const& team, TeamScratch const& memory,
                                           int panel) const {
    return {memory.queries() + panel * head_dim * width,
            memory.outputs() + panel * value_dim * width,
            memory.maxima() + panel * width,
            memory.sums() + panel * width,
            memory.scores(team.team_rank()),
            memory.limits() + panel * width};
  }

  KOKKOS_INLINE_FUNCTION static NarrowPanel<M> narrow_of(TeamScratch const& memory) {
    return {memory.queries(), memory.outputs(), memory.maxima(),
            memory.sums(),    memory.scores(0), memory.limits()};
  }

  KOKKOS_INLINE_FUNCTION KeyRows<Stored> rows_of(TeamScratch const& memory, int buffer,
                                                 int count) const {
    auto* const rows = memory.template rows<Stored>(buffer);
    return {rows, rows + tile_policy.key_rows, count};
  }

  // ---- keys

  /// Looks up where the rows of a tile lie.
  KOKKOS_INLINE_FUNCTION void locate(Team const& team, TeamScratch const& memory, Tile const& tile,
                                     int buffer) const {
    if (tile.count == 0) return;
    auto* const rows = memory.template rows<Stored>(buffer);
    int const kv_head = tiles.kv_head(tile.task);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, tile.count), [&](int i) {
      auto const at = cache.locate(tiles.plan.ranges[tile.range].slot_begin + tile.begin + i);
      rows[i] = cache.key(at, kv_head);
      rows[tile_policy.key_rows + i] = cache.value(at, kv_head);
    });
    team.team_barrier();
  }

  /// Brings the keys and values of a tile into the team's scratch, as floats.
  KOKKOS_INLINE_FUNCTION KeyTile stage(Team const& team, TeamScratch const& memory,
                                       KeyRows<Stored> const& rows) const {
    float* const keys = memory.keys();
    float* const values = memory.values();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, round_up(rows.count, step<1>)), [&](int i) {
      if (i < rows.count) {
        stage_row<head_dim>(rows.keys[i], keys + i * head_dim);
        stage_row<value_dim>(rows.values[i], values + i * value_dim);
      } else {
        for (int d = 0; d < head_dim; ++d) keys[i * head_dim + d] = 0.f;
      }
    });
    team.team_barrier();
    return {keys, values, rows.count};
  }

  template <int Dim>
  KOKKOS_FORCEINLINE_FUNCTION static void stage_row(Stored const* from, float* to) {
    for (int d = 0; d < Dim; d += M) store<M>(load<M>(from + d), to + d);
  }

  /// Which rows a tile concerns: [begin, end), empty where none sees a key; `masked` where one of
  /// them sees some of the keys and not all.
  struct Concerned {
    int begin, end;
    int attending;  ///< rows that see a key: fewer than end - begin where causal tails leave gaps
    bool masked;
  };

  /// Writes how many keys of the tile each of `rows` rows from `first` on sees.
  KOKKOS_INLINE_FUNCTION Concerned limit_rows(TeamScratch const& memory, Tile const& tile,
                                              int first, int rows) const {
    KeyRange const& range = tiles.plan.ranges[tile.range];
    Concerned concerned{rows, 0, 0, false};
    for (int i = 0; i < rows; ++i) {
      int const query = memory.row_queries()[first + i];
      bool const attends = query >= range.query_begin && query < range.query_end;
      int const limit = attends ? memory.visible()[first + i] - range.position - tile.begin : 0;
      memory.limits()[first + i] = limit;
      if (limit <= 0) continue;
      if (concerned.begin == rows) concerned.begin = i;
      concerned.end = i + 1;
      ++concerned.attending;
      if (limit < tile.count) concerned.masked = true;
    }
    return concerned;
  }

  // ---- rows

  /// Prepares row `row` of the task's rows; its elements are `queries[d * stride]`. Rows past the
  /// last are copies of it in what they see, with queries of zero; they are not written.
  KOKKOS_INLINE_FUNCTION void pack_row(TeamScratch const& memory, Task const& task, int row,
                                       float* to, int stride) const {
    constexpr float log2_e = 1.44269504088896f;
    int const used = row < task.rows ? row : task.rows - 1;
    int const query = task.item.query_begin + used / shape.group();
    int const head = task.kv_head * shape.group() + used % shape.group();
    float const scale = row < task.rows ? shape.softmax_scale * log2_e : 0.f;
    Stored const* const from = &queries(tiles.plan.query_order[query], head, 0);
    for (int d = 0; d < head_dim; ++d)
      to[d * stride] = static_cast<float>(from[d * queries.strides[2]]) * scale;
    memory.row_queries()[row] = query;
    memory.visible()[row] = tiles.plan.visible_keys[query];
  }

  /// Writes a row's result: outputs are `from[d * stride]` before division by `sum`.
  KOKKOS_INLINE_FUNCTION void write_row(Task const& task, int row, float const* from, int stride,
                                        float maximum, float sum) const {
    constexpr float ln2 = 0.693147180559945f;
    int const query = row / shape.group();
    int const head = task.kv_head * shape.group() + row % shape.group();
    float const factor = sum == 0.f ? 0.f : 1.f / sum;  // 0: the row saw no key
    NaturalLogSumExp const log_sum_exp{sum == 0.f ? -detail::infinity
                                                  : (maximum + std::log2(sum)) * ln2};
    if (task.item.partial_begin == WorkItem::direct) {
      int const to = tiles.plan.query_order[task.item.query_begin + query];
      for (int d = 0; d < value_dim; ++d)
        results.outputs(to, head, d) = static_cast<Output>(from[d * stride] * factor);
      results.write_log_sum_exp(to, head, log_sum_exp);
    } else {
      auto const to =
          static_cast<std::int64_t>(task.item.partial_begin + query) * shape.query_heads + head;
      for (int d = 0; d < value_dim; ++d)
        partials.outputs[to * value_dim + d] = from[d * stride] * factor;
      partials.log_sum_exps[to] = log_sum_exp;
    }
  }

  // ---- rows in panels, a lane for each

  KOKKOS_INLINE_FUNCTION void attend_panels(Team const& team, TeamScratch const& memory,
                                            Task const& task, Tile const& tile,
                                            KeyRows<Stored> const& keys,
                                            KeyRows<Stored> const& ahead, bool opens_task,
                                            bool closes_task) const {
    auto const each_panel = [&](auto const& body) {
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, ceil_div(task.rows, width)), body);
      team.team_barrier();
    };
    if (opens_task) each_panel([&](int panel) { pack_panel(team, memory, task, panel); });
    KeyTile const staged = stage(team, memory, keys);
    each_panel([&](int panel) {
      KeyRows<Stored> const to_fetch{ahead.keys, ahead.values, panel == 0 ? ahead.count : 0};
      attend_panel(team, memory, task, tile, staged, panel, to_fetch);
    });
    if (closes_task) each_panel([&](int panel) { write_panel(team, memory, task, panel); });
  }

  KOKKOS_INLINE_FUNCTION void pack_panel(Team const& team, TeamScratch const& memory,
                                         Task const& task, int panel) const {
    Panel<N> const to = panel_of(team, memory, panel);
    for (int i = 0; i < width; ++i) {
      pack_row(memory, task, panel * width + i, to.queries + i, width);
      to.maxima[i] = -detail::infinity;
      to.sums[i] = 0.f;
    }
    for (int i = 0; i < value_dim * width; ++i) to.outputs[i] = 0.f;
  }

  KOKKOS_INLINE_FUNCTION void attend_panel(Team const& team, TeamScratch const& memory,
                                           Task const& task, Tile const& tile, KeyTile const& keys,
                                           int panel, KeyRows<Stored> const& ahead) const {
    Concerned const rows = limit_rows(memory, tile, panel * width, width);
    if (rows.begin >= rows.end) return;
    // Rows past the task's last see what it sees; registers that hold only such rows are left out.
    int const used = task.rows - panel * width;
    int const end = rows.end < used ? rows.end : used;
    int const first = rows.begin / N;
    Panel<N> const to = panel_of(team, memory, panel).from(first);
    if (rows.masked) {
      attend_vectors<true>(to, keys, ceil_div(end, N) - first, ahead);
    } else {
      attend_vectors<false>(to, keys, ceil_div(end, N) - first, ahead);
    }
  }

  template <bool Masked>
  KOKKOS_FORCEINLINE_FUNCTION static void attend_vectors(Panel<N> const& panel, KeyTile const& keys,
                                                         int vectors,
                                                         KeyRows<Stored> const& ahead) {
    if (vectors == 1) {
      attend<N, 1, head_dim, value_dim, Masked>(panel, keys, ahead);
    } else if (vectors == 2) {
      attend<N, 2, head_dim, value_dim, Masked>(panel, keys, ahead);
    } else {
      attend<N, 3, head_dim, value_dim, Masked>(panel, keys, ahead);
    }
  }

  KOKKOS_INLINE_FUNCTION void write_panel(Team const& team, TeamScratch const& memory,
                                          Task const& task, int panel) const {
    Panel<N> const from = panel_of(team, memory, panel);
    for (int i = 0; i < width && panel * width + i < task.rows; ++i)
      write_row(task, panel * width + i, from.outputs + i, width, from.maxima[i], from.sums[i]);
  }

  // ---- few rows, lanes along head_dim

  KOKKOS_INLINE_FUNCTION void attend_narrow(Team const& team, TeamScratch const& memory,
                                            Task const& task, Tile const& tile,
                                            KeyRows<Stored> const& keys,
                                            KeyRows<Stored> const& ahead, bool opens_task,
                                            bool closes_task) const {
    if constexpr (has_narrow<N>) {
      Kokkos::single(Kokkos::PerTeam(team), [&] {
        if (opens_task) pack_narrow(memory, task);
        attend_few_rows(memory, task, tile, keys, ahead);
        if (closes_task) write_narrow(memory, task);
      });
      team.team_barrier();
    }
  }

  /// Rows that are computed with: a power of two.
  KOKKOS_INLINE_FUNCTION static int rounded_rows(Task const& task) {
    return task.rows == 3 ? narrow_rows : task.rows;
  }

  KOKKOS_INLINE_FUNCTION void pack_narrow(TeamScratch const& memory, Task const& task) const {
    int const rows = rounded_rows(task);
    NarrowPanel<M> const to = narrow_of(memory);
    for (int row = 0; row < rows; ++row)
      pack_row(memory, task, row, to.queries + row * head_dim, 1);
    for (int l = 0; l < M; ++l) {
      to.maxima[l] = -detail::infinity;
      to.sums[l] = 0.f;
    }
    for (int i = 0; i < rows * value_dim; ++i) to.outputs[i] = 0.f;
  }

  KOKKOS_INLINE_FUNCTION void attend_few_rows(TeamScratch const& memory, Task const& task,
                                              Tile const& tile, KeyRows<Stored> const& keys,
                                              KeyRows<Stored> const& ahead) const {
    int const rows = rounded_rows(task);
    Concerned const concerned = limit_rows(memory, tile, 0, rows);
    if (concerned.begin >= concerned.end) return;
    NarrowPanel<M> const to = narrow_of(memory);
    auto const attend_few = [&]<bool Masked>(std::bool_constant<Masked>) {
      if (rows == 1) {
        attend<M, 1, head_dim, value_dim, Masked>(to, keys, ahead);
      } else if (rows == 2) {
        attend<M, 2, head_dim, value_dim, Masked>(to, keys, ahead);
      } else {
        attend<M, 4, head_dim, value_dim, Masked>(to, keys, ahead);
      }
    };
    if (concerned.masked || concerned.attending < rows) {
      attend_few(std::true_type{});
    } else {
      attend_few(std::false_type{});
    }
  }

  KOKKOS_INLINE_FUNCTION void write_narrow(TeamScratch const& memory, Task const& task) const {
    NarrowPanel<M> const from = narrow_of(memory);
    int const rows = rounded_rows(task);
    for (int row = 0; row < task.rows; ++row) {
      float sum = 0.f;
      for (int l = row; l < M; l += rows) sum += from.sums[l];
      write_row(task, row, from.outputs + row * value_dim, 1, from.maxima[row], sum);
    }
  }
};

}  // namespace fasttree::portable
