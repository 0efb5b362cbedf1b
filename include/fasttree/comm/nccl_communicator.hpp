// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks with a GPU each, over NCCL, or RCCL where Kokkos has HIP: messages between device memories,
// in the order of a stream; and, where NCCL lets kernels reach the memory of all ranks, stores. Only
// those who have NCCL include it; in CMake, link fasttree::nccl. Whoever starts the ranks hands out
// the id: MPI_Bcast, a file, a socket.
//     ncclUniqueId id = rank == 0 ? fasttree::make_nccl_id() : ncclUniqueId{};
//     MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
//     fasttree::NcclCommunicator communicator(space, id, rank, ranks, std::chrono::seconds(10));

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fasttree/comm/communicator.hpp>
#include <fasttree/comm/nccl_group.hpp>
#include <fasttree/comm/pushed_rows.hpp>
#include <fasttree/comm/topology.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>

namespace fasttree {

/// An id for the ranks of one communicator, made by one of them. Errors: `Error` where NCCL does.
inline ncclUniqueId make_nccl_id() {
  ncclUniqueId id;
  ncclResult_t const code = ncclGetUniqueId(&id);
  require(code == ncclSuccess, "make_nccl_id", "ncclGetUniqueId", "ncclSuccess",
          ncclGetErrorString(code));
  return id;
}

/// What algorithms are priced by: within a node fitted to pushed rows of two H200s on NVLink, by
/// which one_shot moves; others, by ncclSend, take longer than their price. Between nodes guesses.
/// The ranks of a node, 0: those whose memory kernels reach, or all; and where the epochs of pushed
/// rows begin.
struct NcclOptions {
  LinkCosts within{.latency = 4, .rate = 146e3, .message = 0.5};
  LinkCosts between{.latency = 15, .rate = 40e3, .message = 1};
  int ranks_per_node = 0;
  std::uint32_t first_epoch = 2;
};

/// A rank of NCCL's. One thread at a time uses it; it ends before Kokkos does.
///
/// What is enqueued by one of its calls is done in the order of the space, and may be captured in a
/// graph. A host that waits for it calls `wait`: space.fence() waits for a rank that is gone
/// forever. After an `Error` nothing of it waits any more.
class NcclCommunicator {
 public:
  using Space = detail::NcclSpace;

  /// The slots of an exchange, in device memory.
  class Window {
    friend NcclCommunicator;
    WindowShape shape_;
    Kokkos::View<std::byte*, Space> memory_;

    /// Not 0: a float may be received where no rows are.
    std::size_t stride() const { return round_up<std::size_t>(shape_.slot_bytes + 1, 64); }
  };

  /// Collective.
  ///
  /// \param space     of this rank, on a device that no other rank has
  /// \param id        of one make_nccl_id(), the same on all ranks
  /// \param deadline  most that any call takes, and that a kernel waits for another rank
  ///
  /// Errors: `Error` unless there are such ranks and time; on another minor version of NCCL than
  /// the header's; where a rank does not take part by the deadline; where NCCL reports one.
  NcclCommunicator(Space const& space, ncclUniqueId const& id, int rank, int ranks,
                   std::chrono::nanoseconds deadline, NcclOptions const& options = {})
      : group_(std::make_shared<detail::NcclGroup>()) {
    constexpr char const* function = "NcclCommunicator";
    require(deadline.count() > 0, function, "deadline", "a positive time", deadline.count());
    require(ranks > 0, function, "ranks", "a positive number", ranks);
    if (rank < 0 || rank >= ranks)
      fail(function, "rank", "0 or more, below " + std::to_string(ranks), rank);
    require(options.first_epoch > 0, function, "options.first_epoch", "a positive number",
            options.first_epoch);
    detail::NcclGroup& group = *group_;
    group.space = space;
    group.rank = rank;
    group.size = ranks;
    group.deadline = deadline;
    group.first_epoch = options.first_epoch;
    group.missing = decltype(group.missing)("fasttree::NcclCommunicator::missing");
    int version = 0;
    group.check(ncclGetVersion(&version), "ncclGetVersion");
    require(version / 100 == NCCL_VERSION_CODE / 100, function, "ncclGetVersion", NCCL_VERSION_CODE,
            version);
    auto const made = std::make_shared<ncclComm_t>(nullptr);
    group.check_outcome("ncclCommInitRank",
                        [=] { return ncclCommInitRank(made.get(), ranks, id, rank); });
    group.communicator = *made;
    find_nodes(options);
  }

