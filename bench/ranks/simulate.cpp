// SPDX-License-Identifier: Apache-2.0
// The simulator for scripts: reads lines of
//     ALGORITHM RANKS RANKS_PER_NODE ROWS VALUE_DIM KV_BYTES QUERY_BYTES MESSAGES_PER_SHARD
//     ATTENTION_US (LATENCY_US BYTES_PER_US MESSAGE_US, within nodes and between them)
//     ONE_LINK_PER_NODE
// and writes for each the microseconds that a step takes: attention to the rank's own keys, and
// what simulate_reduction or the simulation of a ring adds to it.

#include <fasttree/comm/simulate_reduction.hpp>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

using namespace fasttree;

struct Asked {
  std::string algorithm;
  Topology topology;
  ReductionSize results;
  RingSize rings;
  double attention = 0;
};

std::istream& operator>>(std::istream& in, LinkCosts& link) {
  return in >> link.latency >> link.rate >> link.message;
}

std::istream& operator>>(std::istream& in, Asked& asked) {
  return in >> asked.algorithm >> asked.topology.ranks >> asked.topology.ranks_per_node >>
         asked.results.rows >> asked.results.value_dim >> asked.rings.kv_bytes >>
         asked.rings.query_bytes >> asked.rings.messages_per_shard >> asked.attention >>
         asked.topology.within >> asked.topology.between >> asked.topology.one_link_per_node;
}

double simulated(Asked const& asked) {
  if (asked.algorithm == "attention") return asked.attention;
  if (asked.algorithm == "pass_kv")
    return simulate_pass_kv(asked.topology, asked.rings, asked.attention).time;
  if (asked.algorithm == "pass_q")
    return simulate_pass_q(asked.topology, asked.rings, asked.results, asked.attention).time;
  for (ReductionAlgorithm const algorithm : all_reduction_algorithms)
    if (asked.algorithm == name(algorithm))
      return asked.attention + simulate_reduction(algorithm, asked.topology, asked.results).time;
  throw std::invalid_argument(asked.algorithm + ": no algorithm");
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      Asked asked;
      std::istringstream stream(line);
      if (!(stream >> asked)) throw std::invalid_argument("not a whole line: " + line);
      std::printf("%.9g\n", simulated(asked));
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_simulate: %s\n", error.what());
    return 1;
  }
}
