# SPDX-License-Identifier: Apache-2.0
"""What bench/results/planner.json says in few numbers: of the plans that bench_traffic predicts, and of the
times that bench_planning measures. The two are never mixed."""
import math
import re

OURS, FIXED, BASE = "MinimalTraffic", "MinimalTraffic_pieces_of_2048", "NoSharing"
SHAPE = re.compile(r"_of_\d+_nodes_\d+_requests$")  # the rest of a name is the shape
# Trees of like sizes, by name and requests.
PLANNED = {
    "the FastTree paper's trees of 1024 requests":
        lambda tree, requests: tree.startswith("paper") and requests == 1024,
    "a star, bushes and a forest of 1024 requests":
        lambda tree, requests: SHAPE.search(tree) and requests == 1024,
    "32 bushes of 1024 requests in turn, which no processor knows by heart":
        lambda tree, _: tree == "32_bushes_in_turn",
    "the largest batches from request traces":
        lambda tree, _: tree.endswith("-a-1024"),
    "bushes of 100000 requests": lambda tree, requests: requests == 100000,
}


def rounded(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def by_point(plans, source):
    """{(tree, heads): {planner: plan}} of one source of trees."""
    points = {}
    for plan in plans:
        if plan["source"] == source:
            points.setdefault((plan["tree"], plan["heads"]), {})[plan["planner"]] = plan
    return points


def ratio(points, above, below):
    """Predicted time of one planner over another's."""
    values = {point: plans[above]["predicted_us"] / plans[below]["predicted_us"]
              for point, plans in points.items()}
    worst = max(values, key=values.get)
    return {"geometric_mean": rounded(geometric_mean(values.values())),
            "worst": rounded(values[worst]), "worst_at": "/".join(worst),
            "best": rounded(min(values.values()))}


def partials(points, planner):
    """Bytes of partial results: many plans of blocks have none, so means of ratios need a unit. Taken as
    one is a partial result of one query, added to both sides."""
    plans = [plans[planner] for plans in points.values()]
    smoothed = [(found[OURS]["partial_bytes"] + found[OURS]["partial_bytes_of_query"]) /
                (found[planner]["partial_bytes"] + found[OURS]["partial_bytes_of_query"])
                for found in points.values()]
    return {"points_without": sum(plan["partial_bytes"] == 0 for plan in plans),
            "bytes": sum(plan["partial_bytes"] for plan in plans),
            "ours_over_these_geometric_mean": rounded(geometric_mean(smoothed))}


def predicted(plans):
    summary = {}
    for source in ("paper", "real"):
        points = by_point(plans, source)
        if not points:
            continue
        others = [name for name in next(iter(points.values())) if name != OURS]
        summary[source] = {
            "points": len(points),
            "time_over": {name: ratio(points, OURS, name) for name in others if name != FIXED},
            "price_of_fixed_pieces": ratio(points, FIXED, OURS),
            "partial_bytes": {name: partials(points, name) for name in [OURS] + others},
        }
    return summary


def series(times):
    """{(shape, planner): [(size, nanoseconds for a node or request)]}, from small to large."""
    found = {}
    for time in times:
        if time["what"] == "plan" and SHAPE.search(time["tree"]):
            size = time["nodes"] + time["requests"]
            found.setdefault((SHAPE.sub("", time["tree"]), time["heads"], time["planner"]),
                             []).append((size, rounded(1e3 * time["cpu_us"] / size)))
    return {key: sorted(sizes) for key, sizes in found.items() if len(sizes) > 2}


def span(values):
    values = list(values)
    return {"least": min(values), "most": max(values)} if values else None


def measured(times):
    plans = [time for time in times if time["what"] == "plan"]
    planners = sorted({time["planner"] for time in plans})
    summary = {"allocations_after_the_first_plan": max(
        (time["allocations"] for time in plans), default=0)}
    summary["plan_us"] = {
        what: {name: span(time["cpu_us"] for time in plans
                          if matches(time["tree"], time["requests"]) and time["planner"] == name)
               for name in planners}
        for what, matches in PLANNED.items()}
    summary["linear"] = [
        {"shape": shape, "heads": heads, "planner": planner,
         "ns_for_node_or_request": {str(int(size)): time for size, time in sizes},
         "largest_over_smallest_size": rounded(sizes[-1][1] / sizes[0][1])}
        for (shape, heads, planner), sizes in series(times).items()]
    return summary
