// SPDX-License-Identifier: Apache-2.0
// Partial results as a public type: merge row by row, on the instance, without a fence or an
// allocation.

#include <fasttree/core/partials.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/random.hpp"
#include "support/space.hpp"
#include "support/tools.hpp"

namespace {

using namespace fasttree;
using fasttree::test::Space;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

struct Row {
  float output, log_sum_exp;
};

/// Partial results of one head and dimension, one for each row.
Partials<Space> partials_of(std::vector<Row> const& rows) {
  auto const partials = make_partials(Space{}, static_cast<int>(rows.size()), 1, 1);
  auto const outputs = Kokkos::create_mirror_view(partials.outputs);
  auto const log_sum_exps = Kokkos::create_mirror_view(partials.log_sum_exps);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    outputs(i, 0, 0) = rows[i].output;
    log_sum_exps(i, 0).value = rows[i].log_sum_exp;
  }
  Kokkos::deep_copy(partials.outputs, outputs);
  Kokkos::deep_copy(partials.log_sum_exps, log_sum_exps);
  return partials;
}

std::vector<Row> rows_of(Partials<Space> const& partials) {
  auto const outputs = Kokkos::create_mirror_view(partials.outputs);
  auto const log_sum_exps = Kokkos::create_mirror_view(partials.log_sum_exps);
  Kokkos::deep_copy(outputs, partials.outputs);
  Kokkos::deep_copy(log_sum_exps, partials.log_sum_exps);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < outputs.extent(0); ++i)
    rows.push_back({outputs(i, 0, 0), log_sum_exps(i, 0).value});
  return rows;
}

std::vector<Row> merged(std::vector<Row> const& a, std::vector<Row> const& b) {
  auto const into = partials_of(a);
  merge(Space{}, into, partials_of(b));
  Space{}.fence();
  return rows_of(into);
}

}  // namespace

TEST_CASE("merge of partial results, row by row: values, empty sides, garbage") {
  auto const rows =
      merged({{2, 0}, {quiet_nan, -infinity}, {5, 1}, {quiet_nan, -infinity}, {1, 1e30f}},
             {{4, 0}, {3, 2}, {quiet_nan, -infinity}, {infinity, -infinity}, {3, 1e30f}});
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].output == 3.f);
  CHECK(rows[0].log_sum_exp == static_cast<float>(std::log(2.0)));
  CHECK(rows[1].output == 3.f);
  CHECK(rows[1].log_sum_exp == 2.f);
  CHECK(rows[2].output == 5.f);
  CHECK(rows[2].log_sum_exp == 1.f);
  CHECK(rows[3].output == 0.f);
  CHECK(rows[3].log_sum_exp == -infinity);
  CHECK(rows[4].output == 2.f);
}

TEST_CASE("merge of partial results is commutative to the bit") {
  test::Random random(3);
  std::vector<Row> a, b;
  for (int i = 0; i < 1000; ++i) {
    a.push_back({random.real(4), random.real(9)});
    b.push_back({random.real(4), random.one_in(9) ? -infinity : random.real(9)});
  }
  auto const ab = merged(a, b), ba = merged(b, a);
  int different = 0;
  for (int i = 0; i < 1000; ++i)
    different += ab[i].output != ba[i].output || ab[i].log_sum_exp != ba[i].log_sum_exp;
  CHECK(different == 0);
}

TEST_CASE("merge of no rows is nothing") { CHECK(merged({}, {}).empty()); }

TEST_CASE("merge refuses partial results of another shape and changes nothing") {
  auto const a = make_partials(Space{}, 2, 3, 8);
  auto const refused = [&](int rows, int heads, int value_dim, char const* message) {
    auto const b = make_partials(Space{}, rows, heads, value_dim);
    test::ToolEvents const events;
    CHECK_THROWS_WITH_AS(merge(Space{}, a, b), message, Error);
    CHECK(events.kernels() == "");
  };
  refused(1, 3, 8, "fasttree::merge: b.outputs.extent(0): expected 2, found 1");
  refused(2, 4, 8, "fasttree::merge: b.outputs.extent(1): expected 3, found 4");
  refused(2, 3, 16, "fasttree::merge: b.outputs.extent(2): expected 8, found 16");
}

TEST_CASE("merge launches one labelled kernel and neither allocates nor fences") {
  auto const a = partials_of({{1, 0}}), b = partials_of({{3, 0}});
  test::ToolEvents const events;
  merge(Space{}, a, b);
  CHECK(events.kernels() == "fasttree::merge::rows");
  CHECK(events.allocations() == "");
  CHECK(events.fences() == "");
}
