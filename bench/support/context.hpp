// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a results file says about the machine and the build, beside what Google Benchmark says itself.

#include <benchmark/benchmark.h>

#include <string>

#include <fasttree/core/lanes.hpp>
#include "anchors.hpp"
#include "line_of.hpp"
#include "shrink.hpp"
#include "versions.hpp"

namespace fasttree::bench {

/// Call before the benchmarks run, inside Kokkos.
inline void add_context() {
  benchmark::AddCustomContext("cpu", line_of("/proc/cpuinfo", "model name"));
  benchmark::AddCustomContext("fasttree", fasttree_version());
  benchmark::AddCustomContext("instructions", native_lanes_name());
  benchmark::AddCustomContext("compiler", host_compiler());
  benchmark::AddCustomContext("flags", FASTTREE_BENCHMARK_FLAGS);
  benchmark::AddCustomContext("kokkos", kokkos_version());
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
