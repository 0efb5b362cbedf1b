// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call of tree_attention whose array types the sources beside this file choose.

#include <fasttree/tree_attention.hpp>

using Space = Kokkos::DefaultHostExecutionSpace;
using Shape = fasttree::AttentionShape<fasttree::half, 64>;

template <class Queries, class CacheElement, class Output, class LogSumExps>
void call(Space const& space, Queries const& queries,
          Kokkos::View<CacheElement***, Space> const& keys, Output const& output,
          LogSumExps const& log_sum_exps) {
  auto const plan = fasttree::make_plan(space, fasttree::PrefixTree({}, {}, {}), Shape{});
  auto const cache = fasttree::make_contiguous_cache(space, keys, keys);
  auto const workspace = fasttree::make_workspace(space, plan);
  fasttree::tree_attention(space, plan, queries, cache, output, log_sum_exps, workspace);
}

template <class T>
using Rows = Kokkos::View<T***, Space>;
template <class T>
using Sums = Kokkos::View<T**, Space>;
