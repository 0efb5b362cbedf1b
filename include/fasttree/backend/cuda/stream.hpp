// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stream of CUDA as the space that verbs work on, with memory that CUDA allocates: for programs
// whose Kokkos has no CUDA, in which nothing of Kokkos needs to be initialized. It has what the
// backend asks of Kokkos::Cuda, under the same names.

#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

#include <fasttree/backend/cuda/error.hpp>

namespace fasttree {

namespace cuda {

/// What the backend asks of a device: some members of cudaDeviceProp.
struct DeviceProperties {
  int major = 0, minor = 0;
  int multiProcessorCount = 0;
  std::size_t sharedMemPerMultiprocessor = 0, sharedMemPerBlockOptin = 0;  ///< bytes
};

}  // namespace cuda

/// A stream and its device. Made in less than a microsecond, so that a program which is handed its
/// stream with every call may make one each time. Verbs make its device the current one.
class CudaStream {
 public:
  /// Bytes of device memory.
  class Memory {
   public:
    Memory() = default;

    /// Memory that the caller keeps.
    Memory(void* data, std::size_t bytes)
        : data_(std::shared_ptr<void>(), static_cast<std::byte*>(data)), bytes_(bytes) {}

    std::byte* data() const { return data_.get(); }
    std::size_t size() const { return bytes_; }

   private:
    friend CudaStream;
    std::shared_ptr<std::byte> data_;
    std::size_t bytes_ = 0;
  };

  /// A stream of the current device, which must exist while work is enqueued on it.
  /// Errors: `Error` where there is no device.
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {
    cuda::check(cudaGetDevice(&device_), function, "cudaGetDevice");
    properties_ = {attribute(cudaDevAttrComputeCapabilityMajor),
                   attribute(cudaDevAttrComputeCapabilityMinor),
                   attribute(cudaDevAttrMultiProcessorCount),
                   bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
                   bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin)};
  }

  cudaStream_t cuda_stream() const { return stream_; }
  int cuda_device() const { return device_; }
  cuda::DeviceProperties const& cuda_device_prop() const { return properties_; }

  /// Waits for what is enqueued.
  void fence() const {
    cuda::check(cudaSetDevice(device_), function, "cudaSetDevice");
    cuda::check(cudaStreamSynchronize(stream_), function, "cudaStreamSynchronize");
  }

  /// Memory that is freed with its last copy; CUDA then waits until the device is idle.
  Memory allocate(std::size_t bytes) const {
    cuda::check(cudaSetDevice(device_), function, "cudaSetDevice");
    void* data = nullptr;
    cuda::check(cudaMalloc(&data, bytes), function, "cudaMalloc");
    Memory memory;
    memory.data_ = {static_cast<std::byte*>(data), [](std::byte* of) { cudaFree(of); }};
    memory.bytes_ = bytes;
    return memory;
  }

  /// Enqueues a copy of pageable memory of the host, which may change once this returns.
  void upload(void* to, void const* from, std::size_t bytes) const {
    cuda::check(cudaSetDevice(device_), function, "cudaSetDevice");
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), function,
                "cudaMemcpyAsync");
  }

 private:
  static constexpr char const* function = "CudaStream";

  int attribute(cudaDeviceAttr which) const {
    int value = 0;
    cuda::check(cudaDeviceGetAttribute(&value, which, device_), function, "cudaDeviceGetAttribute");
    return value;
  }
  std::size_t bytes(cudaDeviceAttr which) const {
    return static_cast<std::size_t>(attribute(which));
  }

  cudaStream_t stream_;
  int device_ = 0;
  cuda::DeviceProperties properties_;
};

}  // namespace fasttree
