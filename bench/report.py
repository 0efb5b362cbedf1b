#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what files under bench/results hold, between marks like <!-- hosts:begin --> and <!-- hosts:end -->: of
host*.json, a file for each machine, tables in docs/performance.md, docs/performance*.svg and a line in README.md;
of planner.json, tables in docs/planner.md, docs/planner_*.svg and a line in README.md.

  bench/report.py
"""
import html
import json
import pathlib
import sys

import planner_report

ROOT = pathlib.Path(__file__).resolve().parent.parent
TITLES = {
    "shared": "64 requests, 2048 shared + 64 own tokens",
    "single": "1 request, 8192 tokens",
}
HEADS = "32x8"


class Results:
    def __init__(self, report):
        self.context = report["context"]
        self.attention = report["tree_attention"]
        self.pytorch = report["pytorch"]
        self.calibration = report.get("calibration")

    def one(self, **wanted):
        for result in self.attention:
            if all(result[key] == value for key, value in wanted.items()):
                return result
        return None

    def against_pytorch(self, case, element, variant, order):
        """PyTorch's time over ours, of the run that took both in turns."""
        for result in self.pytorch.get("results", []):
            if (result["case"], result["element"], result["of"]) == (case, element,
                                                                     f"pytorch_{variant}"):
                return result[f"over_ours_{order}_time"]
        return None

    def rows(self, *orders):
        """(title, element, ours, dense baseline or None), for these orders of the cache."""
        for case, title in TITLES.items():
            for element in ("float", "bfloat16", "half"):
                for order in orders:
                    key = {"case": case, "element": element, "heads": HEADS, "order": order}
                    ours = self.one(**key, planner="MinimalTraffic")
                    if ours:
                        yield title, element, ours, self.one(**key, planner="NoSharing")


def threads(context):
    return f"{context['threads']} thread{'s' if context['threads'] != '1' else ''}"


def table(results):
    context = results.context
    lines = [f"{context['cpu']}, {threads(context)}, {context['instructions']}, "
             f"{context['compiler']}, Kokkos {context['kokkos']} ({context['space']}), "
             f"{context['date']}; 32 query heads, 8 KV heads, head_dim 128; medians, milliseconds:", "",
             "| | element, cache | fasttree | floor | over the floor | without sharing | PyTorch, rows | "
             "PyTorch, enable_gqa |", "|---|---|---|---|---|---|---|---|"]
    for title, element, ours, dense in results.rows("token_major", "head_major"):
        order = ours["order"]
        cells = [title, f"{element}, {order.replace('_', '-')}", f"**{ours['time_ms']:.1f}**"]
        cells += ([f"{ours['floor_ms']:.1f}", f"{ours['over_floor']:.2f}"] if "floor_ms" in ours
                  else ["-", "-"])
        cells.append(f"{dense['time_ms']:.1f}" if dense else "-")
        for variant in ("rows", "gqa"):
            ratio = results.against_pytorch(ours["case"], element, variant, order)
            cells.append(f"{ratio:.1f} x ours" if ratio else "-")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Floor: all flops at the rate of a BLAS sgemm on the same cores "
              f"({context['blas']}) and the bytes of keys, values, queries and outputs, once each, at "
              "the rate of a plain read, both measured beside each point. PyTorch: each request alone, "
              "its keys gathered by head beforehand, the query group as rows or by enable_gqa. Each column is a median of "
              "its own. Few rows of a head-major cache may be read faster than by the plain read: below 1.", ""]
    lines += sharing_table(results) + planners_table(results) + calibration_text(results)
    return "\n".join(lines).strip()


PLANNERS = ("GreedyEdges", "NoSharing", "ShareEveryNode", "MinimalTraffic_fixed_piece")


def planners_table(results):
    """Times by other planners over those by the default one."""
    lines = ["| measured, 32 / 8 heads, token-major | `MinimalTraffic`, ms | " +
             " | ".join(f"`{name}`" for name in PLANNERS[:3]) + " | `fixed_piece` = 1024 |",
             "|---|---|---|---|---|---|"]
    for ours in sorted(results.attention, key=lambda r: (r["case"], r["element"])):
        key = {name: ours[name] for name in ("case", "element", "heads", "order")}
        others = [results.one(**key, planner=name) for name in PLANNERS]
        if ours["planner"] != "MinimalTraffic" or ours["heads"] != HEADS or not any(others):
            continue
        cells = [f"{other['time_ms'] / ours['time_ms']:.2f} x" if other else "-" for other in others]
        title = ours["case"].replace("_", " ").replace("paper ", "paper: ")
        lines.append(f"| {title}, {ours['element']} | {ours['time_ms']:.1f} | " +
                     " | ".join(cells) + " |")
    return lines + [""] if len(lines) > 2 else []


