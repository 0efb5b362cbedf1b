// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan: host tables and their copy where kernels read them. Pure data, made by make_plan, read
// by every stage; one plan serves all layers of a model, and all steps until the requests change.

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <fasttree/core/integers.hpp>
#include <fasttree/core/kokkos.hpp>
#include <fasttree/core/memory.hpp>
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
  std::size_t bytes;  ///< of all, one behind the other; on the host 0
};

namespace detail {

/// A host array, and where to say where kernels find it.
template <class T>
struct Upload {
  std::vector<T> const& from;
  T const*& to;
};

/// Host arrays where kernels of `Space` can read them: the arrays themselves on the host, else
/// copies, which keep their places until one of them outgrows its own.
template <class Space, int Arrays>
class UploadedArrays {
 public:
  /// Enqueues one copy of all arrays. Returns its bytes, which begin at the first array.
  template <class... T>
  requires(sizeof...(T) == Arrays) std::size_t
      upload(Space const& space, Upload<T> const&... arrays) {
    if constexpr (runs_on_host<Space>) {
      ((arrays.to = arrays.from.data()), ...);
      return 0;
    } else {
      reserve(space, {arrays.from.size() * sizeof(T)...});
      std::size_t i = 0, end = 0;
      auto const place = [&]<class E>(Upload<E> const& array) {
        std::size_t const begin = sections_[i++].begin;
        std::copy(array.from.begin(), array.from.end(), reinterpret_cast<E*>(host_.data() + begin));
        array.to = reinterpret_cast<E const*>(memory_.data() + begin);
        end = begin + array.from.size() * sizeof(E);
      };
      (place(arrays), ...);
      fasttree::upload(space, memory_, host_.data(), end);
      return end;
    }
  }

 private:
  struct Section {
    std::size_t begin = 0, bytes = 0;
  };

  void reserve(Space const& space, std::array<std::size_t, Arrays> const& bytes) {
    constexpr std::size_t alignment = 64;
    bool fits = memory_.data() != nullptr;
    for (int i = 0; i < Arrays; ++i) fits = fits && bytes[i] <= sections_[i].bytes;
    if (fits) return;
    std::array<Section, Arrays> sections;
    std::size_t end = 0;
    for (int i = 0; i < Arrays; ++i) {
      sections[i] = {end, std::max(bytes[i], sections_[i].bytes)};
      end += round_up(sections[i].bytes, alignment);
    }
    host_.resize(end);
    memory_ = allocate(space, "fasttree::make_plan::tables", end);
    sections_ = sections;
  }

  std::array<Section, Arrays> sections_{};
  std::vector<std::byte> host_;
  Memory<Space> memory_;
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
    auto const array = []<class T>(std::vector<T> const& from, T const*& to) {
      return detail::Upload<T>{from, to};
    };
    arrays_.bytes = uploaded_.upload(
        space, array(counts_, arrays_.counts), array(tables_.items, arrays_.items),
        array(tables_.ranges, arrays_.ranges), array(tables_.query_order, arrays_.query_order),
        array(tables_.visible_keys, arrays_.visible_keys),
        array(tables_.merge_queries, arrays_.merge_queries),
        array(tables_.merge_begin, arrays_.merge_begin),
        array(tables_.merge_partials, arrays_.merge_partials));
  }

  Shape shape_;
  Grouping grouping_;
  PlanTables tables_;
  std::vector<PlanCounts> counts_;
  PlanArrays arrays_{};
  detail::UploadedArrays<Space, 8> uploaded_;
};

}  // namespace fasttree
