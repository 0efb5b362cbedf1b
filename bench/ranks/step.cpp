// SPDX-License-Identifier: Apache-2.0
// A step of attention over the ranks that mpirun starts, by every algorithm and by the rings: how
// long it takes until the last rank has its result, which is checked each time.
//     bench_ranks --requests N --tokens N --ranks-per-node N --repetitions N --lead US
// Writes a JSON object for each algorithm to standard output. All ranks are on one machine, by
// whose clock they begin at once, `lead` us after they have agreed to.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fasttree/comm/mpi_communicator.hpp>
#include "../support/json_fields.hpp"
#include "support/rings.hpp"

namespace {

using namespace fasttree;
using test::Space;
using Shape = AttentionShape<float, 128>;
using Problem = test::Problem<Shape>;
using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

struct Options {
  int requests = 1, tokens = 16, ranks_per_node = 0, repetitions = 5;
  double lead = 1000;

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      std::string const name = argv[i];
      if (i + 1 == argc) throw std::invalid_argument(name + ": expected a value");
      double const value = std::atof(argv[i + 1]);
      if (name == "--requests")
        requests = static_cast<int>(value);
      else if (name == "--tokens")
        tokens = static_cast<int>(value);
      else if (name == "--ranks-per-node")
        ranks_per_node = static_cast<int>(value);
      else if (name == "--repetitions")
        repetitions = static_cast<int>(value);
      else if (name == "--lead")
        lead = value;
      else
        throw std::invalid_argument(name + ": unknown option");
    }
  }
};

