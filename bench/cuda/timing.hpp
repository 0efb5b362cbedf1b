// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long what is enqueued takes: on the device, as a CUDA graph between two events, with L2
// cleared or warm; and on the host.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <fasttree/backend/cuda/error.hpp>
#include "arrays.hpp"

namespace fasttree::bench {

/// In microseconds.
struct Times {
  double median, minimum;
};

inline Times times_of(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all.front()};
}

/// What `enqueue` enqueues on a stream, as an executable graph.
class CapturedGraph {
 public:
  template <class Enqueue>
  CapturedGraph(Space const& space, Enqueue const& enqueue) {
    constexpr char const* function = "bench::CapturedGraph";
    cuda::check(cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal),
                function, "cudaStreamBeginCapture");
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(space.cuda_stream(), &graph_);
      cudaGraphDestroy(graph_);
      throw;
    }
    cuda::check(cudaStreamEndCapture(space.cuda_stream(), &graph_), function,
                "cudaStreamEndCapture");
    cuda::check(cudaGraphInstantiate(&executable_, graph_, 0), function, "cudaGraphInstantiate");
  }
  ~CapturedGraph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  CapturedGraph(CapturedGraph const&) = delete;
  CapturedGraph& operator=(CapturedGraph const&) = delete;

  void launch(Space const& space) const {
    cuda::check(cudaGraphLaunch(executable_, space.cuda_stream()), "bench::CapturedGraph::launch",
                "cudaGraphLaunch");
  }

  int kernels() const {
    constexpr char const* function = "bench::CapturedGraph::kernels";
    std::size_t count = 0;
    cuda::check(cudaGraphGetNodes(graph_, nullptr, &count), function, "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    cuda::check(cudaGraphGetNodes(graph_, nodes.data(), &count), function, "cudaGraphGetNodes");
    int kernels = 0;
    for (cudaGraphNode_t const node : nodes) {
      cudaGraphNodeType type;
      cuda::check(cudaGraphNodeGetType(node, &type), function, "cudaGraphNodeGetType");
      kernels += type == cudaGraphNodeTypeKernel;
    }
    return kernels;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

/// Reads memory: afterwards L2 is full of lines that need not be written back, as a decode step
/// finds it after the weights of other layers.
__global__ void __launch_bounds__(1024)
    read_all(float4 const* from, std::int64_t count, float* to) {
  float sum = 0;
  std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    float4 const x = from[i];
    sum += x.x + x.y + x.z + x.w;
  }
  if (sum == 1.f) *to = sum;  // never: the memory is zero; but the loads must stay
}

/// Keeps the stream busy, so that what follows is enqueued by the time that it may begin.
__global__ void hold(std::uint64_t nanoseconds) {
  auto const now = [] {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  std::uint64_t const begin = now();
  while (now() - begin < nanoseconds) {
  }
}

enum class L2 { cold, warm };

class Stopwatch {
 public:
  explicit Stopwatch(Space const& space)
      : space_(space), memory_("bench::read_to_clear_l2", cleared_bytes / sizeof(float)) {
    cuda::check(cudaEventCreate(&begin_), "bench::Stopwatch", "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "bench::Stopwatch", "cudaEventCreate");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(Stopwatch const&) = delete;
  Stopwatch& operator=(Stopwatch const&) = delete;

  /// Of a graph alone, on the device. The first replays are not counted.
  Times device_times(CapturedGraph const& graph, int repetitions, L2 l2) const {
    constexpr char const* function = "bench::Stopwatch::device_times";
    constexpr int uncounted = 3;
    cudaStream_t const stream = space_.cuda_stream();
    std::vector<double> all;
    for (int i = 0; i < repetitions + uncounted; ++i) {
      if (l2 == L2::cold) {
        read_all<<<4 * space_.cuda_device_prop().multiProcessorCount, 1024, 0, stream>>>(
            reinterpret_cast<float4 const*>(memory_.data()), cleared_bytes / sizeof(float4),
            memory_.data());
      } else {
        hold<<<1, 1, 0, stream>>>(50'000);
      }
      cuda::check(cudaGetLastError(), function, "the kernel before");
      cuda::check(cudaEventRecord(begin_, stream), function, "cudaEventRecord");
      graph.launch(space_);
      cuda::check(cudaEventRecord(end_, stream), function, "cudaEventRecord");
      cuda::check(cudaStreamSynchronize(stream), function, "cudaStreamSynchronize");
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), function,
                  "cudaEventElapsedTime");
      if (i >= uncounted) all.push_back(1e3 * milliseconds);
    }
    return times_of(all);
  }

  struct HostTimes {
    Times returned, finished;
  };

  /// Of a call on the host: until it returns, and until the stream has done what it enqueued.
  template <class Call>
  HostTimes host_times(int repetitions, Call const& call) const {
    std::vector<double> returned, finished;
    for (int i = 0; i <= repetitions; ++i) {
      auto const begin = std::chrono::steady_clock::now();
      call();
      auto const end = std::chrono::steady_clock::now();
      cuda::check(cudaStreamSynchronize(space_.cuda_stream()), "bench::Stopwatch::host_times",
                  "cudaStreamSynchronize");
      auto const all = std::chrono::steady_clock::now() - begin;
      if (i == 0) continue;  // not counted
      returned.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
      finished.push_back(std::chrono::duration<double, std::micro>(all).count());
    }
    return {times_of(returned), times_of(finished)};
  }

 private:
  static constexpr std::int64_t cleared_bytes = std::int64_t{512} << 20;

  Space space_;
  Kokkos::View<float*, Space> memory_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace fasttree::bench
