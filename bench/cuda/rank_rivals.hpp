// SPDX-License-Identifier: Apache-2.0
#pragma once
// What others do with the partial results of ranks, over NCCL's collectives: the three all-reduces
// of Tree Attention, maximum and one packed sum, all-gather and all-to-all over heads, each with the
// kernels that make a result of it; and a ring that passes keys and values on.

#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

#include <fasttree/core/partials.hpp>
#include <fasttree/stages/record_kernels.hpp>
#include <fasttree/tree_attention.hpp>
#include "arrays.hpp"

namespace fasttree::bench {

inline void check(ncclResult_t code, char const* call) {
  require(code == ncclSuccess, "bench", call, "ncclSuccess", ncclGetErrorString(code));
}

/// A communicator of NCCL's.
struct RawNccl {
  ncclComm_t communicator = nullptr;
  int rank = 0, ranks = 1;

  RawNccl(ncclUniqueId const& id, int of, int all) : rank(of), ranks(all) {
    check(ncclCommInitRank(&communicator, ranks, id, rank), "ncclCommInitRank");
  }
  ~RawNccl() { ncclCommDestroy(communicator); }
  RawNccl(RawNccl const&) = delete;
  RawNccl& operator=(RawNccl const&) = delete;
};

/// Collectives over records (rows of value_dim outputs and a log-sum-exp, those of a head one after
/// the other), which they leave as they are.
class CombineRivals {
 public:
  using Output = Kokkos::View<float***, Kokkos::LayoutRight, Space>;

  CombineRivals(Space const& space, RawNccl const& nccl, float* records, Output const& output)
      : space_(space),
        nccl_(nccl),
        records_(records),
        queries_(static_cast<std::int64_t>(output.extent(0))),
        rows_(queries_ * static_cast<std::int64_t>(output.extent(1))),
        sums_("bench::sums", rows_ * (head_dim + 3)),
        gathered_("bench::gathered", nccl.ranks * rows_ * width),
        write_{{strided<Space, 3>(output), {}}, queries_, head_dim} {
    auto const schedule =
        make_reduction_schedule(ReductionAlgorithm::one_shot, nccl.rank, nccl.ranks);
    for (ScheduledRound const& round : schedule.rounds)
      merges_ = uploaded("bench::merges", round.merges);
    for (std::int64_t const rows : {rows_, rows_ / nccl.ranks}) {
      std::vector<detail::SlotRows> slots;
      for (int i = 0; i < nccl.ranks; ++i) slots.push_back({gathered_.data() + i * rows * width});
      (rows == rows_ ? whole_slots_ : part_slots_) = uploaded("bench::slots", slots);
    }
  }

  /// The paper's. Without kernels: the collectives alone, whose result means nothing.
  void three_all_reduces(bool kernels) const {
    float* const maxima = sums_.data();
    float* const weights = maxima + rows_;
    float* const outputs = weights + rows_;
    detail::SumsOfRecords const sums{records_, head_dim, maxima, weights, outputs, 1, head_dim};
    if (kernels) each("maxima", detail::CopyLogSumExps{sums});
    all_reduce(maxima, rows_, ncclMax);
    if (kernels) each("weights", detail::WeighRecords{sums});
    all_reduce(weights, rows_, ncclSum);
    all_reduce(outputs, rows_ * head_dim, ncclSum);
    if (kernels) finish(sums);
  }

  void max_then_sum(bool kernels) const {
    float* const maxima = sums_.data();
    float* const packed = maxima + rows_;
    detail::SumsOfRecords const sums{records_, head_dim, maxima, packed + head_dim,
                                     packed,   width,    width};
    if (kernels) each("maxima", detail::CopyLogSumExps{sums});
    all_reduce(maxima, rows_, ncclMax);
    if (kernels) each("weights", detail::WeighRecords{sums});
    all_reduce(packed, rows_ * width, ncclSum);
    if (kernels) finish(sums);
  }

  void all_gather(bool kernels) const {
    check(ncclAllGather(records_, gathered_.data(), rows_ * width, ncclFloat, nccl_.communicator,
                        space_.cuda_stream()),
          "ncclAllGather");
    if (kernels) merge(whole_slots_, rows_, 0);
  }

  /// Each rank gets the results of its heads.
  void all_to_all(bool kernels) const {
    std::int64_t const part = rows_ / nccl_.ranks;
    check(ncclAlltoAll(records_, gathered_.data(), part * width, ncclFloat, nccl_.communicator,
                       space_.cuda_stream()),
          "ncclAlltoAll");
    if (kernels) merge(part_slots_, part, nccl_.rank * part);
  }

 private:
  static constexpr int width = head_dim + 1;
  using Write = detail::WriteRecord<float, LogBase::e>;

