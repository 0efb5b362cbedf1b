// SPDX-License-Identifier: Apache-2.0
// Not a header: the beginning of the function around each fragment of README.md for nvcc
// (readme.cmake). It declares what a program has: a stream, heads, a tree, and memory of the device.
using fasttree::half;
fasttree::AttentionShape<half, 128> const shape{.query_heads = 32, .kv_heads = 8};
fasttree::PrefixTree const tree({}, {}, {});
cudaStream_t const on = nullptr;
half const *const queries = nullptr, *const keys = nullptr, *const values = nullptr;
half* const output = nullptr;
int const* const row_of_slot = nullptr;
int const rows = 0;
void* const memory = nullptr;
std::size_t const bytes = 0;
