// SPDX-License-Identifier: Apache-2.0
#pragma once
// Failing calls of CUDA as the library's Error.

#include <string>

#include <cuda_runtime_api.h>

#include <fasttree/core/error.hpp>

namespace fasttree::cuda {

/// Throws an `Error` with call, code and name unless `code` is success; CUDA then forgets it, so
/// that it is not taken for that of a later call.
inline void check(cudaError_t code, char const* function, char const* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  std::string found(cudaGetErrorName(code));
  found.append(" (").append(std::to_string(static_cast<int>(code))).append("), ");
  fail(function, call, "cudaSuccess", found.append(cudaGetErrorString(code)));
}

}  // namespace fasttree::cuda
