// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stage 1: every work item of a plan, to final outputs where it is alone and to partial results
// where it is not.

#include <fasttree/backend/select.hpp>

namespace fasttree {

/// Enqueues the work items of `plan`. Arguments were checked by the verb that calls it.
template <class Space, class Shape, class Backend, KVCache Cache, class Output, LogBase Base>
void partial_attention(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                       StridedArray<typename Shape::element_type const, 3> queries,
                       Cache const& cache, Results<Output, Base> const& results,
                       Workspace<Space> const& workspace) {
  Backend::partial_attention(space, plan, queries, cache, results, workspace);
}

}  // namespace fasttree