  int rank() const { return group_->rank; }
  int size() const { return group_->size; }
  LinkCosts link() const { return topology().nodes() > 1 ? topology().between : topology().within; }
  Topology topology() const { return group_->topology; }
  bool reaches_all() const { return group_->reaches_all; }

  /// See Communicator. Errors: also where ranks disagree about the shape.
  Window plan(WindowShape const& shape) {
    group_->require_whole();
    Window window;
    window.shape_ = shape;
    window.memory_ =
        decltype(window.memory_)(Kokkos::view_alloc(group_->space, Kokkos::WithoutInitializing,
                                                    "fasttree::NcclCommunicator::window"),
                                 shape.slots * window.stride());
    agree({static_cast<std::uint64_t>(shape.slots), shape.slot_bytes, shape.purpose,
           static_cast<std::uint64_t>(shape.sends)},
          detail::describe(shape));
    return window;
  }

  void begin(Window&) { group_->require_whole(); }
  void begin(PushWindow&) { group_->require_whole(); }

  void begin_round(Window&, Space const& space) {
    stream_ = detail::stream_of(space);
    group_->check(ncclGroupStart(), "ncclGroupStart");
    group_->in_round = true;
  }

  void send(Window&, int to, int, std::span<std::byte const> message) {
    group_->check(
        ncclSend(message.data(), message.size(), ncclInt8, to, group_->communicator, stream_),
        "ncclSend");
  }

  std::span<std::byte> receive(Window& window, int from, int slot, std::size_t bytes) {
    std::span<std::byte> const memory(window.memory_.data() + slot * window.stride(), bytes);
    receive_into(window, from, memory);
    return memory;
  }

  void receive_into(Window&, int from, std::span<std::byte> memory) {
    group_->check(
        ncclRecv(memory.data(), memory.size(), ncclInt8, from, group_->communicator, stream_),
        "ncclRecv");
  }

  void end_round(Window&) {
    group_->in_round = false;
    group_->check(ncclGroupEnd(), "ncclGroupEnd");
  }

  /// Waits until all that was enqueued on `space` is done. Errors: `Error` where that is not so at
  /// the deadline, or a kernel has waited for a rank as long as that, or NCCL reports one.
  void wait(Space const& space) {
    using Clock = detail::NcclGroup::Clock;
    // A kernel that waits knows for whom, so that it is to say so first.
    auto const until = Clock::now() + group_->deadline + group_->deadline / 20;
    while (!detail::is_idle(space)) {
      group_->require_whole();
      ncclResult_t code = ncclSuccess;
      ncclCommGetAsyncError(group_->communicator, &code);
      if (code != ncclInProgress) group_->check(code, "ncclCommGetAsyncError");
      if (Clock::now() >= until) group_->give_up_waiting("a rank");
      std::this_thread::yield();
    }
    space.fence();
    group_->require_whole();
  }

#if defined(FASTTREE_NCCL_WINDOWS)
  /// See PushingCommunicator. Memory: 16 bytes for each word of all ranks' rows, whose ends are
  /// rounded up to 16 words.
  PushWindow plan_push(PushShape const& shape) {
    group_->require_whole();
    auto const memory = std::make_shared<detail::NcclMemory>();
    memory->group = group_;
    std::size_t const bytes =
        round_up<std::size_t>(sizeof(std::uint64_t) * PushedRows::cells_of(shape, size()) + 1,
                              NCCL_WIN_REQUIRED_ALIGNMENT);
    group_->check(ncclMemAlloc(&memory->data, bytes), "ncclMemAlloc");
    group_->check_outcome("ncclCommWindowRegister",
                          [memory, bytes, communicator = group_->communicator] {
                            return ncclCommWindowRegister(communicator, memory->data, bytes,
                                                          &memory->window, NCCL_WIN_COLL_SYMMETRIC);
                          });
    PushWindow window{lay_out(shape), memory};
    PushedRows& rows = window.rows;
    Space const& space = group_->space;
    using Bytes = Kokkos::View<std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Kokkos::deep_copy(space, Bytes(static_cast<std::byte*>(memory->data), bytes), std::byte{0});
    memory->epochs = decltype(memory->epochs)("fasttree::NcclCommunicator::epochs", rows.teams + 1);
    rows.epochs = memory->epochs.data();
    rows.failed = reinterpret_cast<int*>(rows.epochs + rows.teams);
    Kokkos::deep_copy(space, Kokkos::subview(memory->epochs, std::pair(0, rows.teams)),
                      group_->first_epoch);
    Kokkos::View<std::uintptr_t*, PinnedSpace> const addresses("fasttree::addresses", size());
    Kokkos::parallel_for("fasttree::NcclCommunicator::addresses",
                         Kokkos::RangePolicy<Space>(space, 0, size()),
                         detail::FindNcclMemory{memory->window, addresses.data()});
    space.fence();
    for (int i = 0; i < size(); ++i) rows.cells[i] = reinterpret_cast<std::uint64_t*>(addresses(i));
    agree({static_cast<std::uint64_t>(shape.rows), static_cast<std::uint64_t>(shape.width),
           static_cast<std::uint64_t>(rows.teams) << 32 | static_cast<std::uint32_t>(rows.threads),
           shape.purpose},
          std::to_string(shape.rows) + " pushed rows of " + std::to_string(shape.width) +
              " words for purpose " + std::to_string(shape.purpose));
    return window;
  }
#endif

