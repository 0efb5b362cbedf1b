// SPDX-License-Identifier: Apache-2.0
#pragma once
// The portable backend: Kokkos alone, float arithmetic on all element types. Read it first.

#include <algorithm>
#include <cstddef>

#include <fasttree/backend/backend.hpp>
#include <fasttree/backend/portable/merge_partials.hpp>
#include <fasttree/backend/portable/narrow.hpp>
#include <fasttree/backend/portable/partial_attention.hpp>
#include <fasttree/backend/portable/tiles.hpp>

namespace fasttree::portable {

/// The portable backend on `Space`, in teams of TeamSize threads that compute with N lanes each.
template <class Space, int N = lanes<Space>, int TeamSize = team_size<Space>>
struct Backend {
  /// Items of 96 rows are whole panels of 12, 24 and 48 rows (4, 8 and 16 lanes). The narrow tile
  /// is that of narrow.hpp, which a single lane does not have.
  template <class Shape>
  static consteval Tiles tiles() {
    constexpr TilePolicy wide{.query_rows = 96, .key_rows = 64, .row_step = N};
    constexpr TilePolicy narrow{.query_rows = narrow_rows, .key_rows = narrow_key_rows};
    return {.wide = wide, .narrow = has_narrow<N> ? narrow : wide, .most_keys = 1024};
  }

  /// A core of the two hosts that bench/calibrate.cpp has run on: with AVX-512 and without.
  static constexpr MachineCosts costs = N >= 16 ? MachineCosts{.launch = 6,
                                                               .item = 0.3,
                                                               .memory = 8e3,
                                                               .cache = 13.5e3,
                                                               .results = 5e3,
                                                               .wide = 90e3,
                                                               .narrow = 140e3,
                                                               .in_turn = 0.9}
                                                : MachineCosts{.launch = 6,
                                                               .item = 0.3,
                                                               .memory = 9.4e3,
                                                               .cache = 17e3,
                                                               .results = 10e3,
                                                               .wide = 69e3,
                                                               .narrow = 70e3,
                                                               .in_turn = 1};

  /// All arithmetic is of float: weights are not rounded further.
  template <class Shape>
  static constexpr double weight_roundoff = 0;

  /// Teams that run at once. On a GPU fewer than there could be: each has scratch in its memory.
  static int teams(Space const& space) {
    constexpr int share = runs_on_host<Space> ? 1 : 8;
    return std::max(1, static_cast<int>(space.concurrency()) / (share * TeamSize));
  }

  /// Scratch of a team.
  template <class Shape>
  static std::size_t scratch_bytes(Shape const& shape) {
    constexpr TilePolicy tile = tiles<Shape>().wide;
    return Scratch<Shape, N, TeamSize>(nullptr, std::max(tile.query_rows, shape.group()),
                                       tile.key_rows)
               .floats() *
           sizeof(float);
  }

  /// Enqueues what makes a new workspace ready: its queue is empty. By a team policy: at the first
  /// of them Kokkos allocates for its teams, which attention must not.
  template <class Shape>
  static void prepare(Space const& space, AttentionPlan<Space, Shape, Backend> const&,
                      Workspace<Space> const& workspace) {
    using Policy = Kokkos::TeamPolicy<Space>;
    WorkQueue* const queue = workspace.queue();
    Kokkos::parallel_for(
        "fasttree::make_workspace::prepare", Policy(space, teams(space), TeamSize),
        KOKKOS_LAMBDA(typename Policy::member_type const& team) {
          if (team.league_rank() == 0)
            Kokkos::single(Kokkos::PerTeam(team), [=] { *queue = WorkQueue{}; });
        });
  }

  template <class Shape, KVCache Cache, class Output, LogBase Base>
  static void attend(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                     StridedArray<typename Shape::element_type const, 3> queries,
                     Cache const& cache, Results<Output, Base> const& results,
                     Workspace<Space> const& workspace) {
    using Kernel = PartialAttention<Space, N, TeamSize, Shape, Cache, Output, Base>;
    using Merge = MergePartials<Space, N, Shape, Output, Base>;
    PartialArrays const partials = partial_arrays(space, plan, workspace);
    WorkspaceLayout const at = workspace_layout(space, plan);
    constexpr TilePolicy tile = tiles<Shape>().wide;
    TileStream const stream{plan.arrays(), workspace.queue(), plan.shape().kv_heads, tile.key_rows,
                            tiles<Shape>().narrow.key_rows};
    Kokkos::parallel_for("fasttree::tree_attention::partial_attention",
                         typename Kernel::Policy(space, teams(space), TeamSize),
                         Kernel{plan.shape(), tile, stream, queries, cache, results, partials,
                                reinterpret_cast<float*>(workspace.data() + at.scratch()),
                                at.scratch_bytes() / sizeof(float)});
    Kokkos::parallel_for("fasttree::tree_attention::merge_partials",
                         typename Merge::Policy(space, teams(space), TeamSize),
                         Merge{plan.shape(), plan.arrays(), partials, results});
  }
};

}  // namespace fasttree::portable
