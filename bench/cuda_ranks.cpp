// SPDX-License-Identifier: Apache-2.0
// Ranks with an NVIDIA GPU each, started by mpirun: how long it takes to combine partial results (32
// heads of 128 floats for each query), beside NCCL's collectives; and the attention of a step of
// decoding with a long context, in the layers of Llama 3.1 8B, beside one GPU and beside a ring that
// passes keys and values on. Every point is checked
// before it is timed and afterwards, on all ranks; times are of CUDA graphs, the largest of any
// rank's median.
//     mpirun -np 2 bench_cuda_ranks --out FILE [--only TEXT] [--repetitions N] [--commit TEXT]
// Exit status: 0; 1 where a point failed; 2 for arguments that cannot be.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include <fasttree/comm/nccl_communicator.hpp>
#include <fasttree/distributed_attention.hpp>
#include "cuda/context.hpp"
#include "cuda/options.hpp"
#include "cuda/rank_rivals.hpp"
#include "cuda/timing.hpp"
#include "support/forests.hpp"
#include "support/replace_file.hpp"

namespace fasttree::bench {
namespace {

constexpr int query_heads = 32, kv_heads = 8, layers = 32;
using Shape = AttentionShape<half, head_dim>;
using Call = std::function<void()>;

void meet() { MPI_Barrier(MPI_COMM_WORLD); }

double largest_of_all(double mine) {
  double largest = 0;
  MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return largest;
}

/// In microseconds: of one call among many in a graph, and of a graph of one after another.
struct RankTimes {
  double among_many, alone;
};

class RankStopwatch {
 public:
  RankStopwatch(Space const& space, NcclCommunicator& communicator)
      : space_(space), communicator_(communicator) {
    for (cudaEvent_t& event : events_) cuda::check(cudaEventCreate(&event), "bench", "event");
  }
  ~RankStopwatch() {
    for (cudaEvent_t const event : events_) cudaEventDestroy(event);
  }
  RankStopwatch(RankStopwatch const&) = delete;
  RankStopwatch& operator=(RankStopwatch const&) = delete;

  /// Collective.
  RankTimes times(Call const& call, int many, int repetitions) const {
    call();
    communicator_.wait(space_);
    CapturedGraph const one(space_, call);
    CapturedGraph const several(space_, [&] {
      for (int i = 0; i < many; ++i) call();
    });
    double const all = median(one, several, repetitions);
    return {largest_of_all(all) / many, largest_of_all(median(one, one, repetitions))};
  }

 private:
  /// Of `graph`, after `first`, by which ranks begin together.
  double median(CapturedGraph const& first, CapturedGraph const& graph, int repetitions) const {
    constexpr char const* function = "bench::RankStopwatch::median";
    cudaStream_t const stream = space_.cuda_stream();
    std::vector<double> all;
    for (int i = 0; i < repetitions + 3; ++i) {
      meet();
      hold<<<1, 1, 0, stream>>>(100'000);
      first.launch(space_);
      cuda::check(cudaEventRecord(events_[0], stream), function, "cudaEventRecord");
      graph.launch(space_);
      cuda::check(cudaEventRecord(events_[1], stream), function, "cudaEventRecord");
      communicator_.wait(space_);
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), function,
                  "cudaEventElapsedTime");
      if (i >= 3) all.push_back(1e3 * milliseconds);
    }
    return times_of(all).median;
  }

  Space space_;
  NcclCommunicator& communicator_;
  cudaEvent_t events_[2] = {};
};

/// Records of all ranks by formula, and what merging them comes to.
class Records {
 public:
  static constexpr int width = head_dim + 1;

  Records(Space const& space, int queries, int rank, int ranks)
      : space_(space),
        queries_(queries),
        ranks_(ranks),
        own_(Kokkos::view_alloc(Kokkos::WithoutInitializing, "bench::records"), floats()),
        output_("bench::output", queries, query_heads, head_dim) {
    auto const mirror = Kokkos::create_mirror_view(own_);
    for (std::int64_t row = 0; row < queries_ * query_heads; ++row)
      for (int i = 0; i < width; ++i) mirror(row * width + i) = value(rank, row, i);
    Kokkos::deep_copy(own_, mirror);
    for (std::int64_t row = 0; row < queries_ * query_heads; ++row) {
      double sum = 0;
      std::vector<double> merged(head_dim);
      for (int of = 0; of < ranks_; ++of) {
        double const weight = std::exp(static_cast<double>(value(of, row, head_dim)));
        sum += weight;
        for (int i = 0; i < head_dim; ++i) merged[i] += weight * value(of, row, i);
      }
      for (double const x : merged) expected_.push_back(x / sum);
    }
  }

