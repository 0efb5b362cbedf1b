// SPDX-License-Identifier: Apache-2.0
// The kernels that most programs run, for codegen.cmake, which looks at what becomes of them. Left out are
// heads of 256 for keys and values, of which a few registers are spilled.

#include <cstdint>

#include <fasttree/cache/contiguous_cache.hpp>
#include <fasttree/cache/indexed_cache.hpp>
#include <fasttree/cache/paged_cache.hpp>
#include <fasttree/stages/attend.hpp>

namespace fasttree {

template <class Cache, int HeadDim = 128, int ValueDim = HeadDim>
struct Kernel {
  using Stored = typename Cache::element_type;
  using Shape = AttentionShape<Stored, HeadDim, ValueDim>;
  using Plan = AttentionPlan<CudaStream, Shape, DefaultBackend<CudaStream, Shape>>;

  static void enqueue(CudaStream const& stream, Plan const& plan, Cache const& cache,
                      Workspace<CudaStream> const& workspace) {
    attend(stream, plan, {}, cache, Results<Stored, LogBase::e>{}, workspace);
  }
};

template struct Kernel<ContiguousCache<half>>;
template struct Kernel<ContiguousCache<bfloat16>>;
template struct Kernel<IndexedCache<half, std::int32_t>>;
template struct Kernel<IndexedCache<bfloat16, std::int32_t>>;
template struct Kernel<PagedCache<half, std::int32_t>>;
template struct Kernel<PagedCache<bfloat16, std::int32_t>>;
template struct Kernel<ContiguousCache<half>, 64>;
template struct Kernel<ContiguousCache<half>, 96>;
#if __CUDA_ARCH_LIST__ != 890  // whose shared memory is too small for larger heads
template struct Kernel<ContiguousCache<half>, 192, 128>;
template struct Kernel<ContiguousCache<half>, 192>;
#endif

}  // namespace fasttree