 private:
  /// As many teams as run at once, so that all rows of a rank are sent while others are waited for.
  PushedRows lay_out(PushShape const& shape) const {
    PushedRows rows;
    rows.shape = shape;
    rows.rank = rank();
    rows.ranks = size();
    rows.deadline = static_cast<std::uint64_t>(group_->deadline.count());
    rows.missing = group_->missing.data();
    std::int64_t const row_bytes = std::int64_t{4} * size() * shape.merged_width;
    std::int64_t const scratch = 40 << 10;
    std::int64_t const most =
        std::clamp<std::int64_t>(scratch / row_bytes, 1, PushedRows::most_threads);
    std::int64_t const teams = detail::processors_of(group_->space);
    rows.teams = static_cast<int>(std::clamp<std::int64_t>(shape.rows, 1, teams));
    rows.threads = static_cast<int>(std::clamp<std::int64_t>(ceil_div(shape.rows, teams), 1, most));
    return rows;
  }

  void find_nodes(NcclOptions const& options) {
    int reached = 0;
#if defined(FASTTREE_NCCL_WINDOWS)
    reached = ncclTeamLsa(group_->communicator).nRanks;
#endif
    int count = options.ranks_per_node;
    if (count == 0) count = reached > 0 ? reached : size();
    if (count < 0 || size() % count != 0)
      fail("NcclCommunicator", "options.ranks_per_node", "a divisor of " + std::to_string(size()),
           count);
    group_->topology = {size(), count, options.within, options.between};
    group_->reaches_all = size() > 1 && reached == size() && size() <= PushedRows::most_ranks;
  }

  /// Has the largest of each number, and of each complement, be this rank's on all ranks.
  void agree(std::array<std::uint64_t, 4> const& mine, std::string const& described) {
    Space const& space = group_->space;
    Kokkos::View<std::uint64_t*, Space> const numbers("fasttree::NcclCommunicator::agree", 8);
    auto const largest = Kokkos::create_mirror_view(numbers);
    for (int i = 0; i < 4; ++i) largest(2 * i) = mine[i], largest(2 * i + 1) = ~mine[i];
    Kokkos::deep_copy(space, numbers, largest);
    group_->check_outcome("ncclAllReduce", [numbers, communicator = group_->communicator,
                                            stream = detail::stream_of(space)] {
      return ncclAllReduce(numbers.data(), numbers.data(), 8, ncclUint64, ncclMax, communicator,
                           stream);
    });
    wait(space);
    Kokkos::deep_copy(space, largest, numbers);
    space.fence();
    bool agreed = true;
    for (int i = 0; i < 4; ++i)
      agreed = agreed && largest(2 * i) == mine[i] && largest(2 * i + 1) == ~mine[i];
    if (!agreed) group_->give_up("window of a rank", described + ", as here", "another");
  }

  std::shared_ptr<detail::NcclGroup> group_;
  decltype(detail::stream_of(Space())) stream_{};
};

static_assert(CommunicatorOn<NcclCommunicator, NcclCommunicator::Space>);
#if defined(FASTTREE_NCCL_WINDOWS)
static_assert(PushingCommunicator<NcclCommunicator, NcclCommunicator::Space>);
#endif

}  // namespace fasttree
