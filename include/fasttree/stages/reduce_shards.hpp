// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stage 3: the partial results of all ranks, merged into the final output of all of them. Local
// attention writes its results where they are sent from, as records: of each row (a head and a
// query) value_dim floats of output, then a natural log-sum-exp; the rows of a head follow each
// other. What moves is a schedule (comm/reduction_schedule.hpp), how it moves is the communicator's
// business (comm/messages.hpp), and what is done on arrival are kernels (stages/record_kernels.hpp):
// `merge` of core/partials.hpp, or the maximum and the sums of Tree Attention's algorithm 3.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fasttree/comm/messages.hpp>
#include <fasttree/comm/reduction_schedule.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/stages/packed_rows.hpp>
#include <fasttree/stages/push_shards.hpp>
#include <fasttree/stages/record_kernels.hpp>

namespace fasttree {

namespace detail {

/// The merges of all rounds, one after the other.
inline std::vector<ScheduledMerge> merges_of(ReductionSchedule const& schedule) {
  std::vector<ScheduledMerge> merges;
  for (ScheduledRound const& round : schedule.rounds)
    merges.insert(merges.end(), round.merges.begin(), round.merges.end());
  return merges;
}

/// A number that is the same on all ranks that plan the same; there are fewer than 2^24 ranks in a
/// node. The bytes of a slot tell of rows and their width, but for one output in 16 bits.
inline std::uint64_t purpose_of(ReductionMethod const& method, int value_dim, int ranks_per_node,
                                int shards) {
  return static_cast<std::uint64_t>(method.algorithm) +
         (static_cast<std::uint64_t>(value_dim % 2) << 5) +
         (static_cast<std::uint64_t>(method.payload) << 6) +
         (static_cast<std::uint64_t>(ranks_per_node) << 8) +
         (static_cast<std::uint64_t>(shards) << 32);
}

}  // namespace detail

/// A rank's shards, and those of all ranks; 1 and 1 where each rank has the one of its number.
struct RankShards {
  int own = 1, all = 1;
};

/// The memory and the schedule of reductions over the ranks of a communicator, for partial results
/// of up to so many queries; see plan_reduction. Made once, used by every layer and step. A rank has
/// one partial result, or one for each of its shards.
template <class Space, Communicator Comm>
class ShardReduction {
 public:
  using Outputs =
      Kokkos::View<float***, Kokkos::LayoutStride, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using LogSumExps = Kokkos::View<NaturalLogSumExp**, Kokkos::LayoutStride, Space,
                                  Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  ReductionAlgorithm algorithm() const { return method_.algorithm; }
  Payload payload() const { return method_.payload; }
  int ranks() const { return ranks_; }
  int queries() const { return queries_; }
  int query_heads() const { return heads_; }
  int value_dim() const { return value_dim_; }
  int shards() const { return shards_; }  ///< of this rank

  /// Where the partial results of the first `queries` queries, of this rank's shard of this number
  /// among its own, are to be put: outputs (queries, query_heads, value_dim) and log-sum-exps
  /// (queries, query_heads). An output whose log-sum-exp is -inf is never read. Overwritten by the
  /// reduction.
  Outputs outputs(int queries, int shard = 0) const {
    return Outputs(records(shard), Kokkos::LayoutStride(queries, width(), heads_, queries * width(),
                                                        value_dim_, 1));
  }
  LogSumExps log_sum_exps(int queries, int shard = 0) const {
    return LogSumExps(reinterpret_cast<NaturalLogSumExp*>(records(shard) + value_dim_),
                      Kokkos::LayoutStride(queries, width(), heads_, queries * width()));
  }

 private:
  template <class S, Communicator C>
  friend ShardReduction<S, C> plan_reduction(S const&, C&, int, int, int, ReductionMethod,
                                             RankShards);
  template <class S, Communicator C, class Output, LogBase Base>
  friend void reduce_shards(S const&, C&, ShardReduction<S, C>&, int, Results<Output, Base> const&);

  ShardReduction() = default;

  int width() const { return value_dim_ + 1; }
  /// Of a shard; those of the first become those of the rank.
  float* records(int shard) const {
    return records_.data() + std::int64_t{1} * shard * queries_ * heads_ * width();
  }
  bool by_sums() const {
    return method_.algorithm == ReductionAlgorithm::max_then_sum ||
           method_.algorithm == ReductionAlgorithm::three_all_reduces;
  }

