#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CPU attention beside ours, in turns, so that what else the machine does hits both.

  bench/pytorch_rival.py build/openmp/bench/bench_tree_attention [--rounds 5] [--threads 2] [--out FILE]

PyTorch gets each request alone, its keys gathered beforehand, in the order it likes best (heads first):
  rows  scaled_dot_product_attention with the query heads of a KV head as rows
  gqa   the same with enable_gqa=True, as its users call it
Prints and writes the medians over the rounds, and the medians of the rounds' ratios.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HEADS, KV_HEADS, DIM = 32, 8, 128
CASES = {"shared": (64, 2112), "single": (1, 8192)}  # requests, tokens of a path

# Those of this process before torch binds its main thread to one of them, which a child inherits.
CORES = os.sched_getaffinity(0)


def milliseconds(call, least=0.3):
    """Median of wall and of CPU time of the calls that fit `least` seconds, two at least."""
    call()
    wall, cpu, end = [], [], time.perf_counter() + least
    while len(wall) < 2 or time.perf_counter() < end:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        call()
        wall.append(1e3 * (time.perf_counter() - begin))
        cpu.append(1e3 * (time.process_time() - begin_cpu))
    return {"time_ms": statistics.median(wall), "cpu_ms": statistics.median(cpu)}


def torch_calls(torch):
    """Yields (case, element, variant, call)."""
    attention = torch.nn.functional.scaled_dot_product_attention
    for case, (requests, tokens) in CASES.items():
        for element, dtype in (("float", torch.float32), ("bfloat16", torch.bfloat16)):
            keys, values = (torch.rand(requests, KV_HEADS, tokens, DIM).mul(2).sub(1).to(dtype)
                            for _ in range(2))
            queries = torch.rand(requests, HEADS, 1, DIM).mul(2).sub(1).to(dtype)
            as_rows = queries.view(requests, KV_HEADS, HEADS // KV_HEADS, DIM)

            def rows(q=as_rows, k=keys, v=values):
                return attention(q, k, v)

            def gqa(q=queries, k=keys, v=values):
                return attention(q, k, v, enable_gqa=True)

            difference = (rows().view(requests, HEADS, 1, DIM) - gqa()).abs().max().item()
            assert difference < 0.01, f"PyTorch's two results differ by {difference}"
            yield case, element, "rows", rows
            yield case, element, "gqa", gqa


def our_times(binary, case, element):
    command = [binary, f"--benchmark_filter=^{case}/{element}/{HEADS}x{KV_HEADS}/.*MinimalTraffic/",
               "--benchmark_min_time=0.3", "--benchmark_format=json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, CORES)).stdout
    times = {}
    for run in json.loads(output)["benchmarks"]:
        assert not run.get("error_occurred"), run
        order = run["name"].split("/")[3]
        times[order] = {"time_ms": run["real_time"], "cpu_ms": run["cpu_time"]}
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    try:
        import torch
    except ImportError:
        print("skipped: this Python has no torch", file=sys.stderr)
        return
    torch.set_num_threads(options.threads)

    calls = list(torch_calls(torch))
    rounds = []
    for number in range(options.rounds):
        times = {}
        for case, element, variant, call in calls:
            times[case, element, f"pytorch_{variant}"] = milliseconds(call)
            if variant == "rows":
                for order, ours in our_times(options.binary, case, element).items():
                    times[case, element, order] = ours
        rounds.append(times)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    def median(value):
        return statistics.median(value(times) for times in rounds)

    results = []
    for case, element, name in rounds[0]:
        key = case, element, name
        result = {"case": case, "element": element, "of": name}
        for clock in ("time_ms", "cpu_ms"):
            result[clock] = round(median(lambda times: times[key][clock]), 3)
            if name.startswith("pytorch"):
                for order in ("token_major", "head_major"):
                    result[f"over_ours_{order}_{clock[:-3]}"] = round(median(
                        lambda times: times[key][clock] / times[case, element, order][clock]), 2)
        results.append(result)
        print(json.dumps(result))
    if options.out:
        report = {"pytorch": torch.__version__, "threads": options.threads,
                  "rounds": options.rounds, "capability": torch.backends.cpu.get_cpu_capability(),
                  "results": results}
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
