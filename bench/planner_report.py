# SPDX-License-Identifier: Apache-2.0
"""Tables and pictures of bench/results/planner.json; used by report.py."""
import html
import math

from planner_summary import BASE, FIXED, OURS, by_point, series

PAPER = "GreedyEdges"
COLOURS = {OURS: "#2563a8", PAPER: "#e0914a", BASE: "#9aa0a8"}
TITLES = {"paper": "the FastTree paper's trees and heads", "real": "batches from request traces"}
NAMES = {"GreedyEdges": "`GreedyEdges`, as the paper's artifact plans",
         "GreedyEdges_for_h200": "`GreedyEdges`, planning for the model's tiles",
         FIXED: "`MinimalTraffic`, `fixed_piece = 2048`"}


def name_of(planner):
    return NAMES.get(planner, f"`{planner}`")


def megabytes(count):
    return f"{count / 1e6:.1f}" if count < 1e8 else f"{count / 1e6:.0f}"


def time_table(summary):
    lines = ["| predicted time of `MinimalTraffic` over that of | trees | geometric mean | worst | best |",
             "|---|---|---|---|---|"]
    for source, found in summary.items():
        for planner, ratio in found["time_over"].items():
            lines.append(f"| {name_of(planner)} | {TITLES[source]}, {found['points']} points | "
                         f"**{ratio['geometric_mean']:.2f}** | {ratio['worst']:.2f} | "
                         f"{ratio['best']:.2f} |")
    return lines + [""]


def partial_table(summary):
    lines = ["| bytes of partial results | trees | points without any | sum, MB | "
             "`MinimalTraffic` over these, geometric mean |", "|---|---|---|---|---|"]
    for source, found in summary.items():
        for planner, partials in found["partial_bytes"].items():
            ratio = partials["ours_over_these_geometric_mean"]
            lines.append(f"| {name_of(planner)} | {TITLES[source]} | {partials['points_without']} of "
                         f"{found['points']} | {megabytes(partials['bytes'])} | "
                         f"{'' if planner == OURS else f'{ratio:.3g}'} |")
    lines += ["", "As many points have no partial results at all, the bytes of one query's partial result "
              "are added to both sides of each ratio.", ""]
    fixed = [f"{found['price_of_fixed_pieces']['geometric_mean']:.2f} in the geometric mean and "
             f"{found['price_of_fixed_pieces']['worst']:.2f} at worst on {TITLES[source]}"
             for source, found in summary.items()]
    return lines + ["With `fixed_piece = 2048` plans are predicted to take longer by a factor of "
                    f"{'; '.join(fixed)}.", ""]


def real_table(plans):
    points = by_point(plans, "real")
    if not points:
        return []
    lines = ["| batch, heads | keys, queries and outputs at full bandwidth, us | "
             "`MinimalTraffic`, us | over it | partial results of a request | `NoSharing`, us | fixed pieces, us |",
             "|---|---|---|---|---|---|---|"]
    for (tree, heads), found in sorted(points.items(), key=lambda p: p[1][OURS]["bandwidth_us"]):
        ours = found[OURS]
        lines.append(f"| {tree}, {heads.replace('x', ' / ')} | {ours['bandwidth_us']:.0f} | "
                     f"{ours['predicted_us']:.0f} | "
                     f"**{ours['predicted_us'] / ours['bandwidth_us']:.3f}** | "
                     f"{ours['partials_per_request']:.2f} | {found[BASE]['predicted_us']:.0f} | "
                     f"{found[FIXED]['predicted_us']:.0f} |")
    return lines + [""]


def predicted_lines(predicted):
    return (time_table(predicted["summary"]) + partial_table(predicted["summary"]) +
            real_table(predicted["plans"]))


def measured_lines(measured, context):
    summary = measured["summary"]
    lines = [f"{context['cpu']}, one core, {context['instructions']}, {context['compiler']}, "
             f"{context['date']}; medians of {context['repetitions']} runs, before which the machine's load "
             f"was {context['load_before']:.1f} on {context['num_cpus']} cores. Allocations after the first "
             f"plan: {summary['allocations_after_the_first_plan']:.0f}.", "",
             "| planning again, microseconds | " + " | ".join(f"`{name}`" for name in COLOURS) + " |",
             "|---|---|---|---|"]
    for what, spans in summary["plan_us"].items():
        cells = [f"{spans[name]['least']:.0f} to {spans[name]['most']:.0f}" if spans.get(name) else "-"
                 for name in COLOURS]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    lines += ["", "| nanoseconds for each node and request | planner | smallest: size | | largest: size | | "
              "ratio |", "|---|---|---|---|---|---|---|"]
    for line in summary["linear"]:
        sizes = list(line["ns_for_node_or_request"].items())
        lines.append(f"| {line['shape']} | `{line['planner']}` | {sizes[0][0]} | {sizes[0][1]:.0f} | "
                     f"{sizes[-1][0]} | {sizes[-1][1]:.0f} | "
                     f"{line['largest_over_smallest_size']:.2f} |")
    return lines + [""]


