# SPDX-License-Identifier: Apache-2.0
"""What bench/results/ranks.json says beside measured times: fits of time against the number of ranks, the
constants of links, and what the simulator predicts; used by run_ranks."""
import math
import statistics
import subprocess

FITTED_TO = (2, 4)  # numbers of ranks, one in each node, to whose times the constants of links are fitted
AIM = {"median": 0.15, "worst": 0.30}

# For predictions alone. Rates of one GPU in bytes per us and direction, by the makers' data sheets; latencies
# and the time of a message are assumed.
MACHINES = [
    {"name": "H100 DGX", "gpus_per_node": 8, "memory_rate": 3.35e6,
     "within": {"latency": 2, "rate": 450e3, "message": 0.5},
     "between": {"latency": 5, "rate": 50e3, "message": 0.5},
     "source": "NVIDIA DGX H100 data sheet: HBM3 3.35 TB/s, NVLink 900 GB/s both ways, eight 400 Gb/s adapters"},
    {"name": "MI300X", "gpus_per_node": 8, "memory_rate": 5.3e6,
     "within": {"latency": 3, "rate": 64e3, "message": 0.5},
     "between": {"latency": 5, "rate": 50e3, "message": 0.5},
     "source": "AMD Instinct MI300X data sheet: HBM3 5.3 TB/s, Infinity Fabric 128 GB/s both ways to each of "
               "seven others; an adapter of 400 Gb/s for each GPU is assumed"},
    {"name": "RTX 4090, PCIe", "gpus_per_node": 8, "memory_rate": 1.008e6,
     "within": {"latency": 10, "rate": 25e3, "message": 1},
     "between": {"latency": 12, "rate": 12.5e3, "message": 1},
     "source": "NVIDIA GeForce RTX 4090 data sheet: 1008 GB/s, PCIe 4.0 x16; 25 GB/s of its 32 and an adapter of "
               "100 Gb/s for each GPU are assumed"},
]
SETTINGS = [(gpus, tokens) for gpus in (8, 64, 128, 1024)
            for tokens in (80_000, 320_000, 1_280_000, 5_120_000)]
HEADS = {"query_heads": 32, "kv_heads": 8, "dim": 128, "layers": 32}  # of Llama 3.1 8B
TOKENS = {"gpus": 8, "tokens": [1 << i for i in range(15, 21)]}  # whose attention in all layers is predicted
PREDICTED = ("one_shot", "tree", "two_level", "two_level_tree", "three_all_reduces", "pass_q", "pass_kv")


class Simulator:
    def __init__(self, program):
        self.program = program

    def times(self, points, one_link_per_node=False):
        """(point, attention in us, links within, links between) -> us."""
        lines = []
        for point, attention, *links in points:
            numbers = [point[key] for key in ("ranks", "ranks_per_node", "rows", "value_dim", "kv_bytes",
                                              "query_bytes")] + [point.get("messages_per_shard", 1), attention]
            numbers += [link[key] for link in links for key in ("latency", "rate", "message")]
            numbers.append(int(one_link_per_node))
            lines.append(" ".join([point["algorithm"], *map(str, numbers)]))
        run = subprocess.run([self.program], input="\n".join(lines) + "\n", text=True, check=True,
                             stdout=subprocess.PIPE)
        return [float(line) for line in run.stdout.split()]


def least(cost, start, steps, rounds=60):
    """Coordinates that make cost least, from a start on: each in turn up or down, by smaller and smaller factors."""
    best, at, factors = cost(start), list(start), [steps] * len(start)
    for _ in range(rounds):
        for i in range(len(at)):
            for factor in (1 + factors[i], 1 / (1 + factors[i])):
                other = at[:i] + [at[i] * factor] + at[i + 1:]
                found = cost(other)
                if found < best:
                    best, at = found, other
                    break
            else:
                factors[i] /= 2
    return at


def attention_of(network, point):
    """As measured, on as many ranks at once."""
    return next(other["us"] for other in network["points"]
                if other["algorithm"] == "attention" and other["ranks"] == point["ranks"])


def links_of(constants):
    """Within nodes, where only the latency counts beside links as slow as these, and between them."""
    between = dict(zip(("latency", "rate", "message"), constants))
    within = {"latency": constants[3], "rate": 1e6, "message": 0} if len(constants) > 3 else between
    return within, between


def predict(simulator, network, points, constants):
    """The ranks of a node share its link."""
    return simulator.times([(point, attention_of(network, point), *links_of(constants)) for point in points],
                           one_link_per_node=True)


def fit_links(simulator, network, points):
    def cost(constants):
        return sum(math.log(predicted / point["us"]) ** 2
                   for predicted, point in zip(predict(simulator, network, points, constants), points))

    start = [network["latency_us"], network["rate"], 50]
    if network["ranks_per_node"] > 1:
        start.append(100)
    return least(cost, start, 0.2)