/// Waits asleep: the ranks that still compute may have the cores.
void wait(MPI_Request request) {
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

double largest_of_all(double value) {
  double result = 0;
  MPI_Request request;
  MPI_Iallreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
  wait(request);
  return result;
}

/// A moment that rank 0 has set, `lead` us before, asleep until it comes.
Clock::time_point begin_together(double lead) {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  wait(request);
  auto const until_then = std::chrono::duration_cast<Clock::duration>(Microseconds(lead));
  std::int64_t begin = (Clock::now() + until_then).time_since_epoch().count();
  MPI_Ibcast(&begin, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, &request);
  wait(request);
  Clock::time_point const at{Clock::duration(begin)};
  std::this_thread::sleep_until(at);
  return at;
}

/// One sequence of so many tokens for each rank, and requests that all attend to it.
Problem make_problem(Options const& options, int ranks) {
  test::Forest forest;
  forest.parents = {-1};
  forest.lengths = {options.tokens * ranks};
  forest.requests.assign(options.requests, Request{0});
  return Problem(forest, Shape{.query_heads = 32, .kv_heads = 8});
}

class Steps {
 public:
  explicit Steps(Options const& options)
      : options_(options),
        communicator_(MPI_COMM_WORLD, std::chrono::seconds(60),
                      {.ranks_per_node = options.ranks_per_node}),
        rank_(communicator_.rank()),
        ranks_(communicator_.size()),
        problem_(make_problem(options, ranks_)),
        answer_(problem_.answer()),
        local_(test::shard_problem(problem_, shards_, {rank_, ranks_})),
        held_(test::contiguous_cache(local_)),
        array_(problem_) {}

  void run() {
    attention_alone();
    for (ReductionAlgorithm const algorithm : all_reduction_algorithms) {
      bool const levels = communicator_.topology().ranks_per_node > 1;
      if (is_two_level(algorithm) && !levels) continue;  // as one_shot and tree
      auto plan =
          make_distributed_plan(space_, communicator_, local_.tree, local_.shape, algorithm);
      auto const workspace = make_workspace(space_, plan.attention);
      time(
          name(algorithm),
          [&] {
            distributed_attention(space_, communicator_, plan, array_.queries, held_.cache,
                                  array_.outputs, workspace);
          },
          [&] { return error_of(array_.outputs.read()); });
    }
    pass_kv();
    pass_q();
  }

 private:
  /// All ranks attend to their keys at once: they share the machine.
  void attention_alone() {
    auto const plan = make_plan(space_, local_.tree, local_.shape);
    auto const workspace = make_workspace(space_, plan);
    test::Arrays<float, LogBase::e, Problem> const array(local_);
    time(
        "attention",
        [&] {
          tree_attention(space_, plan, array.queries, held_.cache, array.outputs,
                         array.log_sum_exps, workspace);
        },
        [&] { return test::worst_error(local_, array.read()); });
  }

  void pass_kv() {
    auto plan = make_pass_kv_plan(space_, communicator_, problem_.tree, shards_, problem_.shape);
    auto const workspace = make_workspace(space_, plan);
    time(
        "pass_kv",
        [&] {
          pass_kv_attention(space_, communicator_, plan, array_.queries, held_.cache,
                            array_.outputs, workspace);
        },
        [&] { return error_of(array_.outputs.read()); });
  }

  void pass_q() {
    auto const heads = test::Heads::of(local_.shape.query_heads, rank_, ranks_);
    test::keep_queries_of(local_, heads);
    test::Arrays<float, LogBase::e, Problem> const array(local_);
    auto plan = make_pass_q_plan(space_, communicator_, local_.tree, local_.shape);
    auto const workspace = make_workspace(space_, plan.distributed.attention);
    time(
        "pass_q",
        [&] {
          pass_q_attention(space_, communicator_, plan, array.queries, held_.cache, array.outputs,
                           workspace);
        },
        [&] {
          auto const outputs = array.outputs.read();
          std::vector<float> mine(outputs.size()), whole(outputs.size());
          test::collect_outputs(problem_, outputs, heads, mine);
          MPI_Request request;
          MPI_Iallreduce(mine.data(), whole.data(), static_cast<int>(whole.size()), MPI_FLOAT,
                         MPI_SUM, MPI_COMM_WORLD, &request);  // 0 but on one rank
          wait(request);
          return error_of(whole);
        });
  }

  double error_of(std::vector<float> const& outputs) const {
    return test::worst_output_error(answer_, Shape::head_dim, outputs);
  }

  /// One step; us until the last rank is done. Again where a rank has not begun in time.
  template <class Step>
  double time_of(Step const& step) {
    constexpr double most_late = 3000;  // us: cores are shared, and a wait for a core is no error
    for (int attempt = 0; attempt < 20; ++attempt) {
      auto const begin = begin_together(lead_);
      double const late = Microseconds(Clock::now() - begin).count();
      step();
      space_.fence();
      double const took = largest_of_all(Microseconds(Clock::now() - begin).count());
      if (largest_of_all(late) < most_late) return took;
      lead_ = std::min(1.5 * lead_, 20 * options_.lead);
    }
    throw std::runtime_error("ranks do not begin together: a longer --lead?");
  }

  /// `error` is that of the last step, in units of what is tolerated.
  template <class Step, class Error>
  void time(std::string const& algorithm, Step const& step, Error const& error) {
    std::string times;
    double worst = 0;
    for (int i = -1; i < options_.repetitions; ++i) {
      double const took = time_of(step);
      worst = std::max(worst, largest_of_all(error()));
      if (i >= 0) times += (times.empty() ? "" : ", ") + std::to_string(took);  // one warms up
    }
    if (!(worst <= 1)) throw std::runtime_error(algorithm + ": wrong results");
    if (rank_ != 0) return;
    RingSize const ring = test::ring_size(problem_);
    std::cout << "{"
              << bench::Fields()
                     .add("algorithm", algorithm)
                     .add("ranks", ranks_)
                     .add("ranks_per_node", communicator_.topology().ranks_per_node)
                     .add("rows", options_.requests * problem_.shape.query_heads)
                     .add("value_dim", Shape::value_dim)
                     .add("kv_bytes", static_cast<double>(ring.kv_bytes))
                     .add("query_bytes", static_cast<double>(ring.query_bytes))
                     .add("error", worst)
                     .text()
              << ", \"times_us\": [" << times << "]}\n"
              << std::flush;
  }

  Options options_;
  double lead_ = options_.lead;
  Space space_{};
  MpiCommunicator communicator_;
  int rank_, ranks_;
  ContiguousShards shards_{};
  Problem problem_;
  test::Answer answer_;
  Problem local_;
  decltype(test::contiguous_cache(local_)) held_;
  test::Arrays<float, LogBase::e, Problem> array_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    Kokkos::ScopeGuard const kokkos(argc, argv);
    Steps(Options(argc, argv)).run();
  } catch (std::exception const& error) {
    std::cerr << "bench_ranks: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
