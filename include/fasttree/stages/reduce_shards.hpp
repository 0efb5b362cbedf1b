// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stage 3: the partial results of all ranks, merged into the final output of all of them. Local
// attention writes its results where they are sent from, as records: of each row (a head and a
// query) value_dim floats of output, then a natural log-sum-exp; the rows of a head follow each
// other. What moves is a schedule (comm/reduction_schedule.hpp), how it moves is the communicator's
// business, and what is done on arrival is here: `merge` of core/partials.hpp, or the maximum and
// the sums of Tree Attention's algorithm 3.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fasttree/backend/select.hpp>
#include <fasttree/comm/reduction_schedule.hpp>
#include <fasttree/core/error.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree {

namespace detail {

/// What is done to rows of floats: into := op(left, right), which may be the same row as either.
struct MergeRecords {
  KOKKOS_INLINE_FUNCTION void operator()(float* into, float const* left, float const* right,
                                         int width) const {
    int const value_dim = width - 1;
    auto const weights =
        merge_weights(NaturalLogSumExp{left[value_dim]}, NaturalLogSumExp{right[value_dim]});
    for (int i = 0; i < value_dim; ++i) into[i] = merge_outputs(weights, left[i], right[i]);
    into[value_dim] = weights.log_sum_exp.value;
  }
};
struct MaximumOfRows {
  KOKKOS_INLINE_FUNCTION void operator()(float* into, float const* left, float const* right,
                                         int width) const {
    for (int i = 0; i < width; ++i) into[i] = left[i] < right[i] ? right[i] : left[i];
  }
};
struct SumOfRows {
  KOKKOS_INLINE_FUNCTION void operator()(float* into, float const* left, float const* right,
                                         int width) const {
    for (int i = 0; i < width; ++i) into[i] = left[i] + right[i];
  }
};

/// The weight of a log-sum-exp below the maximum of all; 1 for equal ones, infinite ones too.
KOKKOS_INLINE_FUNCTION float weight_below(float maximum, float log_sum_exp) {
  if (log_sum_exp == -infinity) return 0.f;
  return log_sum_exp == maximum ? 1.f : std::exp(log_sum_exp - maximum);
}

template <class Space>
using Rows = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;

}  // namespace detail

/// The memory and the schedule of reductions over the ranks of a communicator, for partial results
/// of up to so many queries; see plan_reduction. Made once, used by every layer and step.
template <class Space, Communicator Comm>
class ShardReduction {
 public:
  using Outputs =
      Kokkos::View<float***, Kokkos::LayoutStride, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using LogSumExps = Kokkos::View<NaturalLogSumExp**, Kokkos::LayoutStride, Space,
                                  Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  ReductionAlgorithm algorithm() const { return algorithm_; }
  int ranks() const { return ranks_; }
  int queries() const { return queries_; }
  int query_heads() const { return heads_; }
  int value_dim() const { return value_dim_; }

  /// Where this rank's partial results of the first `queries` queries are to be put: outputs
  /// (queries, query_heads, value_dim) and log-sum-exps (queries, query_heads). An output whose
  /// log-sum-exp is -inf is never read. Overwritten by the reduction.
  Outputs outputs(int queries) const {
    return Outputs(records_.data(), Kokkos::LayoutStride(queries, width(), heads_,
                                                         queries * width(), value_dim_, 1));
  }
  LogSumExps log_sum_exps(int queries) const {
    return LogSumExps(reinterpret_cast<NaturalLogSumExp*>(records_.data() + value_dim_),
                      Kokkos::LayoutStride(queries, width(), heads_, queries * width()));
  }

 private:
  template <class S, Communicator C>
  friend ShardReduction<S, C> plan_reduction(S const&, C&, int, int, int, ReductionAlgorithm);
  template <class S, Communicator C, class Output, LogBase Base>
  friend void reduce_shards(S const&, C&, ShardReduction<S, C>&, int, Results<Output, Base> const&);

