// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine can do, measured in the process and at the moment in which attention is timed: the
// rate of a BLAS sgemm and of a plain read, both on all threads of the host's execution space.
// The BLAS is the system's shared library, found when the benchmark runs, so none is needed to build;
// each thread multiplies blocks of its own, so thread pools and bindings of the BLAS do not matter.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/lanes.hpp>

namespace fasttree::bench {

using Host = Kokkos::DefaultHostExecutionSpace;

/// Seconds that have passed, and that this process has computed on all cores.
struct Seconds {
  double wall, cpu;
};

/// Measures from its construction on.
class Stopwatch {
 public:
  Seconds elapsed() const {
    Seconds const now = clocks();
    return {now.wall - start_.wall, now.cpu - start_.cpu};
  }

 private:
  static Seconds clocks() {
    std::timespec cpu{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    auto const wall = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(wall).count(), cpu.tv_sec + 1e-9 * cpu.tv_nsec};
  }

  Seconds start_ = clocks();
};

/// Something done per second: of the clock, and of computing, which other programs disturb less.
struct Rate {
  double wall = 0, cpu = 0;

  Rate() = default;
  Rate(double done, Seconds in) : wall(done / in.wall), cpu(done / in.cpu) {}
};

/// The system's BLAS, or none.
class Blas {
 public:
  static Blas const& of_system() {
    static Blas const blas;
    return blas;
  }

  explicit operator bool() const { return sgemm_ != nullptr; }
  /// The library and, where it tells, the kernels that it chose for this CPU.
  std::string const& name() const { return name_; }

  /// C (m, n) = A (m, k) B (k, n), columns contiguous, on the calling thread.
  void sgemm(int m, int n, int k, float const* a, float const* b, float* c) const {
    constexpr int column_major = 102, no_transpose = 111;
    sgemm_(column_major, no_transpose, no_transpose, m, n, k, 1.f, a, m, b, k, 0.f, c, m);
  }

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, float const*, int, float const*, int,
                         float, float*, int);

  Blas() {
    for (char const* library : {"libopenblas.so.0", "libmkl_rt.so.2", "libblis.so.4"}) {
      void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) continue;
      sgemm_ = reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm"));
      if (sgemm_ == nullptr) continue;
      name_ = library;
      for (char const* setter : {"openblas_set_num_threads", "MKL_Set_Num_Threads"})
        if (void* const set = dlsym(handle, setter)) reinterpret_cast<void (*)(int)>(set)(1);
      if (void* const kernels = dlsym(handle, "openblas_get_corename"))
        name_ += std::string(", kernels ") + reinterpret_cast<char* (*)()>(kernels)();
      return;
    }
  }

  Sgemm sgemm_ = nullptr;
  std::string name_ = "none";
};

/// Measures rates in memory that it keeps; `shrink` divides all sizes.
class Anchors {
 public:
  explicit Anchors(int shrink)
      : size_(std::max(64, 2048 / shrink)), memory_("anchors::memory", (1 << 28) / shrink) {
    int const size = size_;
    for (auto* const matrix : {&a_, &b_, &c_})
      *matrix = Kokkos::View<float*, Host>("anchors::matrix", size * size);
    auto const fill = [](auto const& view) {
      Kokkos::parallel_for(Kokkos::RangePolicy<Host>(0, view.extent(0)), [=](std::int64_t i) {
        view(i) = static_cast<float>(i * 2654435761 % 1024) / 512 - 1;
      });
    };
    fill(memory_);
    fill(a_);
    fill(b_);
    Host().fence();
    sgemm();  // warm
  }

  /// Floating-point operations per second of sgemm of square matrices; 0 without a BLAS.
  Rate sgemm() const {
    Blas const& blas = Blas::of_system();
    if (!blas) return {};
    int const size = size_, columns = size / 8;
    float const *const a = a_.data(), *const b = b_.data();
    float* const c = c_.data();
    Stopwatch const watch;
    Kokkos::parallel_for(
        Kokkos::RangePolicy<Host, Kokkos::Schedule<Kokkos::Dynamic>>(0, size / columns)
            .set_chunk_size(1),
        [=, &blas](int block) {
          std::int64_t const first = std::int64_t{block} * columns * size;
          blas.sgemm(size, columns, size, a, b + first, c + first);
        });
    Host().fence();
    return {2.0 * size * size * size, watch.elapsed()};
  }

  /// Bytes per second of reading 1 GiB once.
  Rate read() const {
    constexpr int lanes = native_lanes, chunk = 1 << 14;
    float const* const memory = memory_.data();
    float sum = 0;
    Stopwatch const watch;
    Kokkos::parallel_reduce(
        Kokkos::RangePolicy<Host, Kokkos::Schedule<Kokkos::Dynamic>>(0, memory_.extent(0) / chunk),
        [=](int block, float& total) {
          Lanes<lanes> part[8] = {};
          for (std::int64_t i = std::int64_t{block} * chunk; i < std::int64_t{block + 1} * chunk;
               i += 8 * lanes)
            for (int j = 0; j < 8; ++j) part[j] += load<lanes>(memory + i + j * lanes);
          float parts[lanes];
          for (int j = 0; j < 8; ++j) {
            store<lanes>(part[j], parts);
            for (float const x : parts) total += x;
          }
        },
        sum);
    Seconds const time = watch.elapsed();
    read_ = sum;
    return {static_cast<double>(memory_.extent(0) * sizeof(float)), time};
  }

 private:
  int size_;
  Kokkos::View<float*, Host> memory_, a_, b_, c_;
  mutable float volatile read_ = 0;  // so that what was read counts as used
};

}  // namespace fasttree::bench
