// SPDX-License-Identifier: Apache-2.0
// A step of decoding in a program of CUDA alone: its own stream, memory of its own, nothing of Kokkos
// to initialize. The keys and values of tokens lie where an allocator of the engine put them, so that
// a list says in which row each key slot lies. The step is captured into a graph, which is replayed
// after a request has grown by a token; each time it is checked against attention on the host.

#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using fasttree::half;

constexpr int query_heads = 32, kv_heads = 8, dim = 128, rows_of_cache = 4096;

void require(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  std::exit(1);
}

/// Memory of the device; this program frees nothing.
template <class T>
T* upload(std::vector<T> const& from) {
  void* to = nullptr;
  require(cudaMalloc(&to, from.size() * sizeof(T)));
  require(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(to);
}

/// The host's copy of what the step reads.
struct Step {
  std::vector<half> queries, keys, values;
  std::vector<int> row_of_slot;

  explicit Step(int requests, int slots) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    auto const fill = [&](std::vector<half>& array, int rows, int heads) {
      array.resize(std::size_t(rows) * heads * dim);
      for (half& x : array) x = half(normal(random));
    };
    fill(queries, requests, query_heads);
    fill(keys, rows_of_cache, kv_heads);
    fill(values, rows_of_cache, kv_heads);
    std::vector<int> rows(rows_of_cache);
    for (int i = 0; i < rows_of_cache; ++i) rows[i] = i;
    std::shuffle(rows.begin(), rows.end(), random);
    row_of_slot.assign(rows.begin(), rows.begin() + slots);
  }

  /// The largest error of `outputs`, which are all about 1 or less, of requests on these paths.
  double worst_error(std::vector<half> const& outputs,
                     std::vector<std::vector<int>> const& paths) const {
    double worst = 0;
    for (std::size_t row = 0; row < paths.size() * query_heads; ++row) {
      std::size_t const head = row % query_heads / (query_heads / kv_heads);
      double sum = 0;
      std::vector<double> exact(dim);
      for (int const slot : paths[row / query_heads]) {
        std::size_t const at = (std::size_t(row_of_slot[slot]) * kv_heads + head) * dim;
        double logit = 0;
        for (int i = 0; i < dim; ++i)
          logit += double(float(queries[row * dim + i])) * float(keys[at + i]);
        double const weight = std::exp(logit / std::sqrt(double(dim)));
        sum += weight;
        for (int i = 0; i < dim; ++i) exact[i] += weight * float(values[at + i]);
      }
      for (int i = 0; i < dim; ++i)
        worst = std::max(worst, std::abs(exact[i] / sum - float(outputs[row * dim + i])));
    }
    return worst;
  }
};

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 0;
  }
  cudaStream_t created;
  require(cudaStreamCreate(&created));
  fasttree::CudaStream const stream(created);

  // A prompt of 1000 tokens, shared by four requests with up to 20 tokens of their own and room for 4.
  int const parents[] = {-1, 0, 0, 0, 0}, lengths[] = {1000, 20, 17, 5, 1};
  fasttree::Request const requests[] = {{1}, {2}, {3}, {4}};
  fasttree::PrefixTree const tree(parents, lengths, requests, {.room = 4});
  fasttree::AttentionShape<half, dim> const shape{query_heads, kv_heads};
  auto plan = fasttree::make_plan(stream, tree, shape);

  // The engine's memory: the workspace as well.
  std::size_t const bytes = fasttree::workspace_bytes(stream, plan);
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes));
  auto const workspace = fasttree::make_workspace(stream, plan, {memory, bytes});
  Step const step(tree.queries(), static_cast<int>(tree.slots()));
  half* const output = upload(std::vector<half>(step.queries.size()));
  auto const queries =
      fasttree::row_major(upload(step.queries), {tree.queries(), query_heads, dim});
  auto const outputs = fasttree::row_major(output, {tree.queries(), query_heads, dim});
  auto const cache = fasttree::make_indexed_cache(
      stream, fasttree::row_major(upload(step.keys), {rows_of_cache, kv_heads, dim}),
      fasttree::row_major(upload(step.values), {rows_of_cache, kv_heads, dim}),
      fasttree::row_major(upload(step.row_of_slot), {tree.slots()}));

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  require(cudaStreamBeginCapture(created, cudaStreamCaptureModeThreadLocal));
  fasttree::tree_attention(stream, plan, queries, cache, outputs, workspace);
  require(cudaStreamEndCapture(created, &graph));
  require(cudaGraphInstantiate(&executable, graph, 0));

  bool right = true;
  for (int tokens = 0; tokens < 3; ++tokens) {
    if (tokens > 0) fasttree::append_tokens(stream, plan);
    require(cudaGraphLaunch(executable, created));
    std::vector<half> result(step.queries.size());
    require(cudaMemcpyAsync(result.data(), output, result.size() * sizeof(half),
                            cudaMemcpyDeviceToHost, created));
    require(cudaStreamSynchronize(created));
    std::vector<std::vector<int>> paths(tree.queries());
    for (int node = 1; node < tree.nodes(); ++node) {
      for (int slot = 0; slot < lengths[0]; ++slot) paths[node - 1].push_back(slot);
      for (int i = 0; i < lengths[node] + tokens; ++i)
        paths[node - 1].push_back(static_cast<int>(tree.slot_begin(node)) + i);
    }
    double const error = step.worst_error(result, paths);
    std::printf("%d tokens more: error %.1e\n", tokens, error);
    right = right && error < 2e-3;  // weights, values and outputs have 11 bits
  }
  std::puts(right ? "all outputs are right" : "an output is wrong");
  return right ? 0 : 1;
}
