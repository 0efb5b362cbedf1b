#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench/results/ranks.json holds, which bench/run_ranks writes: tables in docs/ranks.md, docs/ranks.svg,
and a line in README.md.

  bench/links_report.py
"""
import json
import math
import statistics
import sys

from planner_report import Picture
from ranks_model import AIM, FITTED_TO, GROWTH, PREDICTED
from report import ROOT, write_between, write_picture

COLOURS = {"tree": "#2563a8", "one_shot": "#4d9a63", "three_all_reduces": "#8a63b8", "pass_q": "#e0914a",
           "pass_kv": "#b8434e"}


def milliseconds(us):
    return f"{us / 1e3:.1f}"


def microseconds(us):
    if us < 99.95:
        return f"{us:.1f}"
    return f"{us:.0f}" if us < 1e4 else f"{us / 1e3:.0f} ms"


def table(header, rows):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def link_words(network):
    loss = f", {network['loss']:.0%} of packets lost" if network["loss"] else ""
    return f"{network['latency_us'] / 1e3:g} ms, {network['rate']:g} MB/s{loss}"


def by_algorithm(points, key):
    found = {}
    for point in points:
        if point["algorithm"] != "attention":
            found.setdefault(point["algorithm"], {})[point[key]] = point
    return found


def what_was_asked(network):
    point = network["points"][-1]
    shard = point["kv_bytes"] / point["ranks"]
    return (f"{point['rows']} rows of {point['value_dim'] + 1} floats, "
            f"{point['rows'] * (point['value_dim'] + 1) * 4 / 1e3:.0f} kB of records and {shard / 1e3:.0f} kB of keys "
            "and values on each rank")


def context_line(context):
    return (f"{context['cpu']}, {context['cores']} cores, {context['mpi']}, {context['date']}. Every rank is a "
            "process in a network namespace of its own; a switch in user space delays its packets and sends them "
            f"at a rate. Medians of {context['repetitions']} steps, each result checked against double precision, from a "
            "common beginning, which a rank may miss by up to 3 ms, until the last rank is done; milliseconds. There are "
            "more ranks than cores, which is why links are slow enough that ranks mostly wait. Beside the times are lines "
            "fitted to them, a + c x, with the root mean square and the largest of what is left, relative to the mean time; "
            "the better of those to all p is bold.")


def growth_lines(network):
    numbers = sorted({point["ranks"] for point in network["points"]})
    rows = []
    for algorithm, points in by_algorithm(network["points"], "ranks").items():
        fits = [fit for fit in network["growth"] if fit["algorithm"] == algorithm]
        best = min((fit for fit in fits if "alone" not in fit["of"]), key=lambda fit: fit["residual"])
        cells = []
        for fit in fits:
            sign = "+" if fit["c_us"] >= 0 else "-"
            text = (f"{milliseconds(fit['a_us'])} {sign} {milliseconds(abs(fit['c_us']))} x: {fit['residual']:.1%}, "
                    f"{fit['worst_residual']:.1%}")
            cells.append(f"**{text}**" if fit is best else text)
        rows.append([f"`{algorithm}`", *(milliseconds(points[p]["us"]) for p in numbers), *cells])
    return [f"**{link_words(network)}**; {what_was_asked(network)}:", "",
            *table(["p =", *map(str, numbers), *(f"x = {of}" for of in GROWTH)], rows)]


def node_lines(network):
    steps = by_algorithm(network["points"], "ranks")
    numbers = sorted({point["ranks"] for point in network["points"]})
    per_node = network["ranks_per_node"]
    rows = [[f"`{algorithm}`", *(cell for p in numbers for cell in (milliseconds(points[p]["us"]),
                                                                    milliseconds(points[p]["predicted_us"])))]
            for algorithm, points in sorted(steps.items(), key=lambda item: item[1][numbers[-1]]["us"])]
    header = [cell for p in numbers for cell in (f"{p // per_node} nodes", "simulated")]
    return [f"**Nodes of {per_node} ranks**, which share their node's link of {link_words(network)}; "
            f"{what_was_asked(network)}; the simulator's links are fitted to the times in "
            f"{numbers[0] // per_node} nodes:", "", *table(["", *header], rows)]


def lossy_lines(network):
    rows = [[f"`{point['algorithm']}`", str(point["ranks"]), milliseconds(point["least_us"]), milliseconds(point["us"]),
             milliseconds(point["most_us"])] for point in network["points"] if point["algorithm"] != "attention"]
    return [f"**{link_words(network)}**; what is lost TCP sends again, later, so times scatter, and results "
            f"are right; {what_was_asked(network)}:", "", *table(["", "p", "least", "median", "most"], rows)]


def is_flat(network):
    return network["ranks_per_node"] == 1 and network["loss"] == 0


def measured_lines(results):
    lines = [context_line(results["context"]), ""]
    for network in results["networks"]:
        if is_flat(network):
            lines += growth_lines(network)
        elif network["loss"]:
            lines += lossy_lines(network)
        else:
            lines += node_lines(network)
    return lines


def simulated_lines(results):
    rows, missed = [], []
    for network in results["networks"]:
        if network["loss"]:
            continue
        left_out = network["left_out"]
        link, of_nodes, fitted = network["link"], "", ""
        if "latency_within_us" in link:
            of_nodes = f", nodes of {network['ranks_per_node']} ranks"
            fitted = f"; {link['latency_within_us'] / 1e3:.2f} ms within nodes"
        fitted = f"{link['latency_us'] / 1e3:.2f} ms, {link['rate']:.1f} MB/s, {link['message_us']:.0f} us{fitted}"
        if left_out["median_error"] > AIM["median"] or left_out["worst_error"] > AIM["worst"]:
            missed.append(link_words(network) + of_nodes)
        spread = statistics.median((point["most_us"] - point["least_us"]) / point["us"] for point in network["points"]
                                   if "predicted_us" in point)
        rows.append([link_words(network) + of_nodes, fitted,
                     str(left_out["fitted_to"]), str(left_out["points"]), f"**{left_out['median_error']:.1%}**",
                     f"**{left_out['worst_error']:.1%}**", f"`{left_out['worst']}`, {left_out['worst_ranks']} ranks",
                     f"{spread:.0%}"])
    outcome = f"missed on links of {' and of '.join(missed)}" if missed else "met on all links"
    return [f"Aim: {AIM['median']:.0%} in the median, {AIM['worst']:.0%} at worst, {outcome}. Fitted to "
            f"{' and '.join(map(str, FITTED_TO))} ranks, all algorithms, and with several ranks in a node to the fewest "
            "nodes; left out are all others. Last is how far the most of the measured times of a step is above the least, over their "
            "median, of a median point: other programs run on the machine, and the shorter the links, the more that shows.",
            "",
            *table(["link as it was set", "as fitted: latency, rate, a message", "fitted points", "left-out points",
                    "median error", "worst error", "which", "spread of the measured"], rows)]


def memory_lines(results):
    rows = []
    for point in results["memory"]:
        more = point["ring_bytes"] - point["tree_bytes"]
        rows.append([f"{point['tokens_per_rank']}", *(f"{point[of] / 1e3:.1f}" for of in ("shard_bytes", "tree_bytes",
                                                                                       "ring_bytes")),
                     f"{(more - point['shard_bytes']) / 1e3:.1f}", f"**{point['ring_bytes'] / point['tree_bytes']:.3f}**"])
    return [f"Allocated for each of {results['memory'][0]['ranks']} ranks that are threads, its own shard included, kB; one "
            "sequence, 4 query heads, 2 KV heads, head_dim 16, floats, messages of 1 kB:", "",
            *table(["tokens on a rank", "its shard", "tree reduction", "ring of K,V", "difference beyond one shard",
                    "ratio"], rows)]


def predicted_lines(results):
    predicted, lines = results["predicted"], []
    for machine in predicted["machines"]:
        links = [f"{machine[where]['rate'] / 1e3:g} GB/s and {machine[where]['latency']:g} us {words}"
                 for where, words in (("within", "within"), ("between", "between nodes"))]
        lines += [f"**{machine['name']}, predicted**: {machine['memory_rate'] / 1e6:g} TB/s of memory; {links[0]}, "
                  f"{links[1]}. {machine['source']}; latencies are assumed.", ""]
        rows = []
        for step in predicted["steps"]:
            if step["machine"] != machine["name"]:
                continue
            best = min(PREDICTED, key=step.get)
            cells = [microseconds(step["attention_us"])]
            for algorithm in PREDICTED:
                cell = microseconds(step[algorithm])
                cells.append(f"**{cell}**" if algorithm == best else cell)
            rows.append([str(step["gpus"]), f"{step['tokens'] / 1e6:g} M", *cells,
                         f"{step['pass_kv'] / step[best]:.0f}"])
        lines += table(["GPUs", "tokens", "attention alone", *(f"`{name}`" for name in PREDICTED),
                        "`pass_kv` over the best"], rows)
    return lines


def token_lines(results):
    """The attention of a step in all layers."""
    predicted = results["predicted"]
    shown = [name for name in PREDICTED if name not in ("two_level", "two_level_tree")]  # there is one node
    rows = []
    for step in predicted["tokens"]:
        best = min(shown, key=step.get)
        cells = [f"{step[name] / 1e3:.2f}" for name in shown]
        cells[shown.index(best)] = f"**{cells[shown.index(best)]}**"
        rows.append([step["machine"], str(step["tokens"]), f"{step['attention_us'] / 1e3:.2f}", *cells,
                     f"{step['pass_kv'] / step[best]:.0f}"])
    gpus = predicted["tokens"][0]["gpus"]
    return [f"**Predicted**, {gpus} GPUs of a node, milliseconds:", "",
            *table(["machine", "tokens", "attention alone", *(f"`{name}`" for name in shown), "`pass_kv` over the best"],
                   rows)]


def growth_picture(network, context):
    """Time against the number of ranks."""
    picture = Picture(660)
    picture.legend(COLOURS, 24)
    left, right, top, bottom = 70, 620, 50, 400
    steps = by_algorithm(network["points"], "ranks")
    numbers = sorted({point["ranks"] for point in network["points"]})
    largest = max(steps[algorithm][p]["us"] for algorithm in COLOURS for p in numbers) / 1e3
    step = next(size for power in range(-3, 9) for size in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
                if largest / size <= 8)
    most = math.ceil(largest / step) * step

    def place(ranks, us):
        return (left + (right - left) * (ranks - 1) / (numbers[-1] - 1), bottom - (bottom - top) * us / 1e3 / most)

    for i in range(round(most / step) + 1):
        y = place(1, i * step * 1e3)[1]
        picture.line([(left, y), (right, y)], "#e4e6e9")
        picture.text(left - 8, y + 4, f"{i * step:g} ms", text_anchor="end")
    for ranks in numbers:
        picture.text(place(ranks, 0)[0], bottom + 18, str(ranks), text_anchor="middle")
    for algorithm, colour in COLOURS.items():
        picture.line([place(p, steps[algorithm][p]["predicted_us"]) for p in numbers], colour)
        for p in numbers:
            x, y = place(p, steps[algorithm][p]["us"])
            picture.circle(x, y, colour, filled=p in FITTED_TO)
    picture.text((left + right) / 2, bottom + 36, "ranks", text_anchor="middle")
    for i, text in enumerate((
            f"Circles: measured, {context['cpu']}, {context['cores']} cores, {context['date']}; links of "
            f"{link_words(network)}.",
            "Lines: simulated, by a link fitted to the filled circles.")):
        picture.text(24, bottom + 58 + 16 * i, text, fill="#555", font_size="11")
    return picture.svg(bottom + 86)


def readme_lines(results):
    flat = list(filter(is_flat, results["networks"]))
    network = flat[0]
    most = max(point["ranks"] for point in network["points"])
    step = {name: points[most] for name, points in by_algorithm(network["points"], "ranks").items()}
    worst = max(one["left_out"]["worst_error"] for one in results["networks"] if "left_out" in one)
    median = max(one["left_out"]["median_error"] for one in results["networks"] if "left_out" in one)
    return [f"Measured on {most} ranks with links of {link_words(network)} between them: a step takes "
            f"{milliseconds(step['one_shot']['us'])} ms by `one_shot`, {milliseconds(step['tree']['us'])} by `tree`, "
            f"{milliseconds(step['three_all_reduces']['us'])} by `three_all_reduces`, and "
            f"{milliseconds(step['pass_q']['us'])} and {milliseconds(step['pass_kv']['us'])} by rings of queries and of "
            f"K,V. The simulator misses times that it was not fitted to by at most {median:.1%} in the median of a network and "
            f"{worst:.1%} at worst. How times grow with ranks, and what is predicted for GPUs: "
            "[docs/ranks.md](docs/ranks.md)."]


def main():
    file = ROOT / "bench/results/ranks.json"
    if not file.exists():
        sys.exit(f"{file.name}: not there; bench/run_ranks writes it")
    results = json.loads(file.read_text(encoding="utf-8"))
    flat = next(filter(is_flat, results["networks"]))
    write_picture("docs/ranks.svg", growth_picture(flat, results["context"]))
    write_between("docs/ranks.md", "measured", measured_lines(results))
    write_between("docs/ranks.md", "simulated", simulated_lines(results))
    write_between("docs/ranks.md", "memory", memory_lines(results))
    write_between("docs/ranks.md", "predicted", predicted_lines(results))
    write_between("docs/ranks.md", "tokens_predicted", token_lines(results))
    write_between("README.md", "links", readme_lines(results))


if __name__ == "__main__":
    main()
