#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench/results/h200.json holds, which bench_cuda_attention writes: tables in docs/performance.md and
README.md, between <!-- h200:begin --> and <!-- h200:end -->, and docs/h200.svg.

  bench/cuda_report.py
"""
import json
import math
import sys

from planner_report import Picture
from report import ROOT, write_between, write_picture

OURS = "MinimalTraffic"
COLOURS = {"32x32": "#2563a8", "32x8": "#e0914a", "16x1": "#4d9a63"}
RIVALS = {"MinimalTraffic_pieces_of_2048": "`fixed_piece` = 2048", "GreedyEdges": "`GreedyEdges`",
          "ShareEveryNode": "`ShareEveryNode`", "NoSharing": "`NoSharing`"}
KINDS = {"paper": "the FastTree paper's trees", "unshared": "nothing shared",
         "prefix": "a short prefix shared", "real": "batches from request traces"}


def shown(heads):
    return heads.replace("x", " / ")


def number(microseconds):
    return f"{microseconds:.1f}" if microseconds < 99.95 else f"{microseconds:.0f}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def span(values):
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


class Results:
    def __init__(self, report):
        self.context = report["context"]
        self.yardsticks = report["yardsticks"]
        self.timed = [point for point in report["points"] if "time_us" in point]
        self.skipped = {(point["tree"], point["heads"]) for point in report["points"]
                        if point["status"] == "skipped"}

    def of(self, kind, planner=OURS):
        return [point for point in self.timed
                if point["kind"] == kind and point["planner"] == planner]

    def by_tree(self, kind):
        """tree -> heads -> point, in the order of the file."""
        trees = {}
        for point in self.of(kind):
            trees.setdefault(point["tree"], {})[point["heads"]] = point
        return trees


def read(file):
    """The results, if they are those of a whole run without a wrong point."""
    if not file.exists():
        sys.exit(f"{file.name}: not there; bench_cuda_attention writes it")
    report = json.loads(file.read_text(encoding="utf-8"))
    failed = [point["name"] for point in report["points"] if point["status"] == "failed"]
    if failed:
        sys.exit(f"{file.name}: wrong results, nothing is written: {', '.join(failed)}")
    if not report["complete"] or report["context"]["shrink"] != 1:
        sys.exit(f"{file.name}: not the results of a whole run, nothing is written")
    results = Results(report)
    if not results.timed:
        sys.exit(f"{file.name}: no point is timed, nothing is written")
    return results


def context_lines(results):
    context = results.context
    worst = max(point["error"] for point in results.timed)
    return [f"{context['device']}, {context['multiprocessors']} multiprocessors, CUDA "
            f"{context['runtime']}, Kokkos {context['kokkos']}, {context['date']}, commit "
            f"{context['commit']}; {context['element']}, "
            f"head_dim {context['head_dim']}, one query for each request, token-major cache; a CUDA graph "
            f"of one call, L2 cleared before it by reading; medians of {context['repetitions']}, "
            f"microseconds. Each row of each result is verified against double precision: the relative "
            f"error is at most {worst:.1e}.", ""]


def cell(point):
    if point is None:
        return "-"
    parts = [f"**{number(point['time_us'])}**", number(point["aim_us"])]
    if "limit_kernel_us" in point:
        parts.append(number(point["limit_kernel_us"]))
    return " / ".join(parts)


def tree_name(kind, tree):
    if kind == "paper":
        levels, root = tree.removeprefix("paper_").split("_of_")
        return f"{levels.replace('_', ', ')} nodes, root of {root} tokens"
    if kind == "unshared":
        requests, tokens = tree.removeprefix("unshared_").split("_of_")
        return f"{requests} requests of {tokens} tokens"
    if kind == "prefix":
        prefix, _, _, _, tokens = tree.removeprefix("prefix_").split("_")
        return f"{prefix} tokens, then {tokens} of each request"
    return tree


def tables(results):
    lines = []
    for kind, title in KINDS.items():
        trees = results.by_tree(kind)
        if not trees:
            continue
        heads = [name for name in COLOURS if any(name in points for points in trees.values())]
        lines += [f"| {title} | requests | bytes without sharing / with | " +
                  " | ".join(shown(name) for name in heads) + " |", "|---" * (3 + len(heads)) + "|"]
        for tree, points in trees.items():
            any_point = points.get("32x8") or next(iter(points.values()))
            cells = [tree_name(kind, tree), str(any_point["requests"]),
                     f"{any_point['dense_bytes'] / any_point['bytes']:.1f}"]
            lines.append("| " + " | ".join(cells + [cell(points.get(name)) for name in heads]) + " |")
        lines.append("")
    return lines


def explanation(results):
    of = results.yardsticks
    roofline = (f"R = max(bytes / {of['bandwidth'] / 1e12:g} TB/s, flops / "
                f"{of['matrix_rate'] / 1e12:.0f} TFLOP/s)")
    read_kernel = (" / time of a kernel that only reads the same bytes, one program for all sizes, which is no bound"
                   if any("limit_kernel_us" in point for point in results.timed) else "")
    lines = [f"Query heads / KV heads: **time** / aim"
             f"{read_kernel}. Bytes are those of each key and value once, of queries and outputs. Aim on the paper's "
             "trees: "
             f"{of['roofline_factor']:g} R + {of['roofline_more_us']:g} us with {roofline}; elsewhere "
             f"{of['limit_factor']:g} L + {of['limit_more_us']:g} us with L = {of['limit_launch_us']:g} us + "
             f"bytes / {of['limit_bandwidth'] / 1e12:g} TB/s."]
    if results.skipped:
        lines[0] += " Left out, as the cache does not fit: " + ", ".join(
            f"{tree} with {shown(heads)} heads" for tree, heads in sorted(results.skipped)) + "."
    return lines + [""]


def means_table(results):
    """Time over aim, and what other plans take on the same kernels."""
    planners = [name for name in RIVALS if any(results.of(kind, name) for kind in KINDS)]
    titles = ["geometric means", "points", "time over aim", "bandwidth", "matrix rate"]
    titles += [f"{RIVALS[name]} over `{OURS}`" for name in planners]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for kind, title in KINDS.items():
        for heads in COLOURS:
            ours = {point["tree"]: point for point in results.of(kind) if point["heads"] == heads}
            if not ours:
                continue
            mean = {name: geometric_mean([point[name] for point in ours.values()])
                    for name in ("time_over_aim", "bandwidth_share", "matrix_share")}
            cells = [f"{title}, {shown(heads)}", str(len(ours)), f"**{mean['time_over_aim']:.2f}**",
                     *(f"{100 * mean[name]:.1f} %" for name in ("bandwidth_share", "matrix_share"))]
            for planner in planners:
                ratios = [point["time_us"] / ours[point["tree"]]["time_us"]
                          for point in results.of(kind, planner)
                          if point["heads"] == heads and point["tree"] in ours]
                cells.append(f"{geometric_mean(ratios):.2f}" if ratios else "-")
            lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def host_line(results):
    ours = [point for point in results.timed if point["planner"] == OURS]
    many = [point for point in ours if point["kind"] == "paper" and point["requests"] == 1024] or ours
    kernels = sorted({point["kernels"] for point in ours})
    misses = sorted(abs(point["predicted_us"] / point["time_us"] - 1) for point in ours)
    warm = geometric_mean([point["warm_us"] / point["time_us"] for point in ours])
    return [f"A call enqueues {' or '.join(map(str, kernels))} kernel{'s' if kernels != [1] else ''} in "
            f"{span([point['call_us'] for point in ours])} us of the host's time; with what it reads still in "
            f"L2, as far as that holds it, it takes {warm:.2f} of the time. Planning the paper's trees of "
            f"1024 requests takes {span([point['plan_returned_us'] for point in many])} us of the host's "
            f"time, {span([point['plan_uploaded_us'] for point in many])} us until the plan is on the device. "
            f"What `predict` said then misses these times by {misses[len(misses) // 2]:.0%} in the median and by "
            f"{misses[-1]:.0%} at worst." + prediction_today(ours)]


def prediction_today(ours):
    """How far the predictions of planner.json are from these times, where it has the same plans."""
    planner = json.loads((ROOT / "bench/results/planner.json").read_text(encoding="utf-8"))
    plans = {(plan["tree"], plan["heads"]): plan for plan in planner["predicted"]["plans"]
             if plan["planner"] == OURS}
    both = [(point, plans[point["tree"], point["heads"]]) for point in ours
            if (point["tree"], point["heads"]) in plans]
    misses = sorted(abs(plan["predicted_us"] / point["time_us"] - 1) for point, plan in both
                    if all(plan[part] == point[part]
                           for part in ("wide_items", "narrow_items", "partial_bytes")))
    if not misses:
        return ""
    return (f" By the costs of planner.json {len(misses)} of {len(both)} plans are still the same, and predictions "
            f"of these miss the times by {misses[len(misses) // 2]:.0%} in the median and by {misses[-1]:.0%} at worst.")


def readme_lines(results):
    """Against attention without sharing, on the same kernels, and against what the machine could do."""
    context = results.context
    heads = [name for name in COLOURS
             if any(point["heads"] == name for kind in KINDS for point in results.of(kind))]
    lines = ["![Time of a call against the roofline, with the aim](docs/h200.svg)", "",
             f"{context['device']}, {context['element']}, head_dim {context['head_dim']}, {context['date']}; "
             "columns are query heads / KV heads. **Bold**: how many times as fast as each request alone on the same "
             "kernels (`NoSharing`); after it the time over that of a kernel that only reads the same bytes. Geometric "
             "means.", "",
             "| | points | " + " | ".join(map(shown, heads)) + " |", "|---" * (2 + len(heads)) + "|"]
    for kind, title in KINDS.items():
        cells = []
        for name in heads:
            ours = {point["tree"]: point for point in results.of(kind) if point["heads"] == name}
            dense = {point["tree"]: point["time_us"] for point in results.of(kind, "NoSharing")
                     if point["heads"] == name}
            faster = [dense[tree] / point["time_us"] for tree, point in ours.items() if tree in dense]
            over = [point["time_us"] / point["limit_kernel_us"] for point in ours.values()
                    if "limit_kernel_us" in point]
            cells.append(" / ".join(([f"**{geometric_mean(faster):.2f}**"] if faster else []) +
                                    ([f"{geometric_mean(over):.2f}"] if over else [])) or "-")
        if results.of(kind):
            lines.append(f"| {title} | {len(results.of(kind))} | " + " | ".join(cells) + " |")
    return lines + ["", "No kernels of other libraries were timed there: rivals are other plans on the same kernels, the "
                    "paper's `GreedyEdges` among them. Each point, and how it was measured: "
                    "[docs/performance.md](docs/performance.md). What bounds it, and what each version gained: [docs/cuda.md](docs/cuda.md)."]


# ---- the picture


def roofline_picture(results):
    """Time against the roofline, both logarithmic."""
    picture = Picture(660)
    picture.legend({f"{shown(name)} heads": colour for name, colour in COLOURS.items()}, 24)
    left, right, top, bottom = 70, 620, 50, 450
    spots = [point for kind in KINDS for point in results.of(kind)]
    low = math.floor(math.log10(min(point["roofline_us"] for point in spots)))
    high = math.ceil(math.log10(max(point["time_us"] for point in spots)))
    shortest = min(min(point["time_us"] for point in spots), results.yardsticks["roofline_more_us"])
    base = math.floor(math.log10(shortest))

    def place(roofline, time):
        return (left + (right - left) * (math.log10(roofline) - low) / (high - low),
                bottom - (bottom - top) * (math.log10(time) - base) / (high - base))

    def label(power):
        return f"{10.0**power:g} us" if power < 3 else f"{10**(power - 3)} ms"

    for power in range(low, high + 1):
        x = place(10.0**power, 10.0**base)[0]
        picture.line([(x, top), (x, bottom)], "#e4e6e9")
        picture.text(x, bottom + 18, label(power), text_anchor="middle")
    for power in range(base, high + 1):
        y = place(10.0**low, 10.0**power)[1]
        picture.line([(left, y), (right, y)], "#e4e6e9")
        picture.text(left - 8, y + 4, label(power), text_anchor="end")

    of = results.yardsticks
    steps = [10 ** (low + (high - low) * i / 200) for i in range(201)]
    aims = [(r, of["roofline_factor"] * r + of["roofline_more_us"]) for r in steps]
    picture.line([place(10.0**base, 10.0**base), place(10.0**high, 10.0**high)], "#9aa0a8")
    picture.line([place(*spot) for spot in aims if spot[1] <= 10.0**high], "#222")
    picture.text(*place(10.0**low * 1.15, aims[0][1] * 0.72), "aim", font_size="11")
    x, y = place(10 ** (base + 0.12), 10 ** (base + 0.12))
    picture.text(x + 10, y + 4, "roofline", font_size="11", fill="#6b7078")
    for point in spots:
        x, y = place(point["roofline_us"], point["time_us"])
        picture.circle(x, y, COLOURS[point["heads"]], filled=point["kind"] == "paper")
    picture.text((left + right) / 2, bottom + 36, "roofline R", text_anchor="middle")
    context = results.context
    for line, text in enumerate((
            f"Measured on {context['device']}, {context['date']}: time of a call, L2 cleared, each result verified.",
            "Filled: the FastTree paper's trees; open: little or nothing shared, and batches from request traces.")):
        picture.text(24, bottom + 58 + 16 * line, text, fill="#555", font_size="11")
    return picture.svg(bottom + 86)


def main():
    results = read(ROOT / "bench/results/h200.json")
    write_picture("docs/h200.svg", roofline_picture(results))
    write_between("docs/performance.md", "h200",
                  ["![Time of a call against the roofline, with the aim](h200.svg)", ""] +
                  context_lines(results) + tables(results) + explanation(results) +
                  means_table(results) + host_line(results))
    write_between("README.md", "h200", readme_lines(results))


if __name__ == "__main__":
    main()
