// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stage of a ring of queries: each rank begins with those of its heads, the ones that `scatter`
// gives it, and passes on what it gets, until all ranks have all.

#include <cstddef>
#include <cstdint>
#include <span>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/ring_schedule.hpp>
#include <fasttree/core/attention_shape.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/strided_array.hpp>

namespace fasttree {

/// The queries of all ranks, gathered around a ring; of each head those of all requests follow each
/// other.
template <class Space, Communicator Comm, class Shape>
class GatheredQueries {
 public:
  using Stored = typename Shape::element_type;
  using Queries =
      Kokkos::View<Stored***, Kokkos::LayoutStride, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  /// Collective, with the same numbers on all ranks; for up to so many queries.
  GatheredQueries(Space const& space, Comm& communicator, Shape const& shape, int queries)
      : heads_(shape.query_heads), ranks_(communicator.size()), most_(queries) {
    static_assert(runs_on_host<Space>,
                  "fasttree::GatheredQueries: rings are for host spaces alone: use a host space");
    queries_ = Kokkos::View<Stored*, Space>(
        Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "fasttree::pass_q::queries"),
        rows(heads_, queries));
    std::int64_t const most = rows(ceil_div(heads_, ranks_), queries) * sizeof(Stored);
    window_ = communicator.plan({.slots = ranks_ - 1,
                                 .slot_bytes = static_cast<std::size_t>(most),
                                 .sends = ranks_ - 1,
                                 .purpose = purpose});
  }

  int queries() const { return most_; }

  /// Gathers (queries, query_heads, head_dim), of which only the heads of this rank are read.
  /// Fences before it sends, waits for messages no longer than the communicator's deadline, and
  /// enqueues the rest.
  Queries gather(Space const& space, Comm& communicator, StridedArray<Stored const, 3> const& own) {
    int const queries = static_cast<int>(own.extents[0]), rank = communicator.rank();
    Queries const all(queries_.data(), Kokkos::LayoutStride(queries, Shape::head_dim, heads_,
                                                            rows(1, queries), Shape::head_dim, 1));
    Kokkos::parallel_for(
        "fasttree::pass_q::pack",
        Rows(space, first_head(rank) * queries, first_head(rank + 1) * queries),
        KOKKOS_LAMBDA(std::int64_t row) {
          std::int64_t const query = row % queries, head = row / queries;
          for (int i = 0; i < Shape::head_dim; ++i) all(query, head, i) = own(query, head, i);
        });
    communicator.begin(window_);
    for (int i = 0; i < ranks_ - 1; ++i) {
      RingRound const round = ring_round(rank, ranks_, i);
      space.fence();
      communicator.send(window_, round.next, i,
                        std::as_bytes(std::span<Stored const>(begin(round.sent, queries),
                                                              begin(round.sent + 1, queries))));
      Stored* const into = begin(round.received, queries);
      std::int64_t const count = begin(round.received + 1, queries) - into;
      auto const* const arrived = reinterpret_cast<Stored const*>(
          communicator.receive(window_, round.previous, i, count * sizeof(Stored)).data());
      Kokkos::parallel_for(
          "fasttree::pass_q::put", Rows(space, 0, count),
          KOKKOS_LAMBDA(std::int64_t j) { into[j] = arrived[j]; });
    }
    return all;
  }

 private:
  using Rows = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
  static constexpr std::uint64_t purpose = 2u << 16;  ///< no reduction's

  std::int64_t first_head(int rank) const { return std::int64_t{heads_} * rank / ranks_; }
  static std::int64_t rows(std::int64_t heads, std::int64_t queries) {
    return heads * queries * Shape::head_dim;
  }
  Stored* begin(int rank, std::int64_t queries) const {
    return queries_.data() + rows(first_head(rank), queries);
  }

  int heads_ = 0, ranks_ = 1, most_ = 0;
  Kokkos::View<Stored*, Space> queries_;
  typename Comm::Window window_;
};

}  // namespace fasttree
