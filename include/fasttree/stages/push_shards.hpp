// SPDX-License-Identifier: Apache-2.0
#pragma once
// A reduction of one exchange in one kernel: each rank stores its records into the memory of all
// others (comm/pushed_rows.hpp), outputs in 16 bits where that is their payload, and merges each
// row, in the order of the schedule `one_shot`, when those of all ranks are there. The same bits as
// by messages.

#include <cstddef>
#include <cstdint>

#include <fasttree/comm/pushed_rows.hpp>
#include <fasttree/stages/packed_rows.hpp>
#include <fasttree/stages/record_kernels.hpp>

namespace fasttree::detail {

template <class Stored, class Output, LogBase Base>
struct MergePushedRows {
  PushedRows pushed;
  RowInWords<Stored> words;
  std::int64_t rows;
  float const* records;
  ScheduledMerge const* merges;
  int count;
  WriteRecord<Output, Base> write;

  KOKKOS_INLINE_FUNCTION static std::size_t scratch_bytes(PushedRows const& pushed) {
    return sizeof(float) * pushed.ranks * pushed.shape.merged_width;
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    std::uint32_t const epoch = pushed.begin(team);
    if (epoch == 0) return;
    // Of floats they are the same; that the compiler sees it shows in short exchanges.
    int const width = RowInWords<Stored>::packs ? pushed.shape.merged_width : pushed.shape.width;
    // All rows are on their way before the first is waited for.
    pushed.each_row(team, rows, [&](std::int64_t row) {
      float const* const own = records + row * width;
      pushed.send(team, epoch, row, [&](int i) { return words.word(own, i); });
    });
    auto* const of_ranks = static_cast<float*>(
        team.thread_scratch(0).get_shmem(static_cast<std::ptrdiff_t>(scratch_bytes(pushed))));
    auto const at = [&](int place) {
      return of_ranks + (place == ScheduledMerge::own ? pushed.rank : place) * width;
    };
    pushed.each_row(team, rows, [&](std::int64_t row) {
      float* const own = at(ScheduledMerge::own);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, width),
                           [&](int i) { own[i] = words.rounded(records + row * width, i); });
      for (int i = 1; i < pushed.ranks; ++i) {
        int const from = (pushed.rank + i) % pushed.ranks;
        float* const received = at(from);
        pushed.receive(team, epoch, from, row,
                       [&](int i, std::uint32_t word) { words.put(received, i, word); });
      }
      merge_places(team, merges, count, at, width, MergeRecords{});
      write(team, row, own);
    });
    pushed.end(team, epoch);
  }
};

/// Enqueues it: this kernel and nothing else.
template <class Space, class Output, LogBase Base>
void push_shards(Space const& space, PushedRows const& pushed, Payload payload, std::int64_t rows,
                 float const* records, ScheduledMerge const* merges, int count,
                 WriteRecord<Output, Base> const& write) {
  with_stored(payload, [&](auto stored) {
    using Kernel = MergePushedRows<decltype(stored), Output, Base>;
    using Bounds = Kokkos::LaunchBounds<PushedRows::most_threads * PushedRows::lanes, 1>;
    Kokkos::TeamPolicy<Space, Bounds> policy(space, pushed.teams, pushed.threads,
                                             PushedRows::lanes);
    policy.set_scratch_size(0, Kokkos::PerThread(static_cast<int>(Kernel::scratch_bytes(pushed))));
    RowInWords<decltype(stored)> const words{{write.value_dim + 1, write.value_dim}};
    Kokkos::parallel_for("fasttree::push_shards::merge", policy,
                         Kernel{pushed, words, rows, records, merges, count, write});
  });
}

}  // namespace fasttree::detail
