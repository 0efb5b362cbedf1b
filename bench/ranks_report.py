#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench/results/h200_ranks.json holds, which bench_cuda_ranks writes: tables in docs/performance.md and a
line in README.md between <!-- ranks:begin --> and <!-- ranks:end -->, a table in docs/ranks.md between those of
tokens_measured.

  bench/ranks_report.py
"""
import json
import sys

from cuda_report import number
from report import ROOT, write_between

OURS = "fasttree one_shot"
RIVALS = {"NCCL three all-reduces": "three all-reduces", "NCCL maximum, packed sum": "maximum, packed sum",
          "NCCL all-gather": "all-gather", "NCCL all-to-all, scattered": "all-to-all, scattered"}
BF16 = "fasttree one_shot, bf16"
SCHEDULES = {"fasttree tree": "`tree`", "fasttree all_to_all": "`all_to_all`",
             "fasttree three_all_reduces": "`three_all_reduces`"}
RING = "ring of keys and values"
WAYS = {"fasttree tree": "`tree`", "fasttree ring": "`ring`",
        "fasttree three_all_reduces": "`three_all_reduces`", RING: "K,V ring"}


def read(file):
    """The results, if they are those of a whole run without a wrong point."""
    if not file.exists():
        sys.exit(f"{file.name}: not there; bench_cuda_ranks writes it")
    results = json.loads(file.read_text(encoding="utf-8"))
    points = results["combine"] + results["decode"]
    if not all(point["right"] for point in points):
        sys.exit(f"{file.name}: wrong results, nothing is written")
    found = {point.get("algorithm", point.get("way")) for point in points}
    missing = ({OURS, BF16, "one GPU"} | RIVALS.keys() | SCHEDULES.keys() | WAYS.keys()) - found
    if missing:
        sys.exit(f"{file.name}: not the results of a whole run, nothing is written: {missing}")
    return results


def grouped(points, size, name):
    """size -> name -> point, in the order of the file."""
    groups = {}
    for point in points:
        groups.setdefault(int(point[size]), {})[point[name]] = point
    return groups


def context_line(results):
    context = results["context"]
    worst = max(point["error"] for point in results["combine"] if point["algorithm"] != BF16)
    rounded = max(point["error"] for point in results["combine"] if point["algorithm"] == BF16)
    return (f"{int(context['ranks'])} x {context['device']}, NCCL {nccl_version(context['nccl'])}, CUDA "
            f"{context['runtime']}, {context['date']}, commit {context['commit']}; CUDA graphs, medians of "
            f"{int(context['repetitions'])}, the slower rank's, microseconds. Every result is verified before "
            f"it is timed: combined ones, of magnitude 1, are off by at most {worst:.1e}, those sent in 16 bits by "
            f"{rounded:.1e}.")


def nccl_version(code):
    return f"{int(code) // 10000}.{int(code) // 100 % 100}.{int(code) % 100}"


def rival(point):
    return f"{number(point['time_us'])} ({number(point['communication_us'])})"


def combine_lines(results):
    context = results["context"]
    heads, width = int(context["query_heads"]), int(context["head_dim"]) + 1
    lines = ["", f"| queries ({heads} heads of {width - 1}) | bytes | **`one_shot`**, one kernel | the same, bf16 | " +
             " | ".join([*SCHEDULES.values(), *(f"NCCL: {name}" for name in RIVALS.values())]) + " |",
             "|---" * (4 + len(SCHEDULES) + len(RIVALS)) + "|"]
    for queries, of in grouped(results["combine"], "queries", "algorithm").items():
        cells = [str(queries), f"{queries * heads * width * 4}", f"**{number(of[OURS]['time_us'])}**",
                 number(of[BF16]["time_us"]), *(number(of[name]["time_us"]) for name in SCHEDULES), *(rival(of[name]) for name in RIVALS)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [
        "", "One combination among 20 in a graph; outputs are sent as floats (of which there are so many bytes), or, "
        "where it says bf16, in 16 bits, which rounds them. The schedules `tree`, `all_to_all` and `three_all_reduces` "
        "move by ncclSend and ncclRecv. Of NCCL's collectives with our kernels around them, in parentheses "
        "the collectives alone; after all-to-all each rank has the results of its heads only."]


def decode_lines(results):
    context = results["context"]
    ranks = int(context["ranks"])
    lines = ["", f"| tokens | one GPU | **{ranks} GPUs, `one_shot`** | speed-up over one GPU | " +
             " | ".join(WAYS.values()) + " | speed-up over the K,V ring |", "|---" * (5 + len(WAYS)) + "|"]
    for tokens, of in grouped(results["decode"], "tokens", "way").items():
        ours = of[OURS]["time_us"]
        cells = [str(tokens), number(of["one GPU"]["time_us"]), f"**{number(ours)}**",
                 f"{of['one GPU']['time_us'] / ours:.2f}", *(number(of[name]["time_us"]) for name in WAYS),
                 f"{of[RING]['time_us'] / ours:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [
        "", f"A step of decoding for one request, {int(context['query_heads'])} query heads, "
        f"{int(context['kv_heads'])} KV heads, head_dim {int(context['head_dim'])}, {context['element']}, one "
        f"layer among {int(context['layers'])} in a graph, each with keys and values of its own, or with those of one so "
        "many layers before that no cache holds them; each rank has an equal piece of the tokens. The K,V ring attends to "
        "what it has while it passes it on."]


def token_lines(results):
    """The attention of a step in all layers, which are one graph."""
    context = results["context"]
    layers, ranks = int(context["layers"]), int(context["ranks"])
    lines = [f"**Measured**, {ranks} x {context['device']}, {context['date']}, commit {context['commit']}, milliseconds:", "",
             f"| tokens | one GPU | **{ranks} GPUs, `one_shot`** | " + " | ".join(WAYS.values()) +
             " | K,V ring over `one_shot` |", "|---" * (4 + len(WAYS)) + "|"]

    def milliseconds(point):
        return f"{layers * point['time_us'] / 1e3:.2f}"

    for tokens, of in grouped(results["decode"], "tokens", "way").items():
        if tokens & (tokens - 1):
            continue  # the others are powers of two
        lines.append("| " + " | ".join([
            str(tokens), milliseconds(of["one GPU"]), f"**{milliseconds(of[OURS])}**",
            *(milliseconds(of[name]) for name in WAYS), f"{of[RING]['time_us'] / of[OURS]['time_us']:.1f}"]) + " |")
    return lines


def readme_lines(results):
    context = results["context"]
    combined = grouped(results["combine"], "queries", "algorithm")
    few, many = (combined[queries] for queries in (min(combined), max(combined)))
    decoded = grouped(results["decode"], "tokens", "way")
    tokens = max(decoded)
    longest = {name: point["time_us"] for name, point in decoded[tokens].items()}

    def both(name):
        return f"{number(few[name]['time_us'])} and {number(many[name]['time_us'])}"

    return [f"{int(context['ranks'])} x {context['device']}, {context['date']}: partial results of {min(combined)} and of "
            f"{max(combined)} queries are combined in {both(OURS)} us by `one_shot`, by NCCL's all-gather and a merge in "
            f"{both('NCCL all-gather')}, by three all-reduces as in Tree Attention in {both('NCCL three all-reduces')}; so "
            f"that each rank has its heads only, by all-to-all, in {both('NCCL all-to-all, scattered')}. A layer of "
            f"decoding with {tokens} tokens takes {number(longest[OURS])} us, "
            f"{longest['one GPU'] / longest[OURS]:.2f} times less than on one GPU and "
            f"{longest[RING] / longest[OURS]:.1f} times less than by a ring of keys and values."]


def main():
    results = read(ROOT / "bench/results/h200_ranks.json")
    write_between("docs/performance.md", "ranks",
                  [context_line(results)] + combine_lines(results) + decode_lines(results))
    write_between("README.md", "ranks", readme_lines(results))
    write_between("docs/ranks.md", "tokens_measured", token_lines(results))


if __name__ == "__main__":
    main()
