// SPDX-License-Identifier: Apache-2.0
// Attention on a stream of CUDA, in memory that cudaMalloc gave, against the oracle and against the
// portable backend on the host; and as a captured graph, which holds one kernel and nothing else.

#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "support/problem.hpp"
#include "support/random_forest.hpp"

namespace {

using namespace fasttree;
using namespace fasttree::test;

/// The test runner takes a program that prints this for one that was skipped.
void skip_without_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return;
  std::puts("skipped: no GPU");
  std::exit(0);
}

/// Memory of the device with a copy of host memory, or filled with nan. It is there when the
/// constructor ends: cudaMemcpy from pageable memory may return earlier, and new streams wait for
/// no other.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::vector<T> const& from) : size_(from.size()) {
    REQUIRE(cudaMalloc(&data_, size_ * sizeof(T) + 1) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  explicit OnDevice(std::size_t size) : OnDevice(std::vector<T>(size, poison<T>())) {}
  ~OnDevice() { cudaFree(data_); }
  OnDevice(OnDevice const&) = delete;
  OnDevice& operator=(OnDevice const&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> all(size_);
    REQUIRE(cudaMemcpy(all.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return all;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

struct NewStream {
  cudaStream_t stream = nullptr;
  NewStream() {
    skip_without_device();
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~NewStream() { cudaStreamDestroy(stream); }
};

/// The arrays of a problem in plain memory of the device, and attention that reads and writes them.
template <class P>
struct DeviceProblem {
  using Shape = typename P::Shape;
  using Stored = typename P::Stored;

  std::int64_t rows, slots, query_heads, kv_heads;
  OnDevice<Stored> queries, keys, values, outputs;
  OnDevice<NaturalLogSumExp> log_sum_exps;

  explicit DeviceProblem(P const& of)
      : rows(of.tree.queries()),
        slots(of.slots()),
        query_heads(of.shape.query_heads),
        kv_heads(of.shape.kv_heads),
        queries(of.queries),
        keys(of.keys),
        values(of.values),
        outputs(rows * query_heads * Shape::value_dim),
        log_sum_exps(rows * query_heads) {}

  template <class Plan, class Cache>
  void attend(CudaStream const& stream, Plan const& plan, Cache const& cache,
              Workspace<CudaStream> const& workspace) const {
    tree_attention(stream, plan,
                   row_major<Stored const>(queries.data(), {rows, query_heads, Shape::head_dim}),
                   cache, row_major(outputs.data(), {rows, query_heads, Shape::value_dim}),
                   row_major(log_sum_exps.data(), {rows, query_heads}), workspace);
  }

  Result<Stored> read() const {
    Result<Stored> result{outputs.read(), {}, unit_roundoff<Stored>};
    for (auto const x : log_sum_exps.read()) result.log_sum_exps.push_back(x.value);
    return result;
  }
};

template <class P>
auto contiguous_cache(CudaStream const& stream, DeviceProblem<P> const& device) {
  using Shape = typename P::Shape;
  return make_contiguous_cache(
      stream, row_major(device.keys.data(), {device.slots, device.kv_heads, Shape::head_dim}),
      row_major(device.values.data(), {device.slots, device.kv_heads, Shape::value_dim}));
}

/// Against the oracle, as the portable backend is.
template <class P>
void is_right(P const& problem, Result<typename P::Stored> const& result) {
  Answer const answer = problem.answer();
  CHECK(worst_error(result, answer, P::Shape::head_dim) <= 1);
  auto const portable = attend_by<portable::Backend<Space>>(problem, contiguous_cache(problem));
  CHECK(worst_error(portable, answer, P::Shape::head_dim) <= 1);
}

template <class Shape, class Policy>
void attends(std::uint64_t seed, int ratio, Policy const& policy) {
  CAPTURE(seed);
  NewStream const created;
  CudaStream const stream(created.stream);
  int const kv_heads = 1 + static_cast<int>(seed) % 3;
  Problem<Shape> const problem(random_forest(seed, {12, 90, 14, 4}),
                               {.query_heads = ratio * kv_heads, .kv_heads = kv_heads}, seed);
  DeviceProblem const device(problem);
  auto const plan = make_plan(stream, problem.tree, problem.shape, policy);
  OnDevice<std::uint32_t> const memory(workspace_bytes(stream, plan) / 4 + 1);
  auto const workspace =
      make_workspace(stream, plan, {memory.data(), workspace_bytes(stream, plan)});
  device.attend(stream, plan, contiguous_cache(stream, device), workspace);
  stream.fence();
  is_right(problem, device.read());
}

}  // namespace

TEST_CASE("half and bfloat16 in plain memory, forests of all kinds") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    attends<AttentionShape<fasttree::half, 128>>(seed, 1 + static_cast<int>(seed) % 5,
                                                 ShareEveryNode{});
    attends<AttentionShape<bfloat16, 64>>(seed, 4, MinimalTraffic<MachineCosts>{});
  }
}

TEST_CASE("pages in any place, strides of all dimensions") {
  using Shape = AttentionShape<bfloat16, 128>;
  constexpr int page_size = 16, dim = 128;
  NewStream const created;
  CudaStream const stream(created.stream);
  Problem<Shape> const problem(level_forest({1, 4, 32}, {150, 70, 21}),
                               {.query_heads = 8, .kv_heads = 2}, 7, page_size);
  std::int64_t const entries = problem.slots() / page_size, heads = problem.shape.kv_heads;
  // Pages in the reverse order; keys and values in one array, (page, keys or values, head, token).
  std::vector<bfloat16> pages(entries * 2 * heads * page_size * dim, poison<bfloat16>());
  std::vector<std::int32_t> table(entries);
  std::int64_t const of_head = page_size * dim, of_part = heads * of_head, of_page = 2 * of_part;
  for (std::int64_t slot = 0; slot < problem.slots(); ++slot) {
    std::int64_t const page = entries - 1 - slot / page_size;
    table[slot / page_size] = static_cast<std::int32_t>(page);
    for (std::int64_t i = 0; i < heads * dim; ++i) {
      std::int64_t const at = page * of_page + i / dim * of_head + slot % page_size * dim + i % dim;
      pages[at] = problem.keys[slot * heads * dim + i];
      pages[at + of_part] = problem.values[slot * heads * dim + i];
    }
  }
  DeviceProblem const device(problem);
  OnDevice<bfloat16> const pool(pages);
  OnDevice<std::int32_t> const page_table(table);
  StridedArray<bfloat16 const, 4> const keys{
      pool.data(), {entries, page_size, heads, dim}, {of_page, dim, of_head, 1}};
  StridedArray<bfloat16 const, 4> values = keys;
  values.data += of_part;
  auto const cache =
      make_paged_cache(stream, keys, values, row_major(page_table.data(), {entries}));
  auto const plan = make_plan(stream, problem.tree, problem.shape);
  auto const workspace = make_workspace(stream, plan);
  device.attend(stream, plan, cache, workspace);
  stream.fence();
  is_right(problem, device.read());
}

TEST_CASE("a captured graph is one kernel, and follows the plan's memory") {
  using Shape = AttentionShape<fasttree::half, 64>;
  NewStream const created;
  CudaStream const stream(created.stream);
  Shape const shape{.query_heads = 8, .kv_heads = 2};
  Forest forest = level_forest({1, 4, 16}, {100, 30, 20});
  Problem<Shape> const one(forest, shape);
  DeviceProblem const device(one);
  // Both plans before the capture, so that there is memory for the tables of either.
  auto plan = make_plan(stream, one.tree, shape, ShareEveryNode{});
  auto const workspace = make_workspace(stream, plan);
  make_plan_into(stream, one.tree, plan, NoSharing{});
  auto const cache = contiguous_cache(stream, device);
  stream.fence();
  // In this mode CUDA refuses to wait or to allocate, in all threads, for as long as it captures.
  REQUIRE(cudaStreamBeginCapture(created.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  device.attend(stream, plan, cache, workspace);
  cudaGraph_t graph;
  REQUIRE(cudaStreamEndCapture(created.stream, &graph) == cudaSuccess);
  cudaGraphNode_t nodes[2];
  std::size_t count = 2;
  REQUIRE(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess);
  REQUIRE(count == 1);
  cudaGraphNodeType type;
  REQUIRE(cudaGraphNodeGetType(nodes[0], &type) == cudaSuccess);
  CHECK(type == cudaGraphNodeTypeKernel);
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  auto const replay = [&] {
    REQUIRE(cudaGraphLaunch(executable, created.stream) == cudaSuccess);
    stream.fence();
    return device.read();
  };
  is_right(one, replay());
  make_plan_into(stream, one.tree, plan, ShareEveryNode{});
  is_right(one, replay());
  // Without its first request, the others' queries are in the rows before their own.
  forest.requests.erase(forest.requests.begin());
  Problem<Shape> fewer(forest, shape);
  fewer.keys = one.keys;
  fewer.values = one.values;
  fewer.queries.assign(one.queries.begin(), one.queries.begin() + fewer.queries.size());
  remove_request(stream, plan, 0);
  auto result = replay();
  result.outputs.resize(fewer.queries.size());
  result.log_sum_exps.resize(fewer.tree.queries() * shape.query_heads);
  is_right(fewer, result);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_CASE("a workspace that is too small, or not aligned, is refused") {
  NewStream const created;
  CudaStream const stream(created.stream);
  AttentionShape<fasttree::half, 128> const shape{.query_heads = 4, .kv_heads = 2};
  auto const plan = make_plan(stream, level_forest({1, 4}, {100, 30}).tree(), shape);
  std::size_t const bytes = workspace_bytes(stream, plan);
  OnDevice<std::uint32_t> const memory(bytes / 4 + 1);
  CHECK_NOTHROW(make_workspace(stream, plan, {memory.data(), bytes}));
  CHECK_THROWS_AS(make_workspace(stream, plan, {memory.data(), bytes - 1}), Error);
  CHECK_THROWS_AS(make_workspace(stream, plan, {memory.data() + 1, bytes}), Error);
}