def calibration_text(results):
    if not results.calibration:
        return []
    costs = ", ".join(f"`{name}` {value:.3g}" for name, value in results.calibration["costs"].items())
    fitted, left_out = (results.calibration[f"error_of_{name}"] for name in ("fitted", "left_out"))
    return [f"`MachineCosts` fitted to this machine: {costs}. Predictions of trees that had no part in "
            f"the fit miss the measured time by {100 * left_out['median']:.0f} % in the median and by "
            f"{100 * left_out['worst']:.0f} % at worst; of those that had, by "
            f"{100 * fitted['median']:.0f} % and {100 * fitted['worst']:.0f} %.", ""]


def sharing_table(results):
    """Where few rows read a key, memory bounds; there sharing should pay what it saves in bytes."""
    lines = ["| requests sharing a prefix | heads | element | bytes without sharing / with | "
             "faster by | rows of a key |", "|---|---|---|---|---|---|"]
    for ours in sorted(results.attention, key=lambda r: (
            r["heads"], r["element"], int(r["case"].rpartition("_")[2])
            if r["case"].startswith("sharing_") else 0)):
        if not ours["case"].startswith("sharing_") or ours["planner"] != "MinimalTraffic":
            continue
        dense = results.one(**{**{key: ours[key] for key in ("case", "element", "heads", "order")},
                               "planner": "NoSharing"})
        requests = int(ours["case"].rpartition("_")[2])
        query_heads, kv_heads = map(int, ours["heads"].split("x"))
        bound = "" if memory_bounds(ours) else " (flops bound)"
        lines.append(f"| {requests} | {query_heads} / {kv_heads} | {ours['element']} | "
                     f"{ours['dense_bytes'] / ours['bytes']:.1f} | "
                     f"{dense['time_ms'] / ours['time_ms']:.1f}{bound} | "
                     f"{requests * query_heads // kv_heads} |")
    return lines + [""]


def memory_bounds(result):
    return result["bytes"] / result["read_rate"] > result["flops"] / result["sgemm_rate"]


def planning_line(planner):
    """For README.md: how long it takes to plan, and to update a plan."""
    def span(what):
        clock = "cpu_us" if what == "plan" else "time_us"  # updates are timed one by one
        found = [time[clock] for time in planner["measured"]["times"]
                 if time["what"] == what and time["requests"] == 1024
                 and time["tree"].startswith("paper") and time["planner"] == planner_report.OURS]
        digits = 1 if found and max(found) < 10 else 0
        return f"{min(found):.{digits}f} to {max(found):.{digits}f} us" if found else None

    if not span("plan"):
        return []
    line = (f"{planner['context']['cpu']}, one core: planning the FastTree paper's trees of 1024 requests anew takes "
            f"{span('plan')}.")
    updates = {what: span(what) for what in ("append_tokens", "remove_request", "add_request")}
    if all(updates.values()):
        line += " Between two plans, " + ", ".join(f"`{what}` takes {times}"
                                                   for what, times in updates.items()) + "."
    return [line + " What plans are worth: [docs/planner.md](docs/planner.md)."]


# ---- the picture

COLOURS = {"fasttree": "#2563a8", "floor": "#9db8d2", "without sharing": "#c9ccd1",
           "PyTorch, rows": "#e0914a", "PyTorch, enable_gqa": "#efc9a0"}
LABELS, BARS, ROW, GAP = 96, 520, 19, 14  # widths and heights in the picture


def bars(results):
    """(title, element, {name: milliseconds}) of every group of bars."""
    for title, element, ours, dense in results.rows("token_major"):
        times = {"fasttree": ours["time_ms"]}
        if "floor_ms" in ours:
            times["floor"] = ours["floor_ms"]
        if dense:
            times["without sharing"] = dense["time_ms"]
        for name, variant in (("PyTorch, rows", "rows"), ("PyTorch, enable_gqa", "gqa")):
            ratio = results.against_pytorch(ours["case"], element, variant, "token_major")
            if ratio:
                times[name] = ratio * ours["time_ms"]
        yield title, element, times