# ---- pictures


class Picture:
    """An SVG in the making."""

    def __init__(self, width):
        self.width = width
        self.parts = []

    def text(self, x, y, content, **more):
        attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{html.escape(content)}</text>')

    def rect(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                          f'rx="2" fill="{colour}"/>')

    def line(self, points, colour, width=1):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def circle(self, x, y, colour, filled=True):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{colour}" stroke-width="1.5" '
                          f'fill="{colour if filled else "white"}"/>')

    def legend(self, colours, x):
        for name, colour in colours.items():
            self.rect(x, 16, 12, 12, colour)
            self.text(x + 18, 26.5, name)
            x += 42 + 6.6 * len(name)

    def svg(self, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height:.0f}" '
                f'viewBox="0 0 {self.width} {height:.0f}" font-family="Helvetica, Arial, sans-serif" '
                f'font-size="12" fill="#222">\n<rect width="100%" height="100%" fill="white"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def traffic_picture(plans, heads="32x8"):
    """Bytes of partial results over those of the keys, on the paper's trees."""
    left, bars, row = 290, 400, 14
    picture, y = Picture(left + bars + 80), 44
    colours = {name: COLOURS[name] for name in (OURS, PAPER)}
    picture.legend(colours, 24)
    points = {tree: found for (tree, at), found in by_point(plans, "paper").items() if at == heads}
    shares = {tree: {name: found[name]["partial_bytes"] / found[name]["new_key_bytes"]
                     for name in colours} for tree, found in points.items()}
    most = max(max(share.values()) for share in shares.values())
    for tree, share in shares.items():
        levels, root = tree.removeprefix("paper_").split("_of_")
        picture.text(left - 10, y + row + 3, f"{levels.replace('_', ' ')} (root: {root})",
                     text_anchor="end", font_size="11")
        for name, value in share.items():
            picture.rect(left, y, max(1, bars * value / most), row - 3, colours[name])
            picture.text(left + bars * value / most + 6, y + row - 4, f"{value:.2f}" if value else "0",
                         font_size="10")
            y += row
        y += 7
    picture.text(24, y + 14, "Predicted: bytes of partial results over those of keys and values; paper's "
                 f"trees by nodes of a level and tokens of the root, "
                 f"{heads.replace('x', ' / ')} heads.", fill="#555", font_size="11")
    return picture.svg(y + 26)


def time_picture(times, context):
    """Planning time against size, both logarithmic: a straight line of slope one is linear time."""
    shapes = {"bushes": "", "star": "6 3", "chain": "2 3"}
    lines = {key: sizes for key, sizes in series(times).items()
             if key[0] in shapes and key[2] in COLOURS}
    if not lines:
        return None
    picture = Picture(660)
    picture.legend(COLOURS, 24)
    left, right, top, bottom = 70, 560, 50, 380
    spots = [(size, ns * size / 1e3) for sizes in lines.values() for size, ns in sizes]
    low, high = ([round_(math.log10(pick(spot[axis] for spot in spots))) for axis in (0, 1)]
                 for pick, round_ in ((min, math.floor), (max, math.ceil)))

    def place(size, microseconds):
        return (left + (right - left) * (math.log10(size) - low[0]) / (high[0] - low[0]),
                bottom - (bottom - top) * (math.log10(microseconds) - low[1]) / (high[1] - low[1]))

    for power in range(low[0], high[0] + 1):
        x = place(10**power, 1)[0]
        picture.line([(x, top), (x, bottom)], "#e4e6e9")
        picture.text(x, bottom + 18, f"{10**power:,}".replace(",", " "), text_anchor="middle")
    for power in range(low[1], high[1] + 1):
        y = place(1, 10**power)[1]
        picture.line([(left, y), (right, y)], "#e4e6e9")
        label = f"{10**power} us" if power < 3 else f"{10**(power - 3)} ms"
        picture.text(left - 8, y + 4, label, text_anchor="end")
    for (shape, _, planner), sizes in lines.items():
        spots = [place(size, ns * size / 1e3) for size, ns in sizes]
        picture.line(spots, COLOURS[planner], 2)
        if planner == OURS:
            picture.text(spots[-1][0] + 6, spots[-1][1] + 4, shape)
    picture.text(left, bottom + 40, "Measured: planning again, nodes + requests; "
                 f"{context['cpu']}, one core.", fill="#555", font_size="11")
    return picture.svg(bottom + 54)
