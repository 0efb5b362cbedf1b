// SPDX-License-Identifier: Apache-2.0
// The loops in which attention spends its time on a host, each in a function of its own, compiled to
// assembly text, which vectorised.cmake reads.

#include <fasttree/backend/portable/narrow.hpp>
#include <fasttree/backend/portable/panel.hpp>

using namespace fasttree;
using namespace fasttree::portable;

constexpr int N = native_lanes, dim = 128;

extern "C" {

void panel_multiply_keys(float const* keys, float const* queries, float* scores) {
  multiply_keys<N, 3, dim>(keys, queries, scores);
}

void panel_multiply_values(float const* values, int count, Panel<N> const& panel,
                           Lanes<N> const (&correction)[3], float* outputs) {
  multiply_values<N, 3, dim, false>(values, count, panel, correction, outputs);
}

void narrow_multiply_keys(bfloat16 const* const* keys, int count, float const* queries,
                          float* scores) {
  store<N>(multiply_keys<N, 4, dim>(keys, count, queries), scores);
}

void narrow_multiply_values(bfloat16 const* const* values, int count, NarrowPanel<N> const& panel,
                            float const* correction) {
  multiply_values<N, 4, dim, 2, false>(values, count, 0, panel, correction);
}

}  // extern "C"
