// SPDX-License-Identifier: Apache-2.0
#pragma once
// The key ranges of a task, sorted by who sees them: first those that rows of several warps see,
// then those of each warp's rows alone. Keys are numbered through in this order, so that a thread
// finds the key of a place in a tile by its number.

#include <cstdint>

#include <fasttree/backend/cuda/sm80/tile_records.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/plan/work_item.hpp>

namespace fasttree::cuda::sm80 {

/// A table in shared memory, filled by the threads of one warp together, read by any.
template <int Warps>
class KeyTable {
 public:
  static constexpr int places = 32 * Warps;
  static constexpr int capacity = places - 1;  ///< ranges, so that a byte can say how many
  static constexpr int several = 0;  ///< the stream of keys that rows of several warps see
  __device__ static constexpr int of_warp(int warp) { return 1 + warp; }

  struct Range {
    long long slot;
    int position;
    int rows;  ///< that attend to it: the first, and 256 times the one behind the last
  };

  struct Memory {
    int begins[places + 1];  ///< number of a range's first key; then that of all keys
    int count;               ///< ranges
    std::uint64_t firsts;    ///< a byte for each warp: the first range of its stream
    Range ranges[places];
  };

  struct Key {
    long long slot;
    int position, rows;
    int range;  ///< where it was found
  };

  __device__ explicit KeyTable(Memory& memory) : memory_(memory) {}

  /// Takes ranges from `begin` on, as many as fit; `rows_of(range)` as in `Range`.
  template <class RowsOf>
  __device__ void fill(KeyRange const* ranges, int begin, int end, RowsOf const& rows_of) {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    end = min(end, begin + capacity);
    auto const range_at = [&](int at) { return at < end ? ranges[at] : KeyRange{}; };
    KeyRange range;
    int rows, stream;
    auto const look_at = [&](int from) {
      range = range_at(from + lane);
      rows = rows_of(range);
      stream = stream_of(range, rows);
    };
    // How many there are of each stream: from the last on, so that the first are at hand then.
    int of_several = 0;
    std::uint64_t of_warps = 0;  // a byte for each
#pragma unroll 1
    for (int from = begin + (end - 1 - begin) / 32 * 32; from >= begin; from -= 32) {
      look_at(from);
      of_several += __popc(__ballot_sync(all, stream == several));
      of_warps += count_of_warps(stream);
    }
    // Where the next range of each stream goes; of warps as bytes.
    constexpr std::uint64_t bytes = 0x0101010101010101u;
    int const count = of_several + static_cast<int>(of_warps * bytes >> 56);
    int next_several = 0;
    std::uint64_t next = of_warps * (bytes << 8) + of_several * bytes;
    if (lane == 0) memory_.count = count, memory_.firsts = next;
#pragma unroll 1
    for (int from = begin; from < end; from += 32) {
      if (from > begin) look_at(from);
      unsigned const before = __match_any_sync(all, stream) & ((1u << lane) - 1);
      if (stream != none) {
        int const to = __popc(before) + (stream == several ? next_several : of_byte(next, stream));
        memory_.ranges[to] = {range.slot_begin, range.position, rows};
        memory_.begins[to] = range.length;
      }
      if (from + 32 >= end) break;
      next_several += __popc(__ballot_sync(all, stream == several));
      next += count_of_warps(stream);
    }
    __syncwarp();
    number_keys(lane, count);
  }

  /// To be called before the following by those who read the table, when it has been filled.
  __device__ void read_bounds() {
    count_ = memory_.count;
    firsts_ = memory_.firsts;
  }

  /// The number of a stream's first key; of the stream behind the last, that of all keys.
  __device__ int begin(int stream) const {
    if (stream == several) return 0;
    return memory_.begins[stream > of_warp(Warps - 1) ? count_ : of_byte(firsts_, stream)];
  }

  /// The key of a number; found soonest in range `near` or the next.
  __device__ Key find(int number, int near) const {
    int range = near + (memory_.begins[near + 1] <= number ? 1 : 0);
    bool const is_near = memory_.begins[range] <= number && number < memory_.begins[range + 1];
    if (!__all_sync(all, is_near)) {
      range = 0;
      FASTTREE_UNROLL
      for (int step = places / 2; step > 0; step /= 2)
        if (memory_.begins[range + step] <= number) range += step;
    }
    int const offset = number - memory_.begins[range];
    Range const found = memory_.ranges[range];
    return {found.slot + offset, found.position + offset, found.rows, min(range, places - 2)};
  }

 private:
  static constexpr unsigned all = 0xffffffffu;
  static constexpr int none = -1;

  __device__ static int of_byte(std::uint64_t bytes, int stream) {
    return static_cast<int>(bytes >> 8 * (stream - of_warp(0)) & 0xff);
  }

  __device__ static int stream_of(KeyRange const& range, int rows) {
    int const begin = rows & 0xff, end = rows >> 8;
    if (range.length <= 0 || begin >= end) return none;
    int const first = begin / warp_rows, last = (end - 1) / warp_rows;
    return first == last ? of_warp(first) : several;
  }

  /// Threads whose stream is that of a warp: a byte for each warp.
  __device__ static std::uint64_t count_of_warps(int stream) {
    std::uint64_t count = 0;
    FASTTREE_UNROLL
    for (int from = 0; from < Warps; from += 4) {
      int const byte = stream - of_warp(from);
      count |= std::uint64_t{__reduce_add_sync(all, byte >= 0 && byte < 4 ? 1u << 8 * byte : 0u)}
               << 8 * from;
    }
    return count;
  }

  /// Turns the lengths of ranges into the numbers of their first keys.
  __device__ void number_keys(int lane, int count) {
    int begin = 0;  // of the next 32 ranges
    int range = lane;
#pragma unroll 1
    for (; range - lane <= count; range += 32) {
      int const length = range < count ? memory_.begins[range] : 0;
      int end = length;
      for (int step = 1; step < 32; step *= 2) {
        int const before = __shfl_up_sync(all, end, step);
        if (lane >= step) end += before;
      }
      memory_.begins[range] = range <= count ? begin + end - length : 0x7fffffff;
      begin += __shfl_sync(all, end, 31);
    }
    for (; range < places; range += 32) memory_.begins[range] = 0x7fffffff;
    if (lane == 0) memory_.begins[places] = begin;
    __syncwarp();
  }

  Memory& memory_;
  int count_ = 0;             ///< ranges
  std::uint64_t firsts_ = 0;  ///< a byte for each warp: its first range
};

}  // namespace fasttree::cuda::sm80