  void plan_shards(Space const& space, int count) {
    shards_ = count;
    std::vector<ScheduledMerge> merges;
    detail::append_all_merges(0, count, 0, merges);
    std::vector<detail::SlotRows> rows;
    for (int shard = 0; shard < count; ++shard) rows.push_back({records(shard)});
    shard_merges_ = detail::uploaded(space, "fasttree::reduce_shards::shard_merges", merges);
    shard_rows_ = detail::uploaded(space, "fasttree::reduce_shards::shard_rows", rows);
  }

  /// The records of all shards of the rank, to its own.
  void merge_shards(Space const& space, ReducedRows const& rows) {
    auto const count = static_cast<int>(shard_merges_.size());
    if (count > 0)
      detail::for_each_row(
          "fasttree::reduce_shards::merge_shards", space, {0, rows.count()},
          detail::MergeRows<detail::MergeRecords>{
              {}, shard_merges_.data(), count, shard_rows_.data(), records(0), width()});
  }

  /// One exchange over the rows, `width` floats each, of `own`: outputs, or maxima or weights alone.
  template <class Operator>
  void exchange(Space const& space, Comm& communicator, float* own, int width,
                ReducedRows const& rows, Operator const& op, bool outputs = true) {
    bool const packs = outputs && packed_.are_used();
    float* const sent = packs ? packed_.data() : own;
    auto const floats_of = [&](int part) {
      RowRange const range = schedule_.part(part, rows);
      int const sent_width = packs ? packed_.width() : width;
      return std::span<float>(sent + range.begin * sent_width, range.size() * sent_width);
    };
    ScheduledMerge const* merges = merges_.data();
    messages_.begin(communicator);
    for (ScheduledRound const& round : schedule_.rounds) {
      if (packs) packed_.pack(space, round, schedule_, rows, own);
      messages_.move(space, communicator, round, sent, floats_of);
      float* part = own;
      std::int64_t part_rows = 0;
      for (ScheduledMessage const& from : round.receives) {
        RowRange const range = schedule_.part(from.part, rows);
        part = own + range.begin * width;
        part_rows = range.size();
        bool const is_in_place = round.replaces && messages_.ordered;
        if (packs)
          packed_.unpack(space,
                         is_in_place ? floats_of(from.part).data() : messages_.slot(from.slot),
                         round.replaces ? part : packed_.slot(from.slot), part_rows);
        else if (round.replaces && !is_in_place)
          detail::for_each_row("fasttree::reduce_shards::put_in_place", space, {0, part_rows},
                               detail::PutInPlace{part, messages_.slots() + from.slot, width});
      }
      auto const count = static_cast<int>(round.merges.size());
      if (count > 0)
        detail::for_each_row(
            "fasttree::reduce_shards::merge", space, {0, part_rows},
            detail::MergeRows<Operator>{op, merges, count,
                                        packs ? packed_.slots() : messages_.slots(), part, width});
      merges += count;
    }
  }

  /// The paper's: m = max lse; then the sums of exp(lse - m) and of exp(lse - m) output, as they
  /// follow each other in a record or, for three_all_reduces, apart.
  void max_then_sums(Space const& space, Comm& communicator, ReducedRows const& rows) {
    bool const apart = method_.algorithm == ReductionAlgorithm::three_all_reduces;
    float* const maxima = sums_.data();
    float* const weights = apart ? maxima + rows.count() : records_.data() + value_dim_;
    float* const outputs = apart ? weights + rows.count() : records_.data();
    detail::SumsOfRecords const sums{records_.data(),
                                     value_dim_,
                                     maxima,
                                     weights,
                                     outputs,
                                     apart ? 1 : width(),
                                     apart ? value_dim_ : width()};
    RowRange const all{0, rows.count()};
    detail::for_each_row("fasttree::reduce_shards::log_sum_exps", space, all,
                         detail::CopyLogSumExps{sums});
    exchange(space, communicator, maxima, 1, rows, detail::MaximumOfRows{}, false);
    detail::for_each_row("fasttree::reduce_shards::weights", space, all,
                         detail::WeighRecords{sums});
    if (apart) {
      exchange(space, communicator, weights, 1, rows, detail::SumOfRows{}, false);
      exchange(space, communicator, outputs, value_dim_, rows, detail::SumOfRows{});
    } else {
      exchange(space, communicator, outputs, width(), rows, detail::SumOfRows{});
    }
    detail::for_each_row("fasttree::reduce_shards::quotients", space, all,
                         detail::DivideBySums{sums});
  }

