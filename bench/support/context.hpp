// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a results file says about the machine and the build, beside what Google Benchmark says itself.

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

#include <fasttree/core/lanes.hpp>
#include <fasttree/version.hpp>
#include "anchors.hpp"
#include "shrink.hpp"

namespace fasttree::bench {

/// What follows `key` on its line of a file.
inline std::string line_of(char const* file, std::string const& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(key)) {
      auto const begin = line.find_first_not_of(" \t:", key.size());
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "unknown";
}

/// Call before the benchmarks run, inside Kokkos.
inline void add_context() {
  auto const version = [](int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  benchmark::AddCustomContext("cpu", line_of("/proc/cpuinfo", "model name"));
  benchmark::AddCustomContext(
      "fasttree", version(FASTTREE_VERSION_MAJOR, FASTTREE_VERSION_MINOR, FASTTREE_VERSION_PATCH));
  benchmark::AddCustomContext("instructions", native_lanes_name());
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", __VERSION__);
#else
  benchmark::AddCustomContext("compiler", std::string("GCC ") + __VERSION__);
#endif
  benchmark::AddCustomContext("flags", FASTTREE_BENCHMARK_FLAGS);
  benchmark::AddCustomContext(
      "kokkos", version(KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100));
  benchmark::AddCustomContext("space", Host::name());
  benchmark::AddCustomContext("threads", std::to_string(Host().concurrency()));
  benchmark::AddCustomContext("blas", Blas::of_system().name());
  benchmark::AddCustomContext("huge_pages",
                              line_of("/sys/kernel/mm/transparent_hugepage/enabled", ""));
}

/// The main function of a benchmark.
template <class Register>
int run_benchmarks(int argc, char** argv, Register const& register_benchmarks) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_context();
  register_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace fasttree::bench
