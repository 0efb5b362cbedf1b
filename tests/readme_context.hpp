// SPDX-License-Identifier: Apache-2.0
// Not a header: the beginning of the function around each fragment of README.md (readme.cmake). It
// declares the names that the README's first program has introduced, and a communicator.
using Array = Kokkos::View<float***, Kokkos::LayoutRight>;
Kokkos::DefaultExecutionSpace const space;
fasttree::PrefixTree const tree({}, {}, {});
fasttree::AttentionShape<float, 128> const shape{.query_heads = 32, .kv_heads = 8};
Array const queries, keys, values, output;
auto const cache = fasttree::make_contiguous_cache(space, keys, values);
fasttree::SelfCommunicator communicator;
