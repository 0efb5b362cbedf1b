// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verbs between two plans: a plan follows its requests while they grow, end and arrive, at a
// small part of the time of make_plan. Each edits the plan's tables and enqueues their upload;
// nothing is waited for, and once the memory suffices nothing is allocated. Work that was enqueued
// on `space` before sees the plan as it was; on a host space nothing may be running that uses it.
//
// A tree need not be made for any of them: the caller edits arrays of parents, lengths, slots and
// requests, and makes a PrefixTree of them for the next plan. To split a node or to drop one that
// no request needs changes no plan at all.

#include <span>

#include <fasttree/make_plan.hpp>
#include <fasttree/planner/update_tables.hpp>

namespace fasttree {

/// Lets every query see one key more: that of a token whose key lies in the slot behind the last
/// key of its path.
///
/// Returns false, and leaves the plan as it is, where some query has no such slot of its own: the
/// tree's room is used up (SlotLayout::room), a request hangs on an empty node or on one that
/// another attends to, or asks several queries. Then append to the tree and plan anew. Time: linear
/// in queries; the first time after a plan also in work items and their ranges.
template <class Space, class Shape, class Backend>
bool append_tokens(Space const& space, AttentionPlan<Space, Shape, Backend>& plan) {
  bool appended = false;
  plan.rewrite(space, [&](Grouping&, PlanTables& tables) { appended = append_tokens(tables); });
  return appended;
}

/// Takes a request out of the plan.
///
/// \param row  its row in the query and output arrays; later rows move up by one, as if it were
///             erased. Of a request of several queries, each row is removed by a call.
///
/// The workspace keeps its size: partial results that are left unused are given to requests added.
/// Errors: `Error` where there is no such row; the plan stays as it is. Time: linear in queries,
/// work items and their ranges.
template <class Space, class Shape, class Backend>
void remove_request(Space const& space, AttentionPlan<Space, Shape, Backend>& plan, int row) {
  plan.rewrite(space, [&](Grouping&, PlanTables& tables) { remove_request(tables, row); });
}

/// Adds a request of one query, which takes the last row of the query and output arrays.
///
/// \param path  slots of the keys that it attends to, from the root down; any, whether other
///              requests attend to them or not. The cache must have them.
/// \param room  free slots behind the last of them that are the request's own, for append_tokens;
///              0 where another request attends to the last node of the path; counts as 0 where
///              that is empty
///
/// Until the next plan the request shares nothing: it costs its whole path's keys, where a new plan
/// might read most of them with those of others. They are cut into items no longer than the longest
/// of the plan; more than one of them need as many partial results more, so ask workspace_bytes
/// again. Errors: `Error` on negative numbers and where the plan outgrows its limits; it stays as
/// it is. Time: linear in work items and in the path; now and then in ranges as well.
template <class Space, class Shape, class Backend>
void add_request(Space const& space, AttentionPlan<Space, Shape, Backend>& plan,
                 std::span<SlotRange const> path, int room = 0) {
  PlanTarget const target = detail::plan_target(space, plan);
  plan.rewrite(space,
               [&](Grouping&, PlanTables& tables) { add_request(tables, target, path, room); });
}

}  // namespace fasttree