  ShardReduction() = default;

  int width() const { return value_dim_ + 1; }
  bool by_sums() const {
    return algorithm_ == ReductionAlgorithm::max_then_sum ||
           algorithm_ == ReductionAlgorithm::three_all_reduces;
  }

  /// One exchange over the rows, `width` floats each, of `own`.
  template <class Operator>
  void exchange(Space const& space, Comm& communicator, float* own, int width,
                ReducedRows const& rows, Operator const& op) {
    communicator.begin(window_);
    for (ScheduledRound const& round : schedule_.rounds) {
      space.fence();  // what is sent has to be there: the transport is not ordered with the space
      for (ScheduledMessage const& to : round.sends) {
        RowRange const part = schedule_.part(to.part, rows);
        communicator.send(
            window_, to.peer, to.slot,
            std::as_bytes(std::span<float const>(own + part.begin * width, part.size() * width)));
      }
      RowRange part{};
      for (ScheduledMessage const& from : round.receives) {
        part = schedule_.part(from.part, rows);
        slots_[from.slot] = reinterpret_cast<float*>(
            communicator.receive(window_, from.peer, from.slot, part.size() * width * sizeof(float))
                .data());
        if (round.replaces)
          put_in_place(space, own + part.begin * width, slots_[from.slot], part.size() * width);
      }
      if (!round.merges.empty())
        merge_rows(space, round, own + part.begin * width, width, part.size(), op);
    }
  }

  void put_in_place(Space const& space, float* own, float const* received, std::int64_t count) {
    Kokkos::parallel_for(
        "fasttree::reduce_shards::put_in_place", detail::Rows<Space>(space, 0, count),
        KOKKOS_LAMBDA(std::int64_t i) { own[i] = received[i]; });
  }

  template <class Operator>
  void merge_rows(Space const& space, ScheduledRound const& round, float* own, int width,
                  std::int64_t rows, Operator const& op) {
    ScheduledMerge const* const merges = round.merges.data();
    int const count = static_cast<int>(round.merges.size());
    float* const* const slots = slots_.data();
    Kokkos::parallel_for(
        "fasttree::reduce_shards::merge", detail::Rows<Space>(space, 0, rows),
        KOKKOS_LAMBDA(std::int64_t row) {
          auto const at = [&](int place) {
            return (place == ScheduledMerge::own ? own : slots[place]) + row * width;
          };
          for (int i = 0; i < count; ++i)
            op(at(merges[i].into), at(merges[i].left), at(merges[i].right), width);
        });
  }

  /// The paper's: m = max lse; then the sums of exp(lse - m) and of exp(lse - m) output, as they
  /// follow each other in a record or, for three_all_reduces, apart.
  void max_then_sums(Space const& space, Comm& communicator, ReducedRows const& rows) {
    bool const apart = algorithm_ == ReductionAlgorithm::three_all_reduces;
    float* const maxima = sums_.data();
    float* const weights = apart ? maxima + rows.count() : records_.data() + value_dim_;
    float* const outputs = apart ? weights + rows.count() : records_.data();
    Sums const sums{maxima, weights, outputs, apart ? 1 : width(), apart ? value_dim_ : width()};
    copy_log_sum_exps(space, rows.count(), maxima);
    exchange(space, communicator, maxima, 1, rows, detail::MaximumOfRows{});
    weigh(space, rows.count(), sums);
    if (apart) {
      exchange(space, communicator, weights, 1, rows, detail::SumOfRows{});
      exchange(space, communicator, outputs, value_dim_, rows, detail::SumOfRows{});
    } else {
      exchange(space, communicator, outputs, width(), rows, detail::SumOfRows{});
    }
    divide(space, rows.count(), sums);
  }

  /// Of each row the maximum, and at these distances the sum of weights and the weighted outputs.
  struct Sums {
    float *maxima, *weights, *outputs;
    int next_weight, next_output;
  };

