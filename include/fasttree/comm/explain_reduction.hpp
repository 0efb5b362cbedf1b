// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why ranks merge as they do: the price of every algorithm, as `cheapest` sees them.

#include <cstdio>
#include <string>

#include <fasttree/comm/reduction_algorithm.hpp>
#include <fasttree/comm/ring_schedule.hpp>

namespace fasttree {

namespace detail {

template <class... Values>
void append_text(std::string& text, char const* format, Values... values) {
  char line[200];
  std::snprintf(line, sizeof(line), format, values...);
  text += line;
}

inline void append_price(std::string& text, char const* name, Topology const& topology,
                         Traffic const& moved, double price, char const* mark = "") {
  append_text(text, "%-20s%8lld%12.1f%14.0f%12.1f%s\n", name, static_cast<long long>(moved.rounds),
              static_cast<double>(moved.messages) / topology.ranks,
              static_cast<double>(moved.bytes) / topology.ranks, price, mark);
}

}  // namespace detail

/// A table: rounds, messages and bytes that a rank sends on average, and microseconds; the cheapest
/// of those that leave the result on all ranks is marked.
inline std::string explain_reduction(Topology const& topology, ReductionSize size) {
  std::string text;
  detail::append_text(text, "%d ranks in %d nodes merge %lld rows of %d floats\n", topology.ranks,
                      topology.nodes(), static_cast<long long>(size.rows), size.record_floats());
  detail::append_text(text, "%-20s%8s%12s%14s%12s\n", "", "rounds", "messages", "bytes", "us");
  ReductionAlgorithm const best = cheapest(topology, size);
  auto const line = [&](ReductionAlgorithm algorithm) {
    detail::append_price(text, name(algorithm), topology,
                         traffic(algorithm, topology.ranks, size, topology.ranks_per_node),
                         price(algorithm, topology, size), algorithm == best ? "  cheapest" : "");
  };
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms) line(algorithm);
  line(ReductionAlgorithm::scatter);
  line(ReductionAlgorithm::on_rank_0);
  return text;
}

/// The same, and below it rings of K,V and of queries, as ring_attention.hpp has them; without the
/// time of attention, of which a rank has that to all keys in a ring of K,V.
inline std::string explain_reduction(Topology const& topology, ReductionSize size,
                                     RingSize const& rings) {
  std::string text = explain_reduction(topology, size);
  auto const line = [&](char const* name, Traffic const& moved) {
    detail::append_price(text, name, topology, moved, price(moved, topology));
  };
  line("pass_kv", pass_kv_traffic(topology.ranks, rings));
  line("pass_q", pass_q_traffic(topology.ranks, rings, size));
  return text;
}

}  // namespace fasttree
