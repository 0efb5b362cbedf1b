// SPDX-License-Identifier: Apache-2.0
#pragma once
// Partial attention on any Kokkos execution space: the readable specification of what a backend does,
// and the fast path on hosts. Persistent teams take (work item, KV head) pairs from one queue; an item's
// query rows are packed into panels once, keys and values pass by in tiles, staged as floats.

#include <cstddef>
#include <cstdint>
#include <limits>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/portable/panel.hpp>
#include <fasttree/backend/portable/tiles.hpp>

namespace fasttree::portable {

/// The scratch of one team, as offsets in floats; see Panel for what the parts hold.
template <class Shape, int N, int TeamSize>
struct Scratch {
  static constexpr int width = Panel<N>::width;

  int panels;
  int key_rows;

  constexpr Scratch(int query_rows, int keys) : panels(ceil_div(query_rows, width)), key_rows(keys) {}

  constexpr std::size_t queries() const { return 0; }
  constexpr std::size_t outputs() const {
    return queries() + std::size_t{1} * panels * Shape::head_dim * width;
  }
  constexpr std::size_t maxima() const {
    return outputs() + std::size_t{1} * panels * Shape::value_dim * width;
  }
  constexpr std::size_t sums() const { return maxima() + panels * width; }
  constexpr std::size_t visible() const { return sums() + panels * width; }
  constexpr std::size_t limits() const { return visible() + panels * width; }
  constexpr std::size_t row_queries() const { return limits() + panels * width; }
  constexpr std::size_t scores() const { return row_queries() + panels * width; }
  constexpr std::size_t keys() const { return scores() + TeamSize * key_rows * width; }
  constexpr std::size_t values() const { return keys() + key_rows * Shape::head_dim; }
  constexpr std::size_t floats() const { return values() + key_rows * Shape::value_dim; }
};

/// The kernel: teams of TeamSize threads, each with `scratch` memory of its own.
template <class Space, class Shape, class Cache, class Output, LogBase Base>
class PartialAttention {
 public:
  static constexpr int N = lanes<Space>;
  using TeamScratch = Scratch<Shape, N, team_size<Space>>;
  using Stored = typename Shape::element_type;
  using Policy = Kokkos::TeamPolicy<Space>;
  using Team = typename Policy::member_type;
  static constexpr int width = Panel<N>::width;
  static constexpr float log2_e = 1.44269504088896f;

