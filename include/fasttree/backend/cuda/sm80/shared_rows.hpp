// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows that several warps have, each of some of the keys. What they have of them is added up
// through shared memory and divided among them, half by half: each sends one half of its rows, then
// of their columns, to another warp, and adds what it receives to the half that it keeps.

#include <fasttree/backend/cuda/sm80/query_rows.hpp>
#include <fasttree/backend/cuda/sm80/result_rows.hpp>
#include <fasttree/backend/cuda/sm80/tiles.hpp>

namespace fasttree::cuda::sm80 {

/// `Memory`: the SharedMemory of the block, all of whose multiplying warps call the same.
template <class Shape, int Warps, class Memory>
class SharedRows {
 public:
  using Rows = QueryRows<Shape, Warps>;

  /// `row_warps`: of the task, fewer than all warps.
  __device__ SharedRows(Memory& memory, int row_warps, Rows& rows)
      : memory_(memory), row_warps_(row_warps), rows_(rows) {}

  /// Adds up; `own`: the warp's 16 rows, of which it is left some.
  __device__ OwnResults add_up(OwnResults own) const {
    merge_sums();
    halve_rows(own);
    halve_columns<all_blocks, Warps / 4>(own);
    return own;
  }

 private:
  static constexpr int all_blocks = Shape::value_dim / 8;
  static constexpr unsigned all = 0xffffffffu;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static void wait() { barrier<1, Block<Warps>::multiply_threads>(); }

  /// Gives every warp the maxima and sums of its rows over all keys, and scales its outputs to
  /// them.
  __device__ void merge_sums() const {
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x)
      if (lane() % 4 == 0)
        memory_.sums[warp()][lane() / 4 + 8 * x] = make_float2(rows_.maximum[x], rows_.sum[x]);
    wait();
    float factor[2];
    FASTTREE_UNROLL
    for (int x = 0; x < 2; ++x) {
      // The four threads of a row look at different warps.
      constexpr int looks = Warps / 4;
      float2 part[looks];
      float top = -detail::infinity, sum = 0.f;
      FASTTREE_UNROLL
      for (int i = 0; i < looks; ++i) {
        int const w = lane() % 4 + 4 * i;
        bool const has_row = ((w ^ warp()) & (row_warps_ - 1)) == 0;
        part[i] = has_row ? memory_.sums[w][lane() / 4 + 8 * x] : make_float2(-detail::infinity, 0);
        top = fmaxf(top, part[i].x);
      }
      top = fmaxf(top, __shfl_xor_sync(all, top, 1));
      top = fmaxf(top, __shfl_xor_sync(all, top, 2));
      float const base = top == -detail::infinity ? 0.f : top * rows_.scale;
      FASTTREE_UNROLL
      for (int i = 0; i < looks; ++i)
        sum += exp2_approximate(part[i].x * rows_.scale - base) * part[i].y;
      sum += __shfl_xor_sync(all, sum, 1);
      sum += __shfl_xor_sync(all, sum, 2);
      factor[x] = exp2_approximate(rows_.maximum[x] * rows_.scale - base);
      rows_.maximum[x] = top;
      rows_.sum[x] = sum;
    }
    rows_.scale_outputs(factor);
  }

  /// Keeps the first eight rows, or in the upper half of the warps the others, which take their
  /// place.
  __device__ void halve_rows(OwnResults& own) const {
    bool const upper = (warp() & Warps / 2) != 0;
    constexpr int at_once = all_blocks / 2;
    FASTTREE_UNROLL
    for (int from = 0; from < all_blocks; from += at_once)
      exchange<at_once, Warps / 2>(
          [&](int i) { return upper ? pair(from + i, 0) : pair(from + i, 1); },
          [&](int i, float2 more) {
            float2 const kept = upper ? pair(from + i, 1) : pair(from + i, 0);
            put(from + i, kept, more);
          });
    if (upper) {
      rows_.maximum[0] = rows_.maximum[1];
      rows_.sum[0] = rows_.sum[1];
      own.row += 8;
    }
  }

  /// Keeps half of the first `Have` blocks of columns, and half of these, as long as warps `Half`
  /// apart have the same.
  template <int Have, int Half>
  __device__ void halve_columns(OwnResults& own) const {
    if constexpr (Half > 0) {
      if (Half < row_warps_) return;
      constexpr int kept = Have / 2;
      bool const upper = (warp() & Half) != 0;
      exchange<kept, Half>(
          [&](int i) { return upper ? pair(i, 0) : pair(kept + i, 0); },
          [&](int i, float2 more) { put(i, upper ? pair(kept + i, 0) : pair(i, 0), more); });
      if (upper) own.first_block += kept;
      own.blocks = kept;
      halve_columns<kept, Half / 2>(own);
    }
  }

  /// Sends `Pairs` pairs of each thread to the warp `Half` on or back, and receives as many.
  template <int Pairs, int Half, class Sent, class Receive>
  __device__ void exchange(Sent const& sent, Receive const& receive) const {
    float2* const own = memory_.pairs_of(warp()) + lane();
    float2 const* const other = memory_.pairs_of(warp() ^ Half) + lane();
    FASTTREE_UNROLL
    for (int i = 0; i < Pairs; ++i) own[32 * i] = sent(i);
    wait();
    FASTTREE_UNROLL
    for (int i = 0; i < Pairs; ++i) receive(i, other[32 * i]);
    wait();
  }

  __device__ float2 pair(int block, int x) const {
    return make_float2(rows_.output[block][2 * x], rows_.output[block][2 * x + 1]);
  }
  __device__ void put(int block, float2 kept, float2 more) const {
    rows_.output[block][0] = kept.x + more.x;
    rows_.output[block][1] = kept.y + more.y;
  }

  Memory& memory_;
  int const row_warps_;
  Rows& rows_;
};

}  // namespace fasttree::cuda::sm80
