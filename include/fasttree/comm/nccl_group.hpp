// SPDX-License-Identifier: Apache-2.0
#pragma once
// A communicator of NCCL, or RCCL where Kokkos has HIP, with what comm/nccl_communicator.hpp needs
// around it: an end to every wait. Calls that may wait for other ranks for ever are made in threads
// of their own.

#include <fasttree/core/kokkos.hpp>

#if defined(KOKKOS_ENABLE_HIP)
#include <rccl/rccl.h>
#else
#include <nccl.h>
#if NCCL_VERSION_CODE >= 22800
#include <nccl_device.h>
#define FASTTREE_NCCL_WINDOWS 1
#endif
#endif

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>

namespace fasttree::detail {

/// What CUDA and HIP call differently.
#if defined(KOKKOS_ENABLE_HIP)
using NcclSpace = Kokkos::HIP;
inline hipStream_t stream_of(NcclSpace const& space) { return space.hip_stream(); }
inline int device_of(NcclSpace const& space) { return space.hip_device(); }
inline int processors_of(NcclSpace const& space) {
  return space.hip_device_prop().multiProcessorCount;
}
inline bool use_device(int device) { return hipSetDevice(device) == hipSuccess; }
inline bool is_idle(NcclSpace const& space) {
  return hipStreamQuery(stream_of(space)) == hipSuccess;
}
#else
using NcclSpace = Kokkos::Cuda;
inline cudaStream_t stream_of(NcclSpace const& space) { return space.cuda_stream(); }
inline int device_of(NcclSpace const& space) { return space.cuda_device(); }
inline int processors_of(NcclSpace const& space) {
  return space.cuda_device_prop().multiProcessorCount;
}
inline bool use_device(int device) { return cudaSetDevice(device) == cudaSuccess; }
inline bool is_idle(NcclSpace const& space) {
  return cudaStreamQuery(stream_of(space)) !=
         cudaErrorNotReady;  // a failure shows in the next call
}
#endif

/// A communicator of NCCL, the clock of its calls, and what ended it.
struct NcclGroup {
  using Clock = std::chrono::steady_clock;

  NcclSpace space;
  int rank = 0, size = 1;
  std::chrono::nanoseconds deadline{};
  Topology topology;
  bool reaches_all = false;
  std::uint32_t first_epoch = 2;
  ncclComm_t communicator = nullptr;
  bool in_round = false;  ///< between ncclGroupStart and ncclGroupEnd
  std::string failure;
  std::future<ncclResult_t> ending;
  Kokkos::View<int, PinnedSpace> missing;  ///< see PushedRows

  void require_whole() {
    if (!failure.empty()) throw Error(failure);
    int const word = *static_cast<int volatile*>(missing.data());
    if (word != 0) give_up_waiting("rank " + std::to_string(word - 1));
  }

  /// Every call throws this from now on, and no kernel waits any more.
  template <class Expected, class Found>
  [[noreturn]] void give_up(std::string const& argument, Expected const& expected,
                            Found const& found) {
    try {
      fail("NcclCommunicator", argument, expected, found);
    } catch (Error const& error) {
      failure = error.what();
    }
    if (std::exchange(in_round, false)) ncclGroupEnd();  // else later ones were of this
    if (*missing.data() == 0) *static_cast<int volatile*>(missing.data()) = -1;
    if (auto const ended = std::exchange(communicator, nullptr); ended != nullptr)
      ending = start([ended] { return ncclCommAbort(ended); });  // which takes its time
    throw Error(failure);
  }

  [[noreturn]] void give_up_waiting(std::string const& whom) {
    double const seconds = std::chrono::duration<double>(deadline).count();
    give_up(whom, "a message within " + std::to_string(seconds) + " s", "none");
  }

  void check(ncclResult_t code, char const* call) {
    if (code != ncclSuccess) give_up(call, "ncclSuccess", ncclGetErrorString(code));
  }

  ~NcclGroup() {
    if (communicator != nullptr)
      ending = start([ended = communicator] { return ncclCommDestroy(ended); });
    if (ending.valid()) ending.wait_for(deadline);
  }

  /// Runs a call that may wait for other ranks, for ever, in a thread of its own: what it refers to
  /// has to live.
  template <class Call>
  std::future<ncclResult_t> start(Call call) const {
    std::promise<ncclResult_t> promise;
    auto result = promise.get_future();
    std::thread([call = std::move(call), promise = std::move(promise),
                 device = device_of(space)]() mutable {
      promise.set_value(use_device(device) ? call() : ncclUnhandledCudaError);
    }).detach();
    return result;
  }

  /// Of such a call; ncclInProgress where it has none by the deadline.
  template <class Call>
  ncclResult_t outcome(Call call) const {
    auto result = start(std::move(call));
    return result.wait_for(deadline) == std::future_status::ready ? result.get() : ncclInProgress;
  }

  template <class Call>
  void check_outcome(char const* name, Call call) {
    ncclResult_t const code = outcome(std::move(call));
    if (code == ncclInProgress) give_up_waiting("every rank");
    check(code, name);
  }
};

#if defined(FASTTREE_NCCL_WINDOWS)
/// Memory that kernels of all ranks reach.
struct NcclMemory {
  std::shared_ptr<NcclGroup> group;
  void* data = nullptr;
  ncclWindow_t window = nullptr;
  Kokkos::View<std::uint32_t*, NcclSpace> epochs;  ///< of each team, and whether one failed

  /// Where a rank has failed or is not heard of, others may still reach the memory: it is kept.
  ~NcclMemory() {
    if (group->communicator == nullptr || data == nullptr) return;
    bool ended = window == nullptr;
    if (!ended)
      ended = group->outcome([window = window, communicator = group->communicator] {
        return ncclCommWindowDeregister(communicator, window);
      }) == ncclSuccess;
    if (ended) ncclMemFree(data);
    if (!ended) group->communicator = nullptr;  // that call may still use it
  }
};

/// Where the memory of each rank lies for kernels of this one.
struct FindNcclMemory {
  ncclWindow_t window;
  std::uintptr_t* addresses;

  __device__ void operator()(int rank) const {
    addresses[rank] = reinterpret_cast<std::uintptr_t>(ncclGetLsaPointer(window, 0, rank));
  }
};
#endif

}  // namespace fasttree::detail
