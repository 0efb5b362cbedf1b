// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts every allocation of the program, not only those that Kokkos sees. To be included by the one
// source of a program: it replaces operator new.

#include <atomic>
#include <cstdlib>
#include <new>

namespace fasttree::test {

inline std::atomic<long> allocations{0};

}  // namespace fasttree::test

// Not inlined: GCC would take free for the wrong partner of new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++fasttree::test::allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
