// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of floats as they are sent with a payload of 16 bits: outputs first, two in the place of a
// float, then what stays a float. Rows take the rounded outputs before they are merged anywhere, so
// that all ranks merge the same; sums and merges are those of floats.

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <fasttree/comm/reduction_schedule.hpp>
#include <fasttree/core/element.hpp>
#include <fasttree/stages/record_kernels.hpp>

namespace fasttree::detail {

/// Of each row so many floats, of which the first are outputs; how many there are in a packed row.
struct PackedShape {
  int width = 0, outputs = 0;

  KOKKOS_INLINE_FUNCTION constexpr int packed_outputs() const { return (outputs + 1) / 2; }
  KOKKOS_INLINE_FUNCTION constexpr int packed_width() const {
    return packed_outputs() + width - outputs;
  }
};

/// A row of floats, the outputs in 16 bits or (Stored = float) as they are, in words: cells that are
/// pushed.
template <class Stored>
struct RowInWords {
  PackedShape shape;

  static constexpr bool packs = sizeof(Stored) == 2;

  KOKKOS_INLINE_FUNCTION constexpr int width() const {
    return packs ? shape.packed_width() : shape.width;
  }

  KOKKOS_INLINE_FUNCTION std::uint32_t word(float const* row, int i) const {
    if constexpr (packs) {
      int const first = 2 * i, floats_from = shape.packed_outputs();
      if (i < floats_from) {
        std::uint32_t const second =
            first + 1 < shape.outputs ? Stored(row[first + 1]).bits : std::uint32_t{0};
        return second << 16 | Stored(row[first]).bits;
      }
      i += shape.outputs - floats_from;
    }
    return std::bit_cast<std::uint32_t>(row[i]);
  }

  KOKKOS_INLINE_FUNCTION void put(float* row, int i, std::uint32_t word) const {
    if constexpr (packs) {
      int const first = 2 * i, floats_from = shape.packed_outputs();
      if (i < floats_from) {
        row[first] = output_of(word);
        if (first + 1 < shape.outputs) row[first + 1] = output_of(word >> 16);
        return;
      }
      i += shape.outputs - floats_from;
    }
    row[i] = std::bit_cast<float>(word);
  }

  /// Float i of a row, as all ranks merge it.
  KOKKOS_INLINE_FUNCTION float rounded(float const* row, int i) const {
    return packs && i < shape.outputs ? static_cast<float>(Stored(row[i])) : row[i];
  }

 private:
  KOKKOS_INLINE_FUNCTION static float output_of(std::uint32_t word) {
    Stored stored;
    stored.bits = static_cast<std::uint16_t>(word);
    return static_cast<float>(stored);
  }
};

/// Calls body(Stored()) of the type in which outputs are sent.
template <class Body>
void with_stored(Payload payload, Body const& body) {
  switch (payload) {
    case Payload::fp32:
      return body(float());
    case Payload::fp16:
      return body(half());
    case Payload::bf16:
      return body(bfloat16());
  }
}

/// Rounds the outputs of rows to 16 bits, and packs the rows.
template <class Stored>
struct PackRows {
  PackedShape shape;
  float *rows, *packed;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    float* const from = rows + row * shape.width;
    float* const to = packed + row * shape.packed_width();
    auto* const outputs = reinterpret_cast<Stored*>(to);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, shape.outputs), [&](int i) {
      outputs[i] = Stored(from[i]);
      from[i] = static_cast<float>(outputs[i]);
    });
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, shape.width - shape.outputs),
                         [&](int i) { to[shape.packed_outputs() + i] = from[shape.outputs + i]; });
  }
};

template <class Stored>
struct UnpackRows {
  PackedShape shape;
  float const* packed;
  float* rows;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    float const* const from = packed + row * shape.packed_width();
    float* const to = rows + row * shape.width;
    auto const* const outputs = reinterpret_cast<Stored const*>(from);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, shape.outputs),
                         [&](int i) { to[i] = static_cast<float>(outputs[i]); });
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, shape.width - shape.outputs),
                         [&](int i) { to[shape.outputs + i] = from[shape.packed_outputs() + i]; });
  }
};

/// Packed rows beside a rank's own, and what arrives, unpacked: slots of rows of floats.
template <class Space>
class PackedRows {
 public:
  PackedRows() = default;  ///< for a payload of floats
  PackedRows(Space const& space, Payload payload, PackedShape const& shape, std::int64_t rows,
             int slots, std::int64_t slot_rows)
      : payload_(payload), shape_(shape), slot_floats_(slot_rows * shape.width) {
    using Kokkos::view_alloc;
    using Kokkos::WithoutInitializing;
    packed_ = Kokkos::View<float*, Space>(
        view_alloc(space, WithoutInitializing, "fasttree::reduce_shards::packed"),
        rows * shape.packed_width());
    unpacked_ = Kokkos::View<float*, Space>(
        view_alloc(space, WithoutInitializing, "fasttree::reduce_shards::unpacked"),
        slots * slot_floats_);
    std::vector<SlotRows> rows_of_slots;
    for (int i = 0; i < slots; ++i) rows_of_slots.push_back({slot(i)});
    slots_ = uploaded(space, "fasttree::reduce_shards::unpacked_slots", rows_of_slots);
  }

  bool are_used() const { return payload_ != Payload::fp32; }
  int width() const { return shape_.packed_width(); }
  float* data() const { return packed_.data(); }
  float* slot(int i) const { return unpacked_.data() + i * slot_floats_; }
  SlotRows const* slots() const { return slots_.data(); }  ///< where kernels read them

  /// Packs those of the rank's own rows that it sends in a round, or merges.
  void pack(Space const& space, ScheduledRound const& round, ReductionSchedule const& schedule,
            ReducedRows const& rows, float* own) const {
    int last = -1;
    auto const pack_part = [&](int part) {
      if (std::exchange(last, part) == part) return;
      RowRange const range = schedule.part(part, rows);
      with_stored(payload_, [&](auto stored) {
        if constexpr (sizeof(stored) == 2)
          for_each_row("fasttree::reduce_shards::pack", space, range,
                       PackRows<decltype(stored)>{shape_, own, packed_.data()});
      });
    };
    for (ScheduledMessage const& to : round.sends) pack_part(to.part);
    if (!round.merges.empty()) pack_part(round.receives[0].part);
  }

  void unpack(Space const& space, float const* packed, float* into, std::int64_t rows) const {
    with_stored(payload_, [&](auto stored) {
      if constexpr (sizeof(stored) == 2)
        for_each_row("fasttree::reduce_shards::unpack", space, {0, rows},
                     UnpackRows<decltype(stored)>{shape_, packed, into});
    });
  }

 private:
  Payload payload_ = Payload::fp32;
  PackedShape shape_;
  std::int64_t slot_floats_ = 0;
  Kokkos::View<float*, Space> packed_, unpacked_;
  Kokkos::View<SlotRows*, Space> slots_;
};

}  // namespace fasttree::detail