  Shape shape;
  TilePolicy tile;
  PlanArrays plan;
  StridedArray<Stored const, 3> queries;
  Cache cache;
  Results<Output, Base> results;
  PartialArrays partials;
  WorkQueue* queue;
  float* scratch;
  std::size_t scratch_stride;

  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    int const items = plan.counts->items;
    for (;;) {
      int task = 0;
      Kokkos::single(
          Kokkos::PerTeam(team),
          [&](int& next) { next = Kokkos::atomic_fetch_add(&queue->next, 1); }, task);
      if (task >= items * shape.kv_heads) break;
      attend_item(team, plan.items[task % items], task / items);
      team.team_barrier();
    }
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      if (Kokkos::atomic_fetch_add(&queue->finished, 1) == team.league_size() - 1)
        *queue = WorkQueue{};  // all teams are done: empty for the next call
    });
  }

 private:
  KOKKOS_INLINE_FUNCTION TeamScratch parts() const {
    int const rows = tile.query_rows > shape.group() ? tile.query_rows : shape.group();
    return TeamScratch(rows, tile.key_rows);
  }
  KOKKOS_INLINE_FUNCTION float* memory(Team const& team) const {
    return scratch + team.league_rank() * scratch_stride;
  }
  KOKKOS_INLINE_FUNCTION Panel<N> panel_of(Team const& team, int panel) const {
    TeamScratch const at = parts();
    float* const base = memory(team);
    return {base + at.queries() + panel * Shape::head_dim * width,
            base + at.outputs() + panel * Shape::value_dim * width,
            base + at.maxima() + panel * width,
            base + at.sums() + panel * width,
            base + at.scores() + team.team_rank() * at.key_rows * width,
            integers(team, at.limits(), panel)};
  }
  KOKKOS_INLINE_FUNCTION std::int32_t* integers(Team const& team, std::size_t part,
                                                int panel) const {
    return reinterpret_cast<std::int32_t*>(memory(team) + part) + panel * width;
  }

  KOKKOS_INLINE_FUNCTION void attend_item(Team const& team, WorkItem const& item,
                                          int kv_head) const {
    int const rows = (item.query_end - item.query_begin) * shape.group();
    int const panels = ceil_div(rows, width);
    auto const each_panel = [&](auto const& body) {
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, panels), body);
      team.team_barrier();
    };
    each_panel([&](int panel) { pack_queries(team, item, kv_head, rows, panel); });
    for (int i = item.range_begin; i < item.range_end; ++i) {
      KeyRange const& range = plan.ranges[i];
      if (range.query_begin >= item.query_end || range.query_end <= item.query_begin) continue;
      for (int begin = 0; begin < range.length; begin += tile.key_rows) {
        int const rest = range.length - begin;
        int const count = rest < tile.key_rows ? rest : tile.key_rows;
        KeyTile const keys = stage(team, range.slot_begin + begin, count, kv_head);
        each_panel([&](int panel) {
          attend_panel(team, range, begin, keys, rows - panel * width, panel);
        });
      }
    }
    each_panel([&](int panel) { write_rows(team, item, kv_head, rows, panel); });
  }

  /// Rows past the last are copies of it in what they see, with queries of zero; they are not written.
  KOKKOS_INLINE_FUNCTION void pack_queries(Team const& team, WorkItem const& item, int kv_head,
                                           int rows, int panel) const {
    Panel<N> const to = panel_of(team, panel);
    float const scale = shape.softmax_scale * log2_e;
    std::int32_t* const visible = integers(team, parts().visible(), panel);
    std::int32_t* const row_queries = integers(team, parts().row_queries(), panel);
    for (int i = 0; i < width; ++i) {
      int const row = panel * width + i, used = row < rows ? row : rows - 1;
      int const query = item.query_begin + used / shape.group();
      int const head = kv_head * shape.group() + used % shape.group();
      Stored const* const from = &queries(plan.query_order[query], head, 0);
      for (int d = 0; d < Shape::head_dim; ++d)
        to.queries[d * width + i] =
            row < rows ? static_cast<float>(from[d * queries.strides[2]]) * scale : 0.f;
      to.maxima[i] = -std::numeric_limits<float>::infinity();
      to.sums[i] = 0.f;
      row_queries[i] = query;
      visible[i] = plan.visible_keys[query];
    }
    for (int i = 0; i < Shape::value_dim * width; ++i) to.outputs[i] = 0.f;
  }

  /// Brings keys and values of `count` slots into the team's scratch, as floats.
  KOKKOS_INLINE_FUNCTION KeyTile stage(Team const& team, std::int64_t slot_begin, int count,
                                       int kv_head) const {
    float* const keys = memory(team) + parts().keys();
    float* const values = memory(team) + parts().values();
    constexpr int most = step<1>;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, round_up(count, most)), [&](int i) {
      if (i < count) {
        auto const at = cache.locate(slot_begin + i);
        stage_row<Shape::head_dim>(cache.key(at, kv_head), keys + i * Shape::head_dim);
        stage_row<Shape::value_dim>(cache.value(at, kv_head), values + i * Shape::value_dim);
      } else {
        for (int d = 0; d < Shape::head_dim; ++d) keys[i * Shape::head_dim + d] = 0.f;
      }
    });
    team.team_barrier();
    return {keys, values, count};
  }

  template <int Dim>
  KOKKOS_FORCEINLINE_FUNCTION static void stage_row(Stored const* from, float* to) {
    constexpr int M = Dim % N == 0 ? N : 1;  // 8 divides every head_dim, 16 does not
    for (int d = 0; d < Dim; d += M) store<M>(load<M>(from + d), to + d);
  }

  KOKKOS_INLINE_FUNCTION void attend_panel(Team const& team, KeyRange const& range, int begin,
                                           KeyTile const& keys, int rows, int panel) const {
    std::int32_t const* const visible = integers(team, parts().visible(), panel);
    std::int32_t const* const row_queries = integers(team, parts().row_queries(), panel);
    Panel<N> const to = panel_of(team, panel);
    int least = keys.count, most = 0;
    for (int i = 0; i < width; ++i) {
      bool const attends = row_queries[i] >= range.query_begin && row_queries[i] < range.query_end;
      int const limit = attends ? visible[i] - range.position - begin : 0;
      to.limit[i] = limit;
      least = limit < least ? limit : least;
      most = limit > most ? limit : most;
    }
    if (most == 0) return;
    if (least >= keys.count) {
      attend_rows<false>(to, keys, rows);
    } else {
      attend_rows<true>(to, keys, rows);
    }
  }

  template <bool Masked>
  KOKKOS_FORCEINLINE_FUNCTION static void attend_rows(Panel<N> const& panel, KeyTile const& keys,
                                                      int rows) {
    constexpr int head_dim = Shape::head_dim, value_dim = Shape::value_dim;
    if (rows <= N) {
      attend<N, 1, head_dim, value_dim, Masked>(panel, keys);
    } else if (rows <= 2 * N) {
      attend<N, 2, head_dim, value_dim, Masked>(panel, keys);
    } else {
      attend<N, 3, head_dim, value_dim, Masked>(panel, keys);
    }
  }

  KOKKOS_INLINE_FUNCTION void write_rows(Team const& team, WorkItem const& item, int kv_head,
                                         int rows, int panel) const {
    constexpr float ln2 = 0.693147180559945f;
    Panel<N> const from = panel_of(team, panel);
    for (int i = 0; i < width && panel * width + i < rows; ++i) {
      int const row = panel * width + i, query = row / shape.group();
      int const head = kv_head * shape.group() + row % shape.group();
      float const sum = from.sums[i];
      float const factor = sum == 0.f ? 0.f : 1.f / sum;
      NaturalLogSumExp const log_sum_exp{sum == 0.f ? from.maxima[i]
                                                    : (from.maxima[i] + std::log2(sum)) * ln2};
      if (item.partial_begin == WorkItem::direct) {
        int const to = plan.query_order[item.query_begin + query];
        for (int d = 0; d < Shape::value_dim; ++d)
          results.outputs(to, head, d) = static_cast<Output>(from.outputs[d * width + i] * factor);
        results.write_log_sum_exp(to, head, log_sum_exp);
      } else {
        auto const to =
            static_cast<std::int64_t>(item.partial_begin + query) * shape.query_heads + head;
        for (int d = 0; d < Shape::value_dim; ++d)
          partials.outputs[to * Shape::value_dim + d] = from.outputs[d * width + i] * factor;
        partials.log_sum_exps[to] = log_sum_exp;
      }
    }
  }
};

}  // namespace fasttree::portable
