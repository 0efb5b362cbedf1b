// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of 32-bit words that kernels store into the memory of all other ranks, where they can reach it,
// and that kernels there wait for: no message, no handshake, no host. A word travels in a cell of 8
// bytes, which arrive at once, together with the number of the exchange, its epoch. There is a set
// of cells for even epochs and one for odd ones: a rank that is one exchange ahead of another
// cannot be two ahead. Epochs are counted in memory of the device, so that a graph can be replayed.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// Rows that each rank sends to all others, and the words of each; the floats that a row is where
/// it is merged; and any number on which ranks have to agree as well.
struct PushShape {
  std::int64_t rows = 0;
  int width = 0;
  int merged_width = width;
  std::uint64_t purpose = 0;
};

/// What kernels see of it. A kernel has `teams` teams of `threads` threads, however many rows there
/// are in a call, and each thread has rows of its own: the same on all ranks.
struct PushedRows {
  static constexpr int most_ranks = 8;
  static constexpr int lanes = 32;         ///< of a thread's vector
  static constexpr int most_threads = 32;  ///< of a team
  static constexpr std::uint32_t last_epoch = ~0u;

  PushShape shape;
  int rank = 0, ranks = 1, teams = 0, threads = 0;
  std::uint64_t deadline = 0;             ///< ns
  std::uint64_t* cells[most_ranks] = {};  ///< of each rank
  std::uint32_t* epochs = nullptr;        ///< of each team
  int* failed = nullptr;                  ///< on the device: nothing waits any more
  int* missing = nullptr;  ///< on the host: 0, or 1 + the rank that was late, or -1: give up

  /// Cells from one row to the next: rows begin with a line of 128 bytes.
  static KOKKOS_INLINE_FUNCTION constexpr int stride(PushShape const& shape) {
    return round_up(shape.width, 16);
  }
  static constexpr std::int64_t cells_of(PushShape const& shape, int ranks) {
    return 2 * ranks * shape.rows * stride(shape);
  }

  /// The number of this exchange; 0: nothing is to be done, since one has failed.
  template <class Team>
  KOKKOS_INLINE_FUNCTION std::uint32_t begin(Team const& team) const {
    std::uint32_t const epoch = epochs[team.league_rank()];
    return *failed == 0 ? epoch : 0;
  }

  /// Calls body(row) for those of `count` rows that are the thread's.
  template <class Team, class Body>
  KOKKOS_INLINE_FUNCTION void each_row(Team const& team, std::int64_t count,
                                       Body const& body) const {
    for (std::int64_t row = team.league_rank() + std::int64_t{team.team_rank()} * teams;
         row < count; row += std::int64_t{teams} * threads)
      body(row);
  }

  /// Stores a row, whose words are word(i), into the memory of all others.
  template <class Team, class Word>
  KOKKOS_INLINE_FUNCTION void send(Team const& team, std::uint32_t epoch, std::int64_t row,
                                   Word const& word) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, lanes), [&](int lane) {
      for (int first = lane; first < shape.width; first += batch * lanes) {
        std::uint64_t leaving[batch];
        FASTTREE_UNROLL
        for (int k = 0; k < batch; ++k)
          if (first + k * lanes < shape.width)
            leaving[k] = std::uint64_t{epoch} << 32 | word(first + k * lanes);
        for (int other = 1; other < ranks; ++other) {
          auto* const to = volatile_cells((rank + other) % ranks, epoch, rank, row);
          FASTTREE_UNROLL
          for (int k = 0; k < batch; ++k)
            if (first + k * lanes < shape.width) to[first + k * lanes] = leaving[k];
        }
      }
    });
  }

  /// Waits for the row of a rank, and calls put(i, word) for each of its words; after a failure for
  /// none.
  template <class Team, class Put>
  KOKKOS_INLINE_FUNCTION void receive(Team const& team, std::uint32_t epoch, int from,
                                      std::int64_t row, Put const& put) const {
    auto const* const arriving = volatile_cells(rank, epoch, from, row);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, lanes), [&](int lane) {
      Patience patience;
      for (int first = lane; first < shape.width; first += batch * lanes) {
        std::uint64_t got[batch];
        bool complete = false;
        while (!complete && !patience.ends(*this, from)) {
          complete = true;
          FASTTREE_UNROLL
          for (int k = 0; k < batch; ++k)
            if (first + k * lanes < shape.width) got[k] = arriving[first + k * lanes];
          FASTTREE_UNROLL
          for (int k = 0; k < batch; ++k)
            if (first + k * lanes < shape.width)
              complete = complete && static_cast<std::uint32_t>(got[k] >> 32) == epoch;
        }
        FASTTREE_UNROLL
        for (int k = 0; k < batch; ++k)
          if (complete && first + k * lanes < shape.width)
            put(first + k * lanes, static_cast<std::uint32_t>(got[k]));
      }
    });
  }

  /// Ends the exchange. The last two epochs before they begin anew leave no cell behind that could
  /// be taken for one of a later exchange.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void end(Team const& team, std::uint32_t epoch) const {
    if (epoch >= last_epoch - 1)
      each_row(team, shape.rows, [&](std::int64_t row) {
        for (int from = 0; from < ranks; ++from)
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, shape.width),
                               [&](int i) { volatile_cells(rank, epoch, from, row)[i] = 0; });
      });
    team.team_barrier();  // all threads have read it
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      // As even as 0, which would follow.
      epochs[team.league_rank()] = epoch == last_epoch ? 2 : epoch + 1;
    });
  }

 private:
  static constexpr int batch = 5;  ///< loads of a lane under way: 128 words and one more

  /// For how long a lane has waited. Looks at the clock and at the host now and then.
  struct Patience {
    unsigned looks = 0;
    std::uint64_t begin = 0;

    KOKKOS_INLINE_FUNCTION bool ends(PushedRows const& rows, int from) {
      if (++looks % 1024 != 0) return false;
      std::uint64_t const now = device_nanoseconds();
      if (begin == 0) begin = now;
      int volatile& missing = *rows.missing;
      if (now - begin < rows.deadline && missing == 0) return false;
      if (missing == 0) missing = 1 + from;
      *rows.failed = 1;
      looks = 1023;  // the next time too
      return true;
    }
  };

  /// The cells of a row in the memory of `of` that `from` stores into.
  KOKKOS_INLINE_FUNCTION std::uint64_t volatile* volatile_cells(int of, std::uint32_t epoch,
                                                                int from, std::int64_t row) const {
    return cells[of] + ((epoch % 2 * ranks + from) * shape.rows + row) * stride(shape);
  }
};

/// The memory of an exchange by stores.
struct PushWindow {
  PushedRows rows;
  std::shared_ptr<void> memory;  ///< null where there is none
};

/// A communicator on `Space` where kernels may reach the memory of other ranks.
///
///  - reaches_all(): whether those of all other ranks, and there are no more than most_ranks; the
///    same on all ranks.
///  - plan_push(shape): collective; allocates and registers memory, all of whose cells are empty.
///  - begin(window): throws where an exchange has failed.
template <class Candidate, class Space>
concept PushingCommunicator = CommunicatorOn<Candidate, Space> &&
    requires(Candidate& communicator, Candidate const& asked, PushShape const& shape,
             PushWindow& window) {
  { asked.reaches_all() } -> std::same_as<bool>;
  { communicator.plan_push(shape) } -> std::same_as<PushWindow>;
  communicator.begin(window);
};

}  // namespace fasttree
