// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stage of a plan: every work item, to final outputs where it has its queries for itself and to
// partial results where it has not; and the merge of a query's partial results.

#include <fasttree/backend/select.hpp>

namespace fasttree {

/// Enqueues the work of `plan`. Arguments were checked by the verb that calls it.
template <class Space, class Shape, class Backend, KVCache Cache, class Output, LogBase Base>
void attend(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
            StridedArray<typename Shape::element_type const, 3> queries, Cache const& cache,
            Results<Output, Base> const& results, Workspace<Space> const& workspace) {
  Backend::attend(space, plan, queries, cache, results, workspace);
}

}  // namespace fasttree