  void copy_log_sum_exps(Space const& space, std::int64_t rows, float* maxima) const {
    float const* const records = records_.data();
    int const value_dim = value_dim_, width = this->width();
    Kokkos::parallel_for(
        "fasttree::reduce_shards::log_sum_exps", detail::Rows<Space>(space, 0, rows),
        KOKKOS_LAMBDA(std::int64_t row) { maxima[row] = records[row * width + value_dim]; });
  }

  void weigh(Space const& space, std::int64_t rows, Sums const& sums) const {
    float const* const records = records_.data();
    int const value_dim = value_dim_, width = this->width();
    Kokkos::parallel_for(
        "fasttree::reduce_shards::weights", detail::Rows<Space>(space, 0, rows),
        KOKKOS_LAMBDA(std::int64_t row) {
          float const* const record = records + row * width;
          float const weight = detail::weight_below(sums.maxima[row], record[value_dim]);
          sums.weights[row * sums.next_weight] = weight;
          float* const outputs = sums.outputs + row * sums.next_output;
          for (int i = 0; i < value_dim; ++i) outputs[i] = weight != 0.f ? weight * record[i] : 0.f;
        });
  }

  void divide(Space const& space, std::int64_t rows, Sums const& sums) const {
    float* const records = records_.data();
    int const value_dim = value_dim_, width = this->width();
    Kokkos::parallel_for(
        "fasttree::reduce_shards::quotients", detail::Rows<Space>(space, 0, rows),
        KOKKOS_LAMBDA(std::int64_t row) {
          float const maximum = sums.maxima[row];
          float all = sums.weights[row * sums.next_weight];
          // Of two that are infinite no merge knows the shares.
          if (maximum == detail::infinity && all != 1.f) all = maximum - maximum;
          float const* const outputs = sums.outputs + row * sums.next_output;
          float* const record = records + row * width;
          for (int i = 0; i < value_dim; ++i) record[i] = all != 0.f ? outputs[i] / all : 0.f;
          record[value_dim] = all != 0.f ? maximum + std::log(all) : -detail::infinity;
        });
  }

  /// Copies the merged records that this rank keeps to the output.
  template <class Output, LogBase Base>
  void write(Space const& space, ReducedRows const& rows,
             Results<Output, Base> const& results) const {
    RowRange const kept = schedule_.kept(rows);
    float const* const records = records_.data();
    std::int64_t const queries = rows.queries;
    int const value_dim = value_dim_, width = this->width();
    Kokkos::parallel_for(
        "fasttree::reduce_shards::write", detail::Rows<Space>(space, kept.begin, kept.end),
        KOKKOS_LAMBDA(std::int64_t row) {
          float const* const record = records + row * width;
          int const query = static_cast<int>(row % queries);
          int const head = static_cast<int>(row / queries);
          float const log_sum_exp = record[value_dim];
          bool const has_keys = log_sum_exp != -detail::infinity;
          for (int i = 0; i < value_dim; ++i)
            results.outputs(query, head, i) = static_cast<Output>(has_keys ? record[i] : 0.f);
          results.write_log_sum_exp(query, head, {log_sum_exp});
        });
  }

  ReductionAlgorithm algorithm_{};
  int ranks_ = 1, queries_ = 0, heads_ = 0, value_dim_ = 0;
  ReductionSchedule schedule_;
  typename Comm::Window window_;
  Kokkos::View<float*, Space> records_, sums_;
  std::vector<float*> slots_;  ///< where the messages of an exchange lie
};

