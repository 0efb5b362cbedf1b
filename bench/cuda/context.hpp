// SPDX-License-Identifier: Apache-2.0
#pragma once
// What results files say about the device, and about what was measured on it.

#include <string>

#include <fasttree/backend/cuda/error.hpp>
#include "../support/json_fields.hpp"
#include "../support/replace_file.hpp"
#include "../support/shrink.hpp"
#include "../support/versions.hpp"
#include "arrays.hpp"
#include "reference.hpp"

namespace fasttree::bench {

/// A version of CUDA from its number.
inline std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

inline std::string context_json(Space const& space, std::string const& commit, int repetitions) {
  auto const attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    cuda::check(cudaDeviceGetAttribute(&value, which, space.cuda_device()), "bench::context_json",
                "cudaDeviceGetAttribute");
    return value;
  };
  int driver = 0, runtime = 0;
  cuda::check(cudaDriverGetVersion(&driver), "bench::context_json", "cudaDriverGetVersion");
  cuda::check(cudaRuntimeGetVersion(&runtime), "bench::context_json", "cudaRuntimeGetVersion");
  auto const& device = space.cuda_device_prop();
  return Fields()
      .add("date", today())
      .add("commit", commit)
      .add("fasttree", fasttree_version())
      .add("device", std::string(device.name))
      .add("compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor))
      .add("multiprocessors", device.multiProcessorCount)
      .add("clock_mhz", attribute(cudaDevAttrClockRate) / 1000)
      .add("memory_clock_mhz", attribute(cudaDevAttrMemoryClockRate) / 1000)
      .add("l2_bytes", attribute(cudaDevAttrL2CacheSize))
      .add("memory_bytes", static_cast<double>(device.totalGlobalMem))
      .add("driver", cuda_version(driver))
      .add("runtime", cuda_version(runtime))
      .add("compiler",
           "nvcc " + dotted(__CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__))
      .add("host_compiler", host_compiler())
      .add("kokkos", kokkos_version())
      .add("repetitions", repetitions)
      .add("shrink", shrink())
      .add("element", std::string(element_name<half>()))
      .add("head_dim", head_dim)
      .add("tolerance", tolerance)
      .text();
}

}  // namespace fasttree::bench