  /// All of it in one kernel, where ranks reach each other's memory.
  template <class Output, LogBase Base>
  void push(Space const& space, Comm& communicator, ReducedRows const& rows,
            Results<Output, Base> const& results) {
    communicator.begin(push_window_);
    detail::push_shards(space, push_window_.rows, method_.payload, rows.count(), records_.data(),
                        merges_.data(), static_cast<int>(merges_.size()),
                        detail::WriteRecord<Output, Base>{results, rows.queries, value_dim_});
  }

  /// Copies the merged records that this rank keeps to the output.
  template <class Output, LogBase Base>
  void write(Space const& space, ReducedRows const& rows,
             Results<Output, Base> const& results) const {
    detail::for_each_row(
        "fasttree::reduce_shards::write", space, schedule_.kept(rows),
        detail::WriteRecords<Output, Base>{{results, rows.queries, value_dim_}, records_.data()});
  }

  ReductionMethod method_ = ReductionAlgorithm::one_shot;
  int ranks_ = 1, queries_ = 0, heads_ = 0, value_dim_ = 0, shards_ = 1;
  ReductionSchedule schedule_;
  Kokkos::View<ScheduledMerge*, Space> merges_;        ///< of all rounds
  Kokkos::View<ScheduledMerge*, Space> shard_merges_;  ///< of the rank's shards
  Kokkos::View<detail::SlotRows*, Space> shard_rows_;  ///< where those lie
  PushWindow push_window_;                             ///< this or messages
  detail::Messages<Space, Comm> messages_;
  detail::PackedRows<Space> packed_;
  Kokkos::View<float*, Space> records_, sums_;
};

/// Plans reductions of partial results of up to `queries` queries. Collective: all ranks call it
/// with the same numbers and method: an algorithm, or one, a payload, and how reproducible it is to
/// be.
///
/// A payload of 16 bits rounds the outputs of what a rank sends or merges in a round, at most once in
/// each; what is merged is then float. All ranks get the same bits, but not by all algorithms.
///
/// Allocates records and what the algorithm needs beside them, and has the communicator register
/// memory for the messages that a rank gets in an exchange. Errors: `Error` on negative numbers, on
/// a method that is not as reproducible as it is to be, where ranks disagree, and those of the
/// communicator.
///
/// \param shards  this rank's, where shards are more than ranks: those that shards_of_rank gives it
template <class Space, Communicator Comm>
ShardReduction<Space, Comm> plan_reduction(Space const& space, Comm& communicator, int queries,
                                           int query_heads, int value_dim, ReductionMethod method,
                                           RankShards shards = {}) {
  constexpr char const* function = "plan_reduction";
  require(queries >= 0, function, "queries", "0 or more", queries);
  require(query_heads > 0, function, "query_heads", "a positive number", query_heads);
  require(value_dim > 0, function, "value_dim", "a positive number", value_dim);
  require(shards.own > 0, function, "shards.own", "a positive number", shards.own);
  auto const [algorithm, payload, reproducibility] = method;
  Topology const topology = topology_of(communicator);
  if (reproducibility == Reproducibility::across_algorithms) {
    require(merges_by_tree(algorithm, topology), function, "method.algorithm",
            "one that merges by the tree over ranks, as one_shot", name(algorithm));
    require(payload == Payload::fp32, function, "method.payload",
            "fp32, to be reproducible across algorithms", name(payload));
  }
  ShardReduction<Space, Comm> reduction;
  reduction.method_ = method;
  reduction.ranks_ = communicator.size();
  reduction.queries_ = queries;
  reduction.heads_ = query_heads;
  reduction.value_dim_ = value_dim;
  int const ranks_per_node = topology.ranks_per_node;
  reduction.schedule_ =
      make_reduction_schedule(algorithm, communicator.rank(), communicator.size(), ranks_per_node);
  reduction.merges_ = detail::uploaded(space, "fasttree::reduce_shards::merges",
                                       detail::merges_of(reduction.schedule_));
  std::int64_t const rows = std::int64_t{1} * queries * query_heads;
  auto const floats = [&](char const* label, std::int64_t count) {
    return Kokkos::View<float*, Space>(
        Kokkos::view_alloc(space, Kokkos::WithoutInitializing, std::string(label)), count);
  };
  reduction.records_ =
      floats("fasttree::reduce_shards::records", shards.own * rows * (value_dim + 1));
  reduction.plan_shards(space, shards.own);
  std::uint64_t const purpose = detail::purpose_of(method, value_dim, ranks_per_node, shards.all);
  if constexpr (PushingCommunicator<Comm, Space>)
    if (algorithm == ReductionAlgorithm::one_shot && communicator.reaches_all()) {
      int const words = ReductionSize{rows, value_dim, payload}.record_floats();
      reduction.push_window_ = communicator.plan_push({rows, words, value_dim + 1, purpose});
      return reduction;
    }
  bool const three = algorithm == ReductionAlgorithm::three_all_reduces;
  if (reduction.by_sums())
    reduction.sums_ = floats("fasttree::reduce_shards::sums", rows * (three ? value_dim + 2 : 1));
  std::int64_t const slot_rows = reduction.schedule_.part_size({query_heads, queries});
  detail::PackedShape const shape{three ? value_dim : value_dim + 1, value_dim};
  if (payload != Payload::fp32)
    reduction.packed_ = detail::PackedRows<Space>(space, payload, shape, rows,
                                                  reduction.schedule_.slots, slot_rows);
  // Maxima and weights are one float of a row, and go through the same slots.
  int const sent_width = payload != Payload::fp32 ? shape.packed_width() : shape.width;
  reduction.messages_ = detail::Messages<Space, Comm>(
      space, communicator, reduction.schedule_, slot_rows * sent_width,
      std::max(rows * (value_dim + 1), static_cast<std::int64_t>(reduction.sums_.size())), purpose);
  return reduction;
}

/// The same with the algorithm that is cheapest on the communicator's links, of those that are as
/// reproducible.
template <class Space, Communicator Comm>
ShardReduction<Space, Comm> plan_reduction(
    Space const& space, Comm& communicator, int queries, int query_heads, int value_dim,
    Reproducibility reproducibility = Reproducibility::per_algorithm) {
  ReductionSize const size{std::int64_t{1} * queries * query_heads, value_dim};
  auto const algorithm = cheapest(topology_of(communicator), size, reproducibility);
  return plan_reduction(space, communicator, queries, query_heads, value_dim,
                        {algorithm, Payload::fp32, reproducibility});
}

/// Merges what all ranks have put into reduction.outputs(queries) and .log_sum_exps(queries), and
/// writes it to `results` of each (where a rank has several shards, of each of these, which it
/// merges first); by `scatter` and `on_rank_0` what is a rank's, and no more of them is touched.
/// Collective. All ranks get the same bits, and so it is from one algorithm to another of one_shot,
/// tree, all_to_all, scatter and on_rank_0.
///
/// Does not allocate. By a communicator on `Space` enqueues all of it, and does not wait: a graph can
/// capture it, and communicator.wait(space) tells of what goes wrong. By others fences `space`
/// before it sends, waits for messages no longer than the communicator's deadline (each all-reduce
/// of several has one), and enqueues the rest. Errors: `Error` on more queries than were planned
/// for, and those of the communicator; results are then not written.
template <class Space, Communicator Comm, class Output, LogBase Base>
void reduce_shards(Space const& space, Comm& communicator, ShardReduction<Space, Comm>& reduction,
                   int queries, Results<Output, Base> const& results) {
  if (queries > reduction.queries_)
    fail_above("reduce_shards", "queries", reduction.queries_, queries);
  ReducedRows const rows{reduction.heads_, queries};
  reduction.merge_shards(space, rows);
  if constexpr (PushingCommunicator<Comm, Space>)
    if (reduction.push_window_.memory) return reduction.push(space, communicator, rows, results);
  if (reduction.by_sums()) {
    reduction.max_then_sums(space, communicator, rows);
  } else {
    reduction.exchange(space, communicator, reduction.records(0), reduction.width(), rows,
                       detail::MergeRecords{});
  }
  reduction.write(space, rows, results);
}

}  // namespace fasttree