  std::int64_t floats() const { return queries_ * query_heads * width; }
  Kokkos::View<float***, Kokkos::LayoutRight, Space> const& output() const { return output_; }

  void put(float* to) const {
    cuda::check(cudaMemcpyAsync(to, own_.data(), floats() * sizeof(float), cudaMemcpyDeviceToDevice,
                                space_.cuda_stream()),
                "bench", "cudaMemcpyAsync");
    Kokkos::deep_copy(space_, output_, std::nanf(""));
  }

  /// The largest error of the heads [begin, end); outputs are of magnitude 1.
  double error(int begin, int end) const {
    auto const found = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output_);
    double worst = 0;
    for (int query = 0; query < queries_; ++query)
      for (int head = begin; head < end; ++head)
        for (int i = 0; i < head_dim; ++i) {
          double const exact = expected_[(head * queries_ + query) * head_dim + i];
          double const error = std::abs(found(query, head, i) - exact);
          worst = error <= worst ? worst : error;  // nan too
          if (error != error) return error;
        }
    return worst;
  }

 private:
  /// Between -1 and 1; log-sum-exps between -4 and 4.
  static float value(int rank, std::int64_t row, int i) {
    auto bits = static_cast<std::uint32_t>((row * width + i) * 8 + rank) * 2654435761u;
    bits = (bits ^ (bits >> 15)) * 2246822519u;
    float const unit = static_cast<float>(bits >> 8) * 0x1p-23f - 1;
    return i == head_dim ? 4 * unit : unit;
  }

  Space space_;
  std::int64_t queries_;
  int ranks_;
  Kokkos::View<float*, Space> own_;
  Kokkos::View<float***, Kokkos::LayoutRight, Space> output_;
  std::vector<double> expected_;
};

class Benchmark {
 public:
  Benchmark(Space const& space, Options const& options, NcclCommunicator& communicator,
            RawNccl const& nccl)
      : space_(space),
        options_(options),
        communicator_(communicator),
        nccl_(nccl),
        stopwatch_(space, communicator) {}

