// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Kokkos Tools see while an object lives: by one thread, labels of kernels, allocations, fences
// and copies, in their order, with ", " between them; by any number, bytes that are allocated.

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fasttree/core/kokkos.hpp>

namespace fasttree::test {

class ToolEvents {
 public:
  ToolEvents() {
    namespace tools = Kokkos::Tools::Experimental;
    seen_ = {};
    tools::set_begin_parallel_for_callback(
        [](char const* name, std::uint32_t device, std::uint64_t*) {
          append(seen_.kernels, name);
          seen_.devices.push_back(device);
        });
    tools::set_begin_parallel_reduce_callback(
        [](char const* name, std::uint32_t, std::uint64_t*) { append(seen_.kernels, name); });
    tools::set_begin_parallel_scan_callback(
        [](char const* name, std::uint32_t, std::uint64_t*) { append(seen_.kernels, name); });
    tools::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, char const* name, void const*, std::uint64_t bytes) {
          // Kokkos::Cuda asks for no bytes of scratch at each launch of teams.
          if (bytes > 0) append(seen_.allocations, name);
        });
    tools::set_begin_deep_copy_callback([](Kokkos::Tools::SpaceHandle, char const* to, void const*,
                                           Kokkos::Tools::SpaceHandle, char const*, void const*,
                                           std::uint64_t) { append(seen_.copies, to); });
    tools::set_begin_fence_callback([](char const* name, std::uint32_t, std::uint64_t*) {
      // Kokkos 5 fences for the sake of the tool that listens.
      if (!std::string_view(name).starts_with("Kokkos::Tools::")) append(seen_.fences, name);
    });
  }
  ~ToolEvents() {
    namespace tools = Kokkos::Tools::Experimental;
    tools::set_begin_parallel_for_callback(nullptr);
    tools::set_begin_parallel_reduce_callback(nullptr);
    tools::set_begin_parallel_scan_callback(nullptr);
    tools::set_allocate_data_callback(nullptr);
    tools::set_begin_deep_copy_callback(nullptr);
    tools::set_begin_fence_callback(nullptr);
  }
  ToolEvents(ToolEvents const&) = delete;
  ToolEvents& operator=(ToolEvents const&) = delete;

  std::string const& kernels() const { return seen_.kernels; }
  /// The device ids of the kernels of parallel_for.
  std::vector<std::uint32_t> const& devices() const { return seen_.devices; }
  std::string const& allocations() const { return seen_.allocations; }
  std::string const& copies() const { return seen_.copies; }
  std::string const& fences() const { return seen_.fences; }

 private:
  static void append(std::string& labels, char const* label) {
    labels += (labels.empty() ? "" : ", ") + std::string(label);
  }

  struct Seen {
    std::string kernels, allocations, copies, fences;
    std::vector<std::uint32_t> devices;
  };
  static inline Seen seen_;
};

/// Bytes of the views that are allocated while this lives, by all threads.
class AllocatedBytes {
 public:
  AllocatedBytes() {
    bytes_ = 0;
    Kokkos::Tools::Experimental::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, char const*, void const*, std::uint64_t bytes) {
          bytes_ += static_cast<std::int64_t>(bytes);
        });
  }
  ~AllocatedBytes() { Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr); }
  AllocatedBytes(AllocatedBytes const&) = delete;
  AllocatedBytes& operator=(AllocatedBytes const&) = delete;
  std::int64_t all() const { return bytes_; }

 private:
  static inline std::atomic<std::int64_t> bytes_ = 0;
};

}  // namespace fasttree::test