def is_fitted(network, point):
    """Few ranks; of nodes of several ranks, the fewest."""
    if network["ranks_per_node"] > 1:
        return point["ranks"] == min(other["ranks"] for other in network["points"])
    return point["ranks"] in FITTED_TO


def add_predictions(simulator, network):
    """Fits the links to steps of few ranks; predicts those of other numbers."""
    steps = [point for point in network["points"] if point["algorithm"] != "attention"]
    fitted = [point for point in steps if is_fitted(network, point)]
    constants = fit_links(simulator, network, fitted)
    for point, predicted in zip(steps, predict(simulator, network, steps, constants)):
        point["predicted_us"] = round(predicted, 1)

    def error(point):
        return abs(point["predicted_us"] / point["us"] - 1)

    left_out = sorted((point for point in steps if not is_fitted(network, point)), key=error)
    network["link"] = dict(zip(("latency_us", "rate", "message_us", "latency_within_us"),
                               (float(f"{constant:.4g}") for constant in constants)))
    network["left_out"] = {"points": len(left_out), "fitted_to": len(fitted),
                           "median_error": round(statistics.median(map(error, left_out)), 4),
                           "worst_error": round(error(left_out[-1]), 4),
                           "worst": left_out[-1]["algorithm"], "worst_ranks": left_out[-1]["ranks"]}


def line_fit(xs, ys):
    """y = a + c x; a, c, and the root mean square and the largest residual, relative to the mean of y."""
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    c = (sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs))
    a = mean_y - c * mean_x
    residuals = [abs(y - a - c * x) / mean_y for x, y in zip(xs, ys)]
    return {"a_us": round(a, 1), "c_us": round(c, 1),
            "residual": round(math.sqrt(statistics.mean([r * r for r in residuals])), 4),
            "worst_residual": round(max(residuals), 4)}


POWERS = (2, 4, 8)
GROWTH = {"log2 p": (math.log2, None), f"log2 p, p = {', '.join(map(str, POWERS))} alone": (math.log2, POWERS),
          "p": (float, None)}


def add_growth(network):
    """Time against p, as a + c x for each x of GROWTH."""
    growth = []
    for algorithm in dict.fromkeys(point["algorithm"] for point in network["points"]):
        if algorithm == "attention":
            continue
        for of, (x, only) in GROWTH.items():
            points = [point for point in network["points"]
                      if point["algorithm"] == algorithm and (only is None or point["ranks"] in only)]
            growth.append({"algorithm": algorithm, "of": of,
                           **line_fit([x(point["ranks"]) for point in points], [point["us"] for point in points])})
    network["growth"] = growth


def predicted_step(machine, gpus, tokens, algorithm):
    point = {"algorithm": algorithm, "ranks": gpus, "ranks_per_node": min(gpus, machine["gpus_per_node"]),
             "rows": HEADS["query_heads"], "value_dim": HEADS["dim"],
             "kv_bytes": tokens * HEADS["kv_heads"] * 2 * HEADS["dim"] * 2,
             "query_bytes": HEADS["query_heads"] * HEADS["dim"] * 2}
    return point, point["kv_bytes"] / gpus / machine["memory_rate"], machine["within"], machine["between"]


def settings(simulator):
    """Steps of one sequence in one layer, 16-bit keys and values, float partial results; predicted."""
    found = []
    for machine in MACHINES:
        for gpus, tokens in SETTINGS:
            asked = [predicted_step(machine, gpus, tokens, algorithm) for algorithm in PREDICTED]
            times = dict(zip(PREDICTED, (round(time, 2) for time in simulator.times(asked))))
            found.append({"machine": machine["name"], "gpus": gpus, "tokens": tokens,
                          "attention_us": round(asked[0][1], 2), **times})
    return found


def tokens_in_all_layers(simulator):
    """The attention of a step of one sequence in all layers, one after the other; as settings()."""
    found = []
    for machine in MACHINES:
        for tokens in TOKENS["tokens"]:
            asked = [predicted_step(machine, TOKENS["gpus"], tokens, algorithm) for algorithm in PREDICTED]
            times = {name: round(HEADS["layers"] * time, 1)
                     for name, time in zip(PREDICTED, simulator.times(asked))}
            found.append({"machine": machine["name"], "gpus": TOKENS["gpus"], "tokens": tokens,
                          "attention_us": round(HEADS["layers"] * asked[0][1], 1), **times})
    return found


def add_models(results, program):
    simulator = Simulator(program)
    for network in results["networks"]:
        if network["loss"] > 0:
            continue
        if network["ranks_per_node"] == 1:
            add_growth(network)
        add_predictions(simulator, network)
    results["predicted"] = {"machines": MACHINES, "heads": HEADS, "steps": settings(simulator),
                            "tokens": tokens_in_all_layers(simulator)}
