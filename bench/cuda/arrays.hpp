// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arrays of a point on the device: keys, values, queries and outputs one after the other in one
// block of memory, which a kernel that only reads can take as a whole.

#include <cstddef>
#include <cstdint>

#include <fasttree/backend/cuda/error.hpp>
#include <fasttree/core/element.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree::bench {

using Space = Kokkos::Cuda;
inline constexpr int head_dim = 128;

/// Numbers of a fixed sequence, uniform between -1.7 and 1.7: of variance 1, nearly.
__global__ void fill_random(half* to, std::int64_t count, std::uint64_t seed) {
  std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    std::uint64_t bits = (seed << 56) + (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;  // splitmix64
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    to[i] = half(1.7f * (static_cast<float>(bits >> 40) * 0x1p-23f - 1.f));
  }
}

class Arrays {
 public:
  using View =
      Kokkos::View<half***, Kokkos::LayoutRight, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  static constexpr std::size_t alignment = 16384;  // of the block's size; of arrays: 1024

  static std::size_t bytes(std::int64_t slots, int queries, int query_heads, int kv_heads) {
    return Layout(slots, queries, query_heads, kv_heads).bytes;
  }

  /// Allocates and fills; outputs hold nan.
  Arrays(Space const& space, std::int64_t slots, int queries, int query_heads, int kv_heads)
      : layout_(slots, queries, query_heads, kv_heads),
        memory_(Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "bench::arrays"),
                layout_.bytes),
        keys_(at(0), slots, kv_heads, head_dim),
        values_(at(layout_.values), slots, kv_heads, head_dim),
        queries_(at(layout_.queries), queries, query_heads, head_dim),
        outputs_(at(layout_.outputs), queries, query_heads, head_dim) {
    poison_outputs(space);
    std::uint64_t seed = 0;
    for (View const& view : {keys_, values_, queries_}) {
      fill_random<<<2048, 256, 0, space.cuda_stream()>>>(
          view.data(), static_cast<std::int64_t>(view.size()), ++seed);
      cuda::check(cudaGetLastError(), "bench::Arrays", "fill_random");
    }
  }

  void poison_outputs(Space const& space) const {
    cuda::check(
        cudaMemsetAsync(outputs_.data(), 0xff, outputs_.size() * sizeof(half), space.cuda_stream()),
        "bench::Arrays", "cudaMemsetAsync");
  }

  std::byte const* data() const { return memory_.data(); }
  std::size_t bytes() const { return layout_.bytes; }
  View const& keys() const { return keys_; }
  View const& values() const { return values_; }
  View const& queries() const { return queries_; }
  View const& outputs() const { return outputs_; }

 private:
  /// Where the arrays begin, and the bytes of all.
  struct Layout {
    std::size_t values, queries, outputs, bytes;

    Layout(std::int64_t slots, int query_rows, int query_heads, int kv_heads) {
      constexpr std::size_t row = head_dim * sizeof(half);
      auto const array = [](std::size_t rows) { return round_up<std::size_t>(rows * row, 1024); };
      std::size_t const cache = array(static_cast<std::size_t>(slots) * kv_heads);
      std::size_t const other = array(static_cast<std::size_t>(query_rows) * query_heads);
      values = cache;
      queries = 2 * cache;
      outputs = queries + other;
      bytes = round_up<std::size_t>(outputs + other, alignment);
    }
  };

  half* at(std::size_t offset) const { return reinterpret_cast<half*>(memory_.data() + offset); }

  Layout layout_;
  Kokkos::View<std::byte*, Space> memory_;
  View keys_, values_, queries_, outputs_;
};

}  // namespace fasttree::bench