/// Plans reductions of partial results of up to `queries` queries. Collective: all ranks call it
/// with the same numbers and algorithm.
///
/// Allocates records and what the algorithm needs beside them, and has the communicator register
/// twice the messages that a rank gets in an exchange. Errors: `Error` on negative numbers, where
/// ranks disagree, and those of the communicator.
template <class Space, Communicator Comm>
ShardReduction<Space, Comm> plan_reduction(Space const& space, Comm& communicator, int queries,
                                           int query_heads, int value_dim,
                                           ReductionAlgorithm algorithm) {
  static_assert(runs_on_host<Space>,
                "fasttree::plan_reduction: these communicators move host memory: use a host space");
  constexpr char const* function = "plan_reduction";
  require(queries >= 0, function, "queries", "0 or more", queries);
  require(query_heads > 0, function, "query_heads", "a positive number", query_heads);
  require(value_dim > 0, function, "value_dim", "a positive number", value_dim);
  ShardReduction<Space, Comm> reduction;
  reduction.algorithm_ = algorithm;
  reduction.ranks_ = communicator.size();
  reduction.queries_ = queries;
  reduction.heads_ = query_heads;
  reduction.value_dim_ = value_dim;
  int const ranks_per_node = topology_of(communicator).ranks_per_node;
  reduction.schedule_ =
      make_reduction_schedule(algorithm, communicator.rank(), communicator.size(), ranks_per_node);
  reduction.slots_.resize(reduction.schedule_.slots);
  std::int64_t const rows = std::int64_t{1} * queries * query_heads;
  auto const floats = [&](char const* label, std::int64_t count) {
    return Kokkos::View<float*, Space>(
        Kokkos::view_alloc(space, Kokkos::WithoutInitializing, std::string(label)), count);
  };
  reduction.records_ = floats("fasttree::reduce_shards::records", rows * (value_dim + 1));
  bool const three = algorithm == ReductionAlgorithm::three_all_reduces;
  if (reduction.by_sums())
    reduction.sums_ = floats("fasttree::reduce_shards::sums", rows * (three ? value_dim + 2 : 1));
  std::int64_t const slot_floats =
      reduction.schedule_.part_size({query_heads, queries}) * (three ? value_dim : value_dim + 1);
  reduction.window_ =
      communicator.plan({.slots = reduction.schedule_.slots,
                         .slot_bytes = slot_floats * sizeof(float),
                         .sends = reduction.schedule_.sends,
                         .purpose = static_cast<std::uint64_t>(algorithm) +
                                    256 * static_cast<std::uint64_t>(ranks_per_node)});
  return reduction;
}

/// The same with the algorithm that is cheapest on the communicator's links.
template <class Space, Communicator Comm>
ShardReduction<Space, Comm> plan_reduction(Space const& space, Comm& communicator, int queries,
                                           int query_heads, int value_dim) {
  ReductionSize const size{std::int64_t{1} * queries * query_heads, value_dim};
  return plan_reduction(space, communicator, queries, query_heads, value_dim,
                        cheapest(topology_of(communicator), size));
}

/// Merges what all ranks have put into reduction.outputs(queries) and .log_sum_exps(queries), and
/// writes it to `results` of each; by `scatter` and `on_rank_0` what is a rank's, and no more of
/// them is touched. Collective. All ranks get the same bits, and so it is from one algorithm to
/// another of one_shot, tree, all_to_all, scatter and on_rank_0.
///
/// Does not allocate. Fences `space` before it sends, waits for messages no longer than the
/// communicator's deadline (each all-reduce of several has one), and enqueues the rest. Errors:
/// `Error` on more queries than were planned for, and those of the communicator; results are then
/// not written.
template <class Space, Communicator Comm, class Output, LogBase Base>
void reduce_shards(Space const& space, Comm& communicator, ShardReduction<Space, Comm>& reduction,
                   int queries, Results<Output, Base> const& results) {
  if (queries > reduction.queries_)
    fail_above("reduce_shards", "queries", reduction.queries_, queries);
  ReducedRows const rows{reduction.heads_, queries};
  if (reduction.by_sums()) {
    reduction.max_then_sums(space, communicator, rows);
  } else {
    reduction.exchange(space, communicator, reduction.records_.data(), reduction.width(), rows,
                       detail::MergeRecords{});
  }
  reduction.write(space, rows, results);
}

}  // namespace fasttree