  template <class T>
  static Kokkos::View<T*, Space> uploaded(char const* label, std::vector<T> const& host) {
    Kokkos::View<T*, Space> const memory(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)), host.size());
    Kokkos::deep_copy(
        memory, Kokkos::View<T const*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                    host.data(), host.size()));
    return memory;
  }

  void all_reduce(float* data, std::int64_t count, ncclRedOp_t op) const {
    check(ncclAllReduce(data, data, count, ncclFloat, op, nccl_.communicator, space_.cuda_stream()),
          "ncclAllReduce");
  }

  template <class Kernel>
  void each(char const* label, Kernel const& kernel) const {
    detail::for_each_row(label, space_, {0, rows_}, kernel);
  }

  /// Divides, into records of its own, and writes.
  void finish(detail::SumsOfRecords sums) const {
    sums.records = gathered_.data();
    each("quotients", detail::DivideBySums{sums});
    each("write", detail::WriteRecords<float, LogBase::e>{write_, gathered_.data()});
  }

  /// Merges rows of all ranks, and writes them as rows `first` and following.
  void merge(Kokkos::View<detail::SlotRows*, Space> const& slots, std::int64_t rows,
             std::int64_t first) const {
    float* const own = gathered_.data() + nccl_.rank * rows * width;
    detail::for_each_row(
        "merge", space_, {0, rows},
        detail::MergeRows<detail::MergeRecords>{
            {}, merges_.data(), static_cast<int>(merges_.size()), slots.data(), own, width});
    detail::for_each_row("write", space_, {first, first + rows},
                         detail::WriteRecords<float, LogBase::e>{write_, own - first * width});
  }

  Space space_;
  RawNccl const& nccl_;
  float* records_;
  std::int64_t queries_, rows_;
  Kokkos::View<float*, Space> sums_, gathered_;
  Kokkos::View<ScheduledMerge*, Space> merges_;
  Kokkos::View<detail::SlotRows*, Space> whole_slots_, part_slots_;
  Write write_;
};

/// The keys and values of a shard.
struct HeldShard {
  Arrays::View keys, values;
};

/// Ring attention: each rank attends to what it has while it passes that on to the next, and merges
/// what comes of it. KV heads as they are, not repeated; two shards of memory beside its own.
template <class Plan>
class KeyValueRing {
 public:
  /// For shards of the size of `own`.
  KeyValueRing(Space const& space, RawNccl const& nccl, Plan const& plan, HeldShard const& own,
               Arrays::View const& queries, Arrays::View const& output)
      : space_(space),
        nccl_(nccl),
        plan_(plan),
        workspace_(make_workspace(space, plan)),
        queries_(queries),
        output_(output) {
    for (Partials<Space>& of : partials_)
      of = make_partials(space, static_cast<int>(output.extent(0)),
                         static_cast<int>(output.extent(1)), head_dim);
    for (int i = 0; i < std::min(2, nccl.ranks - 1); ++i) {
      memory_[i] = Kokkos::View<half*, Space>(
          Kokkos::view_alloc(space, Kokkos::WithoutInitializing, "bench::ring"),
          2 * own.keys.size());
      auto const view = [&](half* at) {
        return Arrays::View(at, own.keys.extent(0), own.keys.extent(1), head_dim);
      };
      received_.push_back({view(memory_[i].data()), view(memory_[i].data() + own.keys.size())});
    }
    cuda::check(cudaStreamCreateWithFlags(&transfers_, cudaStreamNonBlocking), "bench", "stream");
    for (cudaEvent_t& event : events_)
      cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "bench", "event");
  }

  void operator()(HeldShard const& own) const {
    for (int step = 0; step < nccl_.ranks; ++step) {
      HeldShard const& held = step == 0 ? own : received_[(step - 1) % 2];
      bool const last = step + 1 == nccl_.ranks;
      if (!last) pass_on(held, received_[step % 2]);
      Partials<Space> const& to = partials_[step == 0 ? 0 : 1];
      tree_attention(space_, plan_, queries_, make_contiguous_cache(space_, held.keys, held.values),
                     to.outputs, to.log_sum_exps, workspace_);
      if (step > 0) merge(space_, partials_[0], partials_[1]);
      if (!last) wait(space_.cuda_stream(), transfers_, events_[1]);
    }
    auto const from = partials_[0].outputs;
    auto const to = output_;
    Kokkos::parallel_for(
        "bench::ring", Kokkos::RangePolicy<Space>(space_, 0, static_cast<int>(to.size())),
        KOKKOS_LAMBDA(int i) { to.data()[i] = half(from.data()[i]); });
  }

 private:
  static void wait(cudaStream_t waits, cudaStream_t for_it, cudaEvent_t event) {
    cuda::check(cudaEventRecord(event, for_it), "bench", "cudaEventRecord");
    cuda::check(cudaStreamWaitEvent(waits, event, 0), "bench", "cudaStreamWaitEvent");
  }

  void pass_on(HeldShard const& from, HeldShard const& to) const {
    wait(transfers_, space_.cuda_stream(), events_[0]);
    int const next = (nccl_.rank + 1) % nccl_.ranks;
    int const previous = (nccl_.rank + nccl_.ranks - 1) % nccl_.ranks;
    check(ncclGroupStart(), "ncclGroupStart");
    for (auto const& [sent, received] :
         {std::pair(from.keys, to.keys), std::pair(from.values, to.values)}) {
      check(ncclSend(sent.data(), sent.size(), ncclHalf, next, nccl_.communicator, transfers_),
            "ncclSend");
      check(ncclRecv(received.data(), received.size(), ncclHalf, previous, nccl_.communicator,
                     transfers_),
            "ncclRecv");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

  Space space_;
  RawNccl const& nccl_;
  Plan const& plan_;
  Workspace<Space> workspace_;
  std::vector<HeldShard> received_;  ///< in turn
  Arrays::View queries_, output_;
  Partials<Space> partials_[2];
  Kokkos::View<half*, Space> memory_[2];
  cudaStream_t transfers_ = nullptr;
  cudaEvent_t events_[2] = {};
};

}  // namespace fasttree::bench
