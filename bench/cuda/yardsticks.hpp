// SPDX-License-Identifier: Apache-2.0
#pragma once
// By what times are judged: what an H200 can do at best, and what is aimed for. Times are in
// microseconds.

#include <algorithm>

#include "../support/json_fields.hpp"

namespace fasttree::bench {

/// What a call must move and compute, whatever the plan: each key and value that some query attends
/// to once, queries and outputs once; and each pair of a query and a key on its path.
struct Demand {
  double bytes = 0, dense_bytes = 0, flops = 0;
};

/// Of an H200. The limit is that of a kernel that reads its bytes once and writes a row.
struct Yardsticks {
  double bandwidth = 4.5e12;    ///< bytes a second
  double matrix_rate = 700e12;  ///< flops a second
  double roofline_factor = 1.05;
  double roofline_more_us = 7;
  double limit_launch_us = 4.2;
  double limit_bandwidth = 4.54e12;
  double limit_factor = 1.03;
  double limit_more_us = 4;

  constexpr double roofline_us(Demand const& demand) const {
    return 1e6 * std::max(demand.bytes / bandwidth, demand.flops / matrix_rate);
  }
  constexpr double limit_us(Demand const& demand) const {
    return limit_launch_us + 1e6 * demand.bytes / limit_bandwidth;
  }
  /// Where sharing decides, the roofline says what is possible; without sharing the limit does.
  constexpr double aim_us(Demand const& demand, bool sharing) const {
    return sharing ? roofline_factor * roofline_us(demand) + roofline_more_us
                   : limit_factor * limit_us(demand) + limit_more_us;
  }

  std::string json() const {
    return Fields()
        .add("bandwidth", bandwidth)
        .add("matrix_rate", matrix_rate)
        .add("roofline_factor", roofline_factor)
        .add("roofline_more_us", roofline_more_us)
        .add("limit_launch_us", limit_launch_us)
        .add("limit_bandwidth", limit_bandwidth)
        .add("limit_factor", limit_factor)
        .add("limit_more_us", limit_more_us)
        .text();
  }
};

inline constexpr Yardsticks h200;

}  // namespace fasttree::bench