  bool run() {
    for (int const queries : {1, 8, 64, 512}) combine(queries);
    for (int const tokens : {32'768, 65'536, 131'072, 262'144, 524'288, 1'048'576, 1'280'000})
      decode(tokens);
    if (nccl_.rank == 0) write();
    return right_;
  }

 private:
  bool wanted(std::string const& name) const {
    return name.find(options_.only) != std::string::npos;
  }

  /// Adds a point that begins with `fields`: of a call that is checked, timed as one of `many` in a
  /// graph, and checked again. `alone` is the communication without the kernels, or empty.
  void add_point(std::vector<std::string>& points, Fields fields, double most_error, int many,
                 Call const& call, Call const& alone,
                 std::function<double()> const& error_of_call) {
    double const error = error_of_call();
    fields.add("error", error);
    bool right = error <= most_error;
    if (right) {
      RankTimes const times = stopwatch_.times(call, many, options_.repetitions);
      fields.add("time_us", times.among_many).add("alone_us", times.alone);
      if (alone)
        fields.add("communication_us",
                   stopwatch_.times(alone, many, options_.repetitions).among_many);
      right = error_of_call() <= most_error;
    }
    right_ = right_ && right;
    points.push_back(fields.add("right", right).text());
    if (nccl_.rank == 0) std::fprintf(stderr, "%s\n", points.back().c_str());
  }

  // Combining -----------------------------------------------------------------------------------

  /// Of calls that combine what lies at `records`.
  void combine_point(Records const& given, std::string const& name, float* records,
                     Call const& call, Call const& alone, bool scattered,
                     double payload_roundoff = 0) {
    int const heads = query_heads / nccl_.ranks, rank = nccl_.rank;
    auto const error_of_call = [&] {
      given.put(records);
      call();
      communicator_.wait(space_);
      double const mine =
          scattered ? given.error(heads * rank, heads * (rank + 1)) : given.error(0, query_heads);
      return mine == mine ? largest_of_all(mine) : largest_of_all(1e30);
    };
    auto const queries = static_cast<double>(given.output().extent(0));
    add_point(combine_, Fields().add("algorithm", name).add("queries", queries),
              tolerance_of_outputs + payload_roundoff, 20, call, alone, error_of_call);
  }

  void combine(int queries) {
    std::string const kind = "combine/" + std::to_string(queries);
    Records const given(space_, queries, nccl_.rank, nccl_.ranks);
    Results<float, LogBase::e> const results{strided<Space, 3>(given.output()), {}};
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
      std::string const of = std::string("fasttree ") + name(algorithm);
      if (!wanted(kind + "/" + of)) continue;
      auto reduction =
          plan_reduction(space_, communicator_, queries, query_heads, head_dim, algorithm);
      combine_point(
          given, of, reduction.outputs(queries).data(),
          [&] { reduce_shards(space_, communicator_, reduction, queries, results); }, {}, false);
    }
    if (std::string const of = "fasttree one_shot, bf16"; wanted(kind + "/" + of)) {
      auto reduction = plan_reduction(space_, communicator_, queries, query_heads, head_dim,
                                      {ReductionAlgorithm::one_shot, Payload::bf16});
      combine_point(
          given, of, reduction.outputs(queries).data(),
          [&] { reduce_shards(space_, communicator_, reduction, queries, results); }, {}, false,
          unit_roundoff<bfloat16>);
    }
    Kokkos::View<float*, Space> const records("bench::records", given.floats());
    CombineRivals const rivals(space_, nccl_, records.data(), given.output());
    auto const rival = [&](std::string const& of, void (CombineRivals::*call)(bool) const,
                           bool scattered) {
      if (!wanted(kind + "/" + of)) return;
      combine_point(
          given, of, records.data(), [&] { (rivals.*call)(true); }, [&] { (rivals.*call)(false); },
          scattered);
    };
    rival("NCCL three all-reduces", &CombineRivals::three_all_reduces, false);
    rival("NCCL maximum, packed sum", &CombineRivals::max_then_sum, false);
    rival("NCCL all-gather", &CombineRivals::all_gather, false);
    rival("NCCL all-to-all, scattered", &CombineRivals::all_to_all, true);
  }

  // Decoding ------------------------------------------------------------------------------------

  /// Keys and values of layers; references for them. Layer i has those of number i % held().
  class Layers {
   public:
    Layers(Space const& space, int tokens)
        : tokens_(tokens),
          // More than a cache holds, by far; no more memory than this of long contexts.
          held_(std::min(layers, (1 << 22) / tokens)),
          arrays_(space, std::int64_t{1} * held_ * tokens, 1, query_heads, kv_heads) {
      for (int i = 0; i < held_; ++i) {
        int const parents[] = {-1}, lengths[] = {tokens};
        std::int64_t const slots[] = {std::int64_t{1} * i * tokens};
        Request const requests[] = {{0}};
        references_.emplace_back(space, PrefixTree(parents, lengths, requests, slots), arrays_);
      }
    }

    int held() const { return held_; }
    Arrays const& arrays() const { return arrays_; }
    Reference const& reference(int layer) const { return references_[layer % held_]; }

    /// So many of its tokens.
    HeldShard shard(int layer, int first, int length) const {
      std::int64_t const at =
          (std::int64_t{1} * (layer % held_) * tokens_ + first) * kv_heads * head_dim;
      return {Arrays::View(arrays_.keys().data() + at, length, kv_heads, head_dim),
              Arrays::View(arrays_.values().data() + at, length, kv_heads, head_dim)};
    }

   private:
    int tokens_, held_;
    Arrays arrays_;
    std::vector<Reference> references_;
  };

  /// `attend(layer)`: of one layer. Times are of one layer among all of a step.
  void decode_point(int tokens, std::string const& name, Layers const& of,
                    std::function<void(int)> const& attend) {
    auto const error_of_call = [&] {
      double worst = 0;
      for (int layer = 0; layer < of.held(); ++layer) {
        of.arrays().poison_outputs(space_);
        attend(layer);
        communicator_.wait(space_);
        Check const found = of.reference(layer).check(space_);
        worst = std::max(worst, found.passed() ? found.worst : 1e30);
      }
      return largest_of_all(worst);
    };
    int layer = 0;
    auto const call = [&] { attend(layer++); };
    add_point(decode_, Fields().add("way", name).add("tokens", tokens), tolerance, layers, call, {},
              error_of_call);
  }

  void decode(int tokens) {
    std::string const kind = "decode/" + std::to_string(tokens);
    if (!wanted(kind)) return;
    PrefixTree const tree = test::level_forest({1}, {tokens}).tree();
    Shape const shape{.query_heads = query_heads, .kv_heads = kv_heads};
    // All ranks hold all, and use what is theirs: the same numbers, without a copy.
    Layers const of(space_, tokens);
    Arrays::View const queries = of.arrays().queries(), outputs = of.arrays().outputs();
    auto const cache_of = [&](HeldShard const& held) {
      return make_contiguous_cache(space_, held.keys, held.values);
    };
    auto const plan = make_plan(space_, tree, shape);
    auto const workspace = make_workspace(space_, plan);
    decode_point(tokens, "one GPU", of, [&](int layer) {
      tree_attention(space_, plan, queries, cache_of(of.shard(layer, 0, tokens)), outputs,
                     workspace);
    });

    ContiguousShards const policy;
    ShardOf const me{nccl_.rank, nccl_.ranks};
    PrefixTree const shard = shard_tree(tree, policy, me);
    int const length = shard.length(0), first = policy.token(tree, 0, me, 0);
    for (auto const algorithm : {ReductionAlgorithm::one_shot, ReductionAlgorithm::tree,
                                 ReductionAlgorithm::ring, ReductionAlgorithm::three_all_reduces}) {
      auto over_ranks = make_distributed_plan(space_, communicator_, shard, shape, algorithm);
      auto const space_for_it = make_workspace(space_, over_ranks.attention);
      decode_point(tokens, std::string("fasttree ") + name(algorithm), of, [&](int layer) {
        distributed_attention(space_, communicator_, over_ranks, queries,
                              cache_of(of.shard(layer, first, length)), outputs, space_for_it);
      });
    }
    if (tokens % nccl_.ranks != 0) return;
    auto const local = make_plan(space_, shard, shape);
    KeyValueRing const ring(space_, nccl_, local, of.shard(0, first, length), queries, outputs);
    decode_point(tokens, "ring of keys and values", of,
                 [&](int layer) { ring(of.shard(layer, first, length)); });
  }

  void write() const {
    int version = 0;
    ncclGetVersion(&version);
    auto const list = [](std::vector<std::string> const& points) {
      std::string text;
      for (std::size_t i = 0; i < points.size(); ++i)
        text += (i > 0 ? ",\n  {" : "\n  {") + points[i] + "}";
      return "[" + text + "\n ]";
    };
    std::string const text =
        "{\n \"context\": {" + context_json(space_, options_.commit, options_.repetitions) + ", " +
        Fields()
            .add("ranks", nccl_.ranks)
            .add("nccl", version)
            .add("query_heads", query_heads)
            .add("kv_heads", kv_heads)
            .add("layers", layers)
            .add("combine_tolerance", tolerance_of_outputs)
            .text() +
        "},\n \"combine\": " + list(combine_) + ",\n \"decode\": " + list(decode_) + "\n}\n";
    replace_file(options_.out, text);
  }

  /// Outputs are sums of weights times at most 1, in float.
  static constexpr double tolerance_of_outputs = 16 * 0x1p-24;

  Space space_;
  Options const& options_;
  NcclCommunicator& communicator_;
  RawNccl const& nccl_;
  RankStopwatch stopwatch_;
  std::vector<std::string> combine_, decode_;
  bool right_ = true;
};

int run(int argc, char** argv) {
  Options const options = parse_options(argc, argv);
  Kokkos::ScopeGuard const kokkos(argc, argv);
  cudaStream_t stream;  // the default stream cannot be captured
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "bench::main",
              "cudaStreamCreate");
  Space const space(stream);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ncclUniqueId ids[2]{};
  if (rank == 0)
    for (ncclUniqueId& id : ids) id = make_nccl_id();
  MPI_Bcast(ids, sizeof(ids), MPI_BYTE, 0, MPI_COMM_WORLD);
  NcclCommunicator communicator(space, ids[0], rank, ranks, std::chrono::seconds(10));
  RawNccl const nccl(ids[1], rank, ranks);
  return Benchmark(space, options, communicator, nccl).run() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace fasttree::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int result = EXIT_FAILURE;
  try {
    result = fasttree::bench::run(argc, argv);
  } catch (fasttree::bench::BadArguments const& error) {
    std::fprintf(stderr, "bench_cuda_ranks: %s\n", error.what());
    result = 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_cuda_ranks: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);  // MPI_Finalize would wait for the others
  }
  MPI_Finalize();
  return result;
}
