// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks that are processes, over an MPI that moves memory of a device: it is given the addresses of
// what lies there, and nothing passes through the host on the way that MPI itself does not pass
// there. MPI knows no streams, so the host waits for a space before each round and for the messages
// of the round: no graph can capture them.
//     fasttree::MpiDeviceCommunicator<Kokkos::Cuda> communicator(MPI_COMM_WORLD,
//                                                                std::chrono::seconds(10));

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/mpi_group.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>

namespace fasttree {

/// Whether MPI moves memory of a device: as it says itself, or as the caller knows, since what it
/// says is known to be wrong in both directions.
enum class GpuAwareMpi { if_it_says_so, assumed };

namespace detail {

/// What MPI says of memory of `Space`. That of the host it moves.
template <class Space>
bool mpi_says_that_it_moves() {
  if constexpr (runs_on_host<Space>) return true;
  [[maybe_unused]] bool const cuda = std::string_view(Space::name()) == "Cuda";
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
  if (cuda) return MPIX_Query_cuda_support() == 1;
#endif
#if defined(OMPI_HAVE_MPI_EXT_ROCM)
  if (!cuda) return MPIX_Query_rocm_support() == 1;
#endif
#if defined(MPIX_GPU_SUPPORT_CUDA) && defined(MPIX_GPU_SUPPORT_HIP)
  int moves = 0;
  MPIX_GPU_query_support(cuda ? MPIX_GPU_SUPPORT_CUDA : MPIX_GPU_SUPPORT_HIP, &moves);
  return moves != 0;
#endif
  return false;
}

/// The slots in which a rank receives, and the messages of a round that are under way.
template <class Space>
struct MpiDeviceWindow {
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = 0, bytes = 0;
    bool arrives = false;
  };

  std::shared_ptr<MpiGroup> group;
  WindowShape shape;
  Kokkos::View<std::byte*, Space> memory;
  std::vector<Message> messages;

  /// Not 0: a float may be received where no rows are.
  std::size_t stride() const { return round_up<std::size_t>(shape.slot_bytes + 1, 64); }
};

/// After a failure the window is kept: MPI may still write into it.
template <class Space>
struct EndMpiDeviceWindow {
  void operator()(MpiDeviceWindow<Space>* window) const {
    if (!window->group->failure.empty()) return keep_until_exit(window);
    delete window;
  }
};

}  // namespace detail

/// A rank of an MPI communicator whose messages lie in memory of `Space`, on which no other host
/// thread works in a round. One thread at a time uses it, and it ends before MPI and Kokkos do.
///
/// After an `Error` nothing of it waits any more, but MPI may still read and write what it was
/// given: end with MPI_Abort or std::_Exit, or let plans live until then.
template <class Space>
class MpiDeviceCommunicator {
 public:
  /// The registered memory of an exchange.
  class Window {
    friend MpiDeviceCommunicator;
    std::unique_ptr<detail::MpiDeviceWindow<Space>, detail::EndMpiDeviceWindow<Space>> of_;
  };

  /// Collective; see MpiCommunicator.
  ///
  /// Errors: those of MpiCommunicator, and, before anything is sent, where MPI does not say that it
  /// moves memory of the space and that is not to be assumed.
  MpiDeviceCommunicator(MPI_Comm communicator, std::chrono::nanoseconds deadline,
                        MpiLinks const& links = {},
                        GpuAwareMpi aware = GpuAwareMpi::if_it_says_so) {
    require(aware == GpuAwareMpi::assumed || detail::mpi_says_that_it_moves<Space>(),
            "MpiDeviceCommunicator", "MPI",
            std::string("one that says it moves memory of ") + Space::name(),
            "one that does not: use MpiCommunicator, which moves it by way of the host");
    group_ = detail::make_mpi_group(communicator, deadline, links);
  }

  int rank() const { return group_->rank; }
  int size() const { return group_->size; }
  LinkCosts link() const { return topology().nodes() > 1 ? topology().between : topology().within; }
  Topology topology() const { return group_->topology; }

  /// See Communicator. Errors: those of MpiCommunicator::plan.
  Window plan(WindowShape const& shape) {
    group_->begin_plan(shape);
    Window window;
    window.of_.reset(new detail::MpiDeviceWindow<Space>{group_, shape, {}, {}});
    window.of_->memory = Kokkos::View<std::byte*, Space>(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "fasttree::MpiDeviceCommunicator::window"),
        shape.slots * window.of_->stride());
    window.of_->messages.reserve(static_cast<std::size_t>(shape.slots) + shape.sends);
    group_->agree_on(shape);
    return window;
  }

  void begin(Window& window) {
    group_->start();
    window.of_->messages.clear();
  }

  void begin_round(Window&, Space const& space) {
    group_->require_whole();
    space.fence();  // what is sent has to be there
  }

  /// Messages of two ranks arrive in the order in which they are sent.
  void send(Window& window, int to, int, std::span<std::byte const> message) {
    auto& sent = add(window, to, message.size(), false);
    group_->check(
        MPI_Isend(message.data(), sent.bytes, MPI_BYTE, to, 0, group_->communicator, &sent.request),
        "MPI_Isend");
  }

  std::span<std::byte> receive(Window& window, int from, int slot, std::size_t bytes) {
    auto const& of = *window.of_;
    std::span<std::byte> const memory(of.memory.data() + slot * of.stride(), bytes);
    receive_into(window, from, memory);
    return memory;
  }

  void receive_into(Window& window, int from, std::span<std::byte> memory) {
    auto& received = add(window, from, memory.size(), true);
    group_->check(MPI_Irecv(memory.data(), received.bytes, MPI_BYTE, from, 0, group_->communicator,
                            &received.request),
                  "MPI_Irecv");
  }

  /// Waits for the messages of the round.
  void end_round(Window& window) {
    for (auto& message : window.of_->messages) {
      MPI_Status status;
      std::string const peer = "rank " + std::to_string(message.peer);
      if (!group_->completes(message.request, &status)) {
        for (auto& other : window.of_->messages)
          if (other.arrives && other.request != MPI_REQUEST_NULL) MPI_Cancel(&other.request);
        group_->give_up_waiting(peer);
      }
      if (!message.arrives) continue;
      int received = 0;
      group_->check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
      if (received != message.bytes)
        group_->give_up("message of " + peer, std::to_string(message.bytes) + " bytes", received);
    }
    window.of_->messages.clear();
  }

  /// Of messages nothing is left to wait for.
  void wait(Space const& space) {
    group_->require_whole();
    space.fence();
  }

 private:
  auto& add(Window& window, int peer, std::size_t bytes, bool arrives) {
    group_->require_whole();
    auto& messages = window.of_->messages;
    messages.push_back({MPI_REQUEST_NULL, peer, static_cast<int>(bytes), arrives});
    return messages.back();
  }

  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(CommunicatorOn<MpiDeviceCommunicator<Kokkos::DefaultExecutionSpace>,
                             Kokkos::DefaultExecutionSpace>);

}  // namespace fasttree
