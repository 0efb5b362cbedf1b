// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stage 2: the partial results of a query, merged into its final output.

#include <fasttree/backend/select.hpp>

namespace fasttree {

/// Enqueues the merge of what partial_attention left. Arguments were checked by the verb that calls
/// it.
template <class Space, class Shape, class Backend, class Output, LogBase Base>
void merge_partials(Space const& space, AttentionPlan<Space, Shape, Backend> const& plan,
                    Results<Output, Base> const& results, Workspace<Space> const& workspace) {
  Backend::merge_partials(space, plan, results, workspace);
}

}  // namespace fasttree