def svg(results):
    parts, y, last = [], 52, None
    groups = list(bars(results))
    limits = {}  # the scale of a panel: four times ours at least, longer bars are cut
    for title, _, times in groups:
        most = max(times.values())
        limits[title] = max(limits.get(title, 0), min(most, 9 * times["fasttree"]))

    def text(x, at, content, **more):
        attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        parts.append(f'<text x="{x:.1f}" y="{at:.1f}"{attributes}>{html.escape(content)}</text>')

    x = 24
    for name, colour in COLOURS.items():
        if any(name in times for _, _, times in groups):
            parts.append(f'<rect x="{x}" y="16" width="12" height="12" rx="2" fill="{colour}"/>')
            text(x + 18, 26.5, name)
            x += 42 + 6.6 * len(name)
    for title, element, times in groups:
        if title != last:
            y += 12 if last else 0
            text(24, y + 8, f"{title} (milliseconds)", font_weight="600", font_size="14")
            y += 24
            last = title
        text(LABELS - 10, y + ROW * len(times) / 2 + 4, element, text_anchor="end")
        for name, time in times.items():
            cut = time > limits[title]
            width = BARS * min(time, limits[title]) / limits[title]
            parts.append(f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{ROW - 4}" rx="2" '
                         f'fill="{COLOURS[name]}"/>')
            if cut:  # a bar that goes on
                edge = LABELS + width - 22
                parts.append(f'<path d="M{edge:.1f} {y + ROW - 2} l6 -{ROW} h5 l-6 {ROW} z" '
                             'fill="white"/>')
            text(LABELS + width + 6, y + ROW - 8, f"{time:.1f}",
                 font_weight="600" if name == "fasttree" else "400")
            y += ROW
        y += GAP
    context = results.context
    text(24, y + 14, f"{context['cpu']}, {threads(context)}, {context['instructions']}; 32 "
         "query heads, 8 KV heads, head_dim 128; medians of one run, each result verified.",
         fill="#555", font_size="11")
    width, height = LABELS + BARS + 84, y + 30
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
            f'font-size="12" fill="#222">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def write_between(file, mark, lines):
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    text = (ROOT / file).read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"{file}: needs one {begin} and one {end}")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    (ROOT / file).write_text(f"{before}{begin}\n" + "\n".join(lines).strip() + f"\n{end}{after}",
                             encoding="utf-8")
    print(f"wrote {file}")


def write_picture(file, picture):
    (ROOT / file).write_text(picture, encoding="utf-8")
    print(f"wrote {file}")


def report_planner(planner):
    context, predicted, measured = (planner[key] for key in ("context", "predicted", "measured"))
    write_picture("docs/planner_partials.svg", planner_report.traffic_picture(predicted["plans"]))
    write_between("docs/planner.md", "predicted", planner_report.predicted_lines(predicted))
    lines = planner_report.measured_lines(measured, context)
    picture = planner_report.time_picture(measured["times"], context)
    if picture:
        write_picture("docs/planner_time.svg", picture)
        lines = ["![Planning time against size](planner_time.svg)", ""] + lines
    write_between("docs/planner.md", "measured", lines)


def host_line(results):
    """For README.md: a shared prompt by this library, beside no sharing and PyTorch."""
    context = results.context
    title, element, ours, dense = next(results.rows("token_major"))
    line = (f"{context['cpu']}, {threads(context)}, {context['date']}: a step of decoding, {title} ({element}, 32 / 8 heads "
            f"of 128), takes {ours['time_ms']:.1f} ms")
    if "over_floor" in ours:
        line += f", {ours['over_floor']:.2f} times the floor (its bytes by a plain read and its flops by sgemm)"
    if dense:
        line += f"; without sharing {dense['time_ms'] / ours['time_ms']:.1f} times as long"
    rival = results.against_pytorch(ours["case"], element, "rows", "token_major")
    return line + (f", in PyTorch, each request alone, {rival:.1f} times." if rival else ".")


def main():
    sections, lines = [], []
    for file in sorted((ROOT / "bench/results").glob("host*.json")):
        results = Results(json.loads(file.read_text(encoding="utf-8")))
        picture = f"docs/{file.stem.replace('host', 'performance')}.svg"
        write_picture(picture, svg(results))
        sections += ["![Times beside the floor, attention without sharing, and PyTorch]"
                     f"({picture.removeprefix('docs/')})", "", table(results), ""]
        lines += [host_line(results), ""]
    planner = json.loads((ROOT / "bench/results/planner.json").read_text(encoding="utf-8"))
    write_between("docs/performance.md", "hosts", sections)
    write_between("README.md", "performance", lines + planning_line(planner))
    report_planner(planner)


if __name__ == "__main__":
    main()
