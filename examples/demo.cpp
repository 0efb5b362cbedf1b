// SPDX-License-Identifier: Apache-2.0
// fasttree-demo: one decode step of a tree file or of a file of prompts. See --help, or demo/options.hpp.

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "demo/decode_step.hpp"
#include "demo/options.hpp"
#include "demo/workload.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::examples;

template <class Shape>
bool decode_by_planner(Workload const& workload, Shape const& shape, Options const& options) {
  if (options.planner == "none")
    return DecodeStep<Shape, NoSharing>(workload, shape, options).run();
  if (options.planner == "every-node")
    return DecodeStep<Shape, ShareEveryNode>(workload, shape, options).run();
  if (options.planner == "greedy")
    return DecodeStep<Shape, GreedyEdges<>>(workload, shape, options).run();
  return DecodeStep<Shape, DefaultPlanner>(workload, shape, options).run();
}

template <Element E>
bool decode(Workload const& workload, Options const& options) {
  AttentionShape<E, 128> const shape{.query_heads = options.query_heads,
                                     .kv_heads = options.kv_heads};
  return decode_by_planner(workload, shape, options);
}

bool decode(Options const& options) {
  Workload const workload = read_workload(options.file, options.format);
  if (options.element == "float") return decode<float>(workload, options);
  if (options.element == "bfloat16") return decode<bfloat16>(workload, options);
  return decode<half>(workload, options);
}

int run(std::vector<std::string> const& words) {
  Options const options = OptionReader(words).read();
  if (options.help) {
    std::fputs(usage, stdout);
    return 0;
  }
  // Kokkos has a --help of its own, so it sees none of ours; its advice on binding threads is left out.
  char name[] = "fasttree-demo", quiet[] = "--kokkos-disable-warnings";
  char* for_kokkos[] = {name, quiet, nullptr};
  int count = 2;
  Kokkos::ScopeGuard const kokkos(count, for_kokkos);
  bool const right = decode(options);
  if (std::fflush(stdout) != 0) throw Error("standard output: cannot be written");
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (std::bad_alloc const&) {
    std::fprintf(stderr, "fasttree-demo: not enough memory\n");
  } catch (std::exception const& error) {
    std::string const text = error.what();
    std::fprintf(stderr, "fasttree-demo: %s\n", text.substr(0, text.find('\n')).c_str());
  }
  return 2;
}
