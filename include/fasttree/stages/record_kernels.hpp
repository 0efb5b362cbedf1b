// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kernels of a reduction over ranks, on any space. A record is a row of floats: value_dim of
// output, then a natural log-sum-exp; each is the work of one thread of a team, whose vector lanes
// share its floats.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fasttree/backend/select.hpp>
#include <fasttree/comm/messages.hpp>
#include <fasttree/core/integers.hpp>
#include <fasttree/core/log_sum_exp.hpp>

namespace fasttree::detail {

/// `items`, where kernels read them.
template <class T, class Space>
Kokkos::View<T*, Space> uploaded(Space const& space, char const* label,
                                 std::vector<T> const& items) {
  Kokkos::View<T*, Space> const to(
      Kokkos::view_alloc(space, Kokkos::WithoutInitializing, std::string(label)), items.size());
  auto const mirror = Kokkos::create_mirror_view(to);
  std::copy(items.begin(), items.end(), mirror.data());
  Kokkos::deep_copy(space, to, mirror);
  space.fence();
  return to;
}

/// Lanes for a row: a warp's.
template <class Space>
inline constexpr int row_lanes = runs_on_host<Space> ? 1 : 32;

/// Calls kernel(team, row).
template <class Space, class Kernel>
struct EachRow {
  RowRange rows;
  Kernel kernel;

  KOKKOS_INLINE_FUNCTION void operator()(
      typename Kokkos::TeamPolicy<Space>::member_type const& team) const {
    std::int64_t const row =
        rows.begin + std::int64_t{team.league_rank()} * team.team_size() + team.team_rank();
    if (row < rows.end) kernel(team, row);
  }
};

/// Enqueues kernel(team, row) for each of the rows.
template <class Space, class Kernel>
void for_each_row(char const* label, Space const& space, RowRange rows, Kernel const& kernel) {
  int const threads = runs_on_host<Space> ? 1 : 4;
  auto const teams = static_cast<int>(ceil_div<std::int64_t>(rows.size(), threads));
  Kokkos::parallel_for(label, Kokkos::TeamPolicy<Space>(space, teams, threads, row_lanes<Space>),
                       EachRow<Space, Kernel>{rows, kernel});
}

/// What is done to two rows of floats: into := op(left, right), which may be the same row as either.
struct MergeRecords {
  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, float* into, float const* left,
                                         float const* right, int width) const {
    int const value_dim = width - 1;
    auto const weights =
        merge_weights(NaturalLogSumExp{left[value_dim]}, NaturalLogSumExp{right[value_dim]});
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, value_dim),
                         [&](int i) { into[i] = merge_outputs(weights, left[i], right[i]); });
    // After that loop all lanes have read both.
    Kokkos::single(Kokkos::PerThread(team), [&] { into[value_dim] = weights.log_sum_exp.value; });
  }
};
struct MaximumOfRows {
  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, float* into, float const* left,
                                         float const* right, int width) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, width),
                         [&](int i) { into[i] = left[i] < right[i] ? right[i] : left[i]; });
  }
};
struct SumOfRows {
  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, float* into, float const* left,
                                         float const* right, int width) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, width),
                         [&](int i) { into[i] = left[i] + right[i]; });
  }
};

/// The merges of a round, of rows at places.
template <class Team, class At, class Operator>
KOKKOS_INLINE_FUNCTION void merge_places(Team const& team, ScheduledMerge const* merges, int count,
                                         At const& at, int width, Operator const& op) {
  for (int i = 0; i < count; ++i)
    op(team, at(merges[i].into), at(merges[i].left), at(merges[i].right), width);
}

/// The merges of a round, whose slots and own rows begin with the same row.
template <class Operator>
struct MergeRows {
  Operator op;
  ScheduledMerge const* merges;
  int count;
  SlotRows const* slots;
  float* own;
  int width;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    auto const at = [&](int place) {
      return (place == ScheduledMerge::own ? own : slots[place].data) + row * width;
    };
    merge_places(team, merges, count, at, width, op);
  }
};

/// What was received takes the place of own rows.
struct PutInPlace {
  float* own;
  SlotRows const* slot;
  int width;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    float const* const received = slot->data + row * width;
    float* const to = own + row * width;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, width),
                         [&](int i) { to[i] = received[i]; });
  }
};

/// The weight of a log-sum-exp below the maximum of all; 1 for equal ones, infinite ones too.
KOKKOS_INLINE_FUNCTION float weight_below(float maximum, float log_sum_exp) {
  if (log_sum_exp == -infinity) return 0.f;
  return log_sum_exp == maximum ? 1.f : std::exp(log_sum_exp - maximum);
}

/// Records, and of each the maximum of its log-sum-exps; at these distances the sum of weights and
/// the weighted outputs.
struct SumsOfRecords {
  float* records;
  int value_dim;
  float *maxima, *weights, *outputs;
  int next_weight, next_output;

  KOKKOS_INLINE_FUNCTION float* record(std::int64_t row) const {
    return records + row * (value_dim + 1);
  }
};

struct CopyLogSumExps {
  SumsOfRecords sums;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    Kokkos::single(Kokkos::PerThread(team),
                   [&] { sums.maxima[row] = sums.record(row)[sums.value_dim]; });
  }
};

struct WeighRecords {
  SumsOfRecords sums;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    float const* const record = sums.record(row);
    float const weight = weight_below(sums.maxima[row], record[sums.value_dim]);
    float* const outputs = sums.outputs + row * sums.next_output;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, sums.value_dim),
                         [&](int i) { outputs[i] = weight != 0.f ? weight * record[i] : 0.f; });
    Kokkos::single(Kokkos::PerThread(team), [&] { sums.weights[row * sums.next_weight] = weight; });
  }
};

struct DivideBySums {
  SumsOfRecords sums;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    float const maximum = sums.maxima[row];
    float all = sums.weights[row * sums.next_weight];
    // Of two that are infinite no merge knows the shares.
    if (maximum == infinity && all != 1.f) all = maximum - maximum;
    float const* const outputs = sums.outputs + row * sums.next_output;
    float* const record = sums.record(row);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, sums.value_dim),
                         [&](int i) { record[i] = all != 0.f ? outputs[i] / all : 0.f; });
    Kokkos::single(Kokkos::PerThread(team), [&] {
      record[sums.value_dim] = all != 0.f ? maximum + std::log(all) : -infinity;
    });
  }
};

/// Copies a merged record to the output.
template <class Output, LogBase Base>
struct WriteRecord {
  Results<Output, Base> results;
  std::int64_t queries;
  int value_dim;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row,
                                         float const* record) const {
    int const query = static_cast<int>(row % queries);
    int const head = static_cast<int>(row / queries);
    float const log_sum_exp = record[value_dim];
    bool const has_keys = log_sum_exp != -infinity;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, value_dim), [&](int i) {
      results.outputs(query, head, i) = static_cast<Output>(has_keys ? record[i] : 0.f);
    });
    Kokkos::single(Kokkos::PerThread(team),
                   [&] { results.write_log_sum_exp(query, head, {log_sum_exp}); });
  }
};

template <class Output, LogBase Base>
struct WriteRecords {
  WriteRecord<Output, Base> write;
  float const* records;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team, std::int64_t row) const {
    write(team, row, records + row * (write.value_dim + 1));
  }
};

}  // namespace fasttree::detail
