// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan: host tables and their copy where kernels read them. Pure data, made by make_plan, read
// by every stage; one plan serves all layers of a model, and all steps until the requests change.

#include <string>
#include <vector>

#include <fasttree/core/kokkos.hpp>
#include <fasttree/plan/grouping.hpp>
#include <fasttree/plan/plan_tables.hpp>

namespace fasttree {

/// How much work a plan holds; read on the device, so that a launch does not depend on it.
struct PlanCounts {
  int items = 0;
  int narrow_queries = 0;  ///< items of more queries take the wide tile
  int merge_queries = 0;
};

/// A plan as kernels see it: pointers into memory that the AttentionPlan keeps.
struct PlanArrays {
  PlanCounts const* counts;
  WorkItem const* items;
  KeyRange const* ranges;
  int const* query_order;
  int const* visible_keys;
  int const* merge_queries;
  int const* merge_begin;
  int const* merge_partials;
};

namespace detail {

/// A host array where kernels of `Space` can read it: the array itself on the host, else a copy.
template <class Space, class T>
class DeviceArray {
 public:
  /// Enqueues the copy; grows the memory where it does not suffice.
  T const* upload(Space const& space, std::vector<T> const& host, char const* label) {
    if constexpr (runs_on_host<Space>) {
      return host.data();
    } else {
      if (memory_.extent(0) < host.size())
        memory_ = Kokkos::View<T*, Space>(
            Kokkos::view_alloc(space, Kokkos::WithoutInitializing, std::string(label)),
            host.size());
      if (!host.empty())
        Kokkos::deep_copy(
            space, Kokkos::subview(memory_, std::make_pair(std::size_t{0}, host.size())),
            Kokkos::View<T const*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                host.data(), host.size()));
      return memory_.data();
    }
  }

 private:
  Kokkos::View<T*, Space> memory_;
};

}  // namespace detail

/// A plan of attention over a tree for heads of `Shape`, for kernels of `Backend` on `Space`.
/// Movable, not copyable: its memory is made anew only when a larger plan is put into it. When
/// tokens are appended, or requests come and go, update it (update_plan.hpp) or plan anew.
template <class Space, class Shape, class Backend>
class AttentionPlan {
 public:
  using execution_space = Space;
  using shape_type = Shape;
  using backend_type = Backend;

  explicit AttentionPlan(Shape const& shape) : shape_(shape) {}
  AttentionPlan(AttentionPlan&&) = default;
  AttentionPlan& operator=(AttentionPlan&&) = default;

  Shape const& shape() const { return shape_; }
  PlanTables const& tables() const { return tables_; }
  PlanArrays const& arrays() const { return arrays_; }
  int queries() const { return static_cast<int>(tables_.query_order.size()); }

  /// Lets `write(grouping, tables)` write the tables, then enqueues their upload on `space`. Where
  /// that throws, the plan is as `write` leaves it.
  template <class Write>
  void rewrite(Space const& space, Write const& write) {
    try {
      write(grouping_, tables_);
    } catch (...) {
      upload(space);
      throw;
    }
    upload(space);
  }

 private:
  void upload(Space const& space) {
    counts_.assign(1, {static_cast<int>(tables_.items.size()), tables_.narrow_queries,
                       static_cast<int>(tables_.merge_queries.size())});
    arrays_.counts = counts_array_.upload(space, counts_, "fasttree::make_plan::counts");
    arrays_.items = items_.upload(space, tables_.items, "fasttree::make_plan::items");
    arrays_.ranges = ranges_.upload(space, tables_.ranges, "fasttree::make_plan::ranges");
    arrays_.query_order =
        query_order_.upload(space, tables_.query_order, "fasttree::make_plan::query_order");
    arrays_.visible_keys =
        visible_keys_.upload(space, tables_.visible_keys, "fasttree::make_plan::visible_keys");
    arrays_.merge_queries =
        merge_queries_.upload(space, tables_.merge_queries, "fasttree::make_plan::merge_queries");
    arrays_.merge_begin =
        merge_begin_.upload(space, tables_.merge_begin, "fasttree::make_plan::merge_begin");
    arrays_.merge_partials = merge_partials_.upload(space, tables_.merge_partials,
                                                    "fasttree::make_plan::merge_partials");
  }

  Shape shape_;
  Grouping grouping_;
  PlanTables tables_;
  std::vector<PlanCounts> counts_;
  PlanArrays arrays_{};
  detail::DeviceArray<Space, PlanCounts> counts_array_;
  detail::DeviceArray<Space, WorkItem> items_;
  detail::DeviceArray<Space, KeyRange> ranges_;
  detail::DeviceArray<Space, int> query_order_, visible_keys_, merge_queries_, merge_begin_,
      merge_partials_;
};

}  // namespace fasttree
