"""Why a plan won and what was turned down, in sentences with figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.model.plan import MAX_REJECTED, Rejection
from hyperscale.planner.choice.slower_ways import between_pods, not_requested
from hyperscale.planner.choice.ties import tolerance
from hyperscale.planner.choice.used_nodes import UsedNodes
from hyperscale.planner.cost.objective import Breakdown, crossings, hops_seconds
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.search.moved_worker import best_replacement
from hyperscale.planner.search.search_result import Candidate

REASON_ORDER: Final = (
    "SchedulerRefused",
    "GPUFault",
    "MIGDevice",
    "SharedGPU",
    "GPUMemory",
    "GPUProduct",
    "Constraint",
    "NodeSelector",
    "NodeAffinity",
    "Volume",
    "Tainted",
    "Cordoned",
    "NotReady",
    "CPU",
    "Memory",
    "Resource",
    "NoFreeGPUs",
    "Unreachable",
    "NotChosen",
    "EqualPlan",
    "SlowerPlan",
)
"""Most telling first: what surprises, then what is merely busy, then what was suitable: faster, as fast and slower."""


MAX_COMPARED: Final = 128
"""Unused nodes compared with the planned ones, fastest first."""
LARGE_JOB: Final = 400
"""Workers beyond which only as many are compared as are listed: each takes workers² steps."""
LARGEST_PERCENTAGE: Final = 2.0
"""Beyond twice as much, a factor says more than a percentage."""
MANY_TIMES: Final = 1000.0
SAME: Final = "+0.0 %"
ROUNDING: Final = 1e-9
LEAST_SHOWN_GAP: Final = 0.001
LEAST_SHOWN_HOST: Final = 0.1
LARGEST_GAP: Final = 1.0
"""A bound weaker than twice the best says nothing about the plan."""

CUT_SHORT: Final = "The search ended at its deadline: with more time, or on a faster machine, the plan may be another."


def reasons(used: UsedNodes, chosen: Candidate, figures: Breakdown, others: Sequence[Candidate]) -> tuple[str, ...]:
    """Sentences for the winner on the nodes `used`; `others` are the candidates that lost."""
    problem = used.problem
    sentences = [_why_this_count(problem, chosen, others), _slowest_worker(problem, chosen, figures)]
    if chosen.workers * problem.demand.gpus > 1:
        sentences += [_network(used, figures), between_pods(used)]
    sentences += [not_requested(used), _runner_up(chosen, others), _topology(problem, chosen)]
    return tuple(sentence for sentence in sentences if sentence)


def preferred(within: float, weights: tuple[float, float, float] | None = None, sizes_known: bool = False) -> str:
    """Why a plan is chosen though another has a slightly lower objective.

    weights: of people, where they chose · sizes_known: the request states the sizes that the cluster is asked for
    """
    if weights is not None:
        time, cost, risk = weights
        by = f"time {time:.2g}, cost {cost:.2g}, risk {risk:.2g}"
        return f"Plans within {within * 100.0:.3g} % are equal: the one that the namespace's preferences ({by}) rate best wins."
    fit = "strands the fewest GPUs for the sizes that this cluster is asked for" if sizes_known else "leaves the fewest GPUs idle"
    return f"Plans within {within * 100.0:.3g} % are equal: the cheapest of them wins, then the one that {fit}."


def distance(gap: float | None, within: float = 0.0) -> str:
    """How far from the best possible a plan can be, by the cost model; empty where it is unknown. within: what counts as equal."""
    if gap is None:
        return ""
    if gap == 0.0:
        return "Proven optimal by the cost model: no placement with an allowed number of workers has a lower objective."
    if gap <= within:
        shown = f"{within * 100.0:.3g} % by the cost model"
        return f"Proven optimal within {shown}: no placement with an allowed number of workers is better by more."
    shown = f"{gap * 100.0:.1f} %" if gap >= LEAST_SHOWN_GAP else "0.1 %"
    return f"By the cost model at most {shown} above the best possible objective." if gap <= LARGEST_GAP else ""


def rejections(problem: Problem, chosen: Candidate) -> tuple[Rejection, ...]:
    """Nodes not used, at most MAX_REJECTED: some of every reason, most telling reason first, then by name."""
    by_reason: dict[str, list[Rejection]] = {}
    for rejection in (*problem.vetting.rejected, *_slower(problem, chosen)):
        by_reason.setdefault(rejection.reason, []).append(rejection)
    return bounded(by_reason)


def bounded(by_reason: dict[str, list[Rejection]]) -> tuple[Rejection, ...]:
    """MAX_REJECTED of them, dealt out to the reasons in turn; the order inside a reason stays."""
    ordered = sorted(by_reason, key=_rank_of_reason)
    kept: dict[str, int] = dict.fromkeys(ordered, 0)
    left = min(MAX_REJECTED, sum(len(group) for group in by_reason.values()))
    while left > 0:
        for reason in ordered:
            if left > 0 and kept[reason] < len(by_reason[reason]):
                kept[reason] += 1
                left -= 1
    return tuple(rejection for reason in ordered for rejection in by_reason[reason][: kept[reason]])


def _rank_of_reason(reason: str) -> tuple[int, str]:
    return (REASON_ORDER.index(reason) if reason in REASON_ORDER else 0, reason)


def _why_this_count(problem: Problem, chosen: Candidate, others: Sequence[Candidate]) -> str:
    best = {candidate.workers: candidate.objective for candidate in sorted((*others, chosen), reverse=True)}
    unit = "worker" if chosen.workers == 1 else "workers"
    head = f"{chosen.workers} {unit}: objective {chosen.objective:.4g} s an epoch"
    if problem.request.workers_fixed is not None:
        return f"{head}; the queue, or an MPIJob that exists, gives the number."
    if len(best) == 1:
        return f"{head}; no other number is allowed or has room."
    compared = sorted((count for count in best if count != chosen.workers), key=lambda count: (abs(count - chosen.workers), count))[:3]
    parts = [f"{count} would have {best[count]:.4g} s ({_percent(best[count], chosen.objective)})" for count in sorted(compared)]
    return f"{head}; {', '.join(parts)}."


def _slowest_worker(problem: Problem, chosen: Candidate, figures: Breakdown) -> str:
    member = chosen.order[figures.slowest_worker]
    node = problem.graph.nodes[problem.nodes[member]]
    use_known = bool(problem.utilization_known[member])
    use = f"{problem.utilization[member]:.0%} in use" if use_known else "use unknown"
    host = problem.host_ratio[member]
    drawn = f" ({host:.0%} on the host: drawn neighbours, their features)" if host >= LEAST_SHOWN_HOST else ""
    return (
        f"Slowest worker is {figures.slowest_worker} on {node.name} ({node.gpu_product or 'unlabelled GPU'}, {use}): "
        f"compute {figures.compute_seconds:.4g} s{drawn}, boundary data {figures.halo_seconds:.4g} s an epoch."
    )


def _network(used: UsedNodes, figures: Breakdown) -> str:
    """The hop of the ring that takes longest by latency and bytes together, those between GPUs of a node counted."""
    costs, places, measured = used.costs, used.places, used.links.measured
    following = np.roll(places, -1)
    apart, inside = hops_seconds(costs, places)
    seconds, ends = np.concatenate((apart, inside)), np.concatenate((following, places))
    slowest = int(np.argmax(seconds))
    hop = source, target = int(places[slowest % len(places)]), int(ends[slowest])
    names = [used.problem.names[used.members[place]] for place in hop]
    speed = f"{costs.latency_seconds[hop] * 1e3:.3g} ms, {1e-9 / costs.seconds_per_byte[hop]:.3g} GB/s"
    takes = f"allreduce takes {figures.ring_seconds:.4g} s an epoch."
    if source == target:
        origin = "told by agent or policy" if measured[hop] else "assumed for the product"
        head = "All ring hops stay" if len(used.members) == 1 else "Slowest ring hop is"
        return f"{head} inside {names[0]}: {speed} ({origin}); {takes}"
    origin = "measured" if measured[hop] or measured[target, source] else "estimated from labels"
    times = int(crossings(costs, places[None, :], following[None, :])[0, slowest])
    shared = f", {times} hops share its card" if times > 1 else ""
    return f"Slowest ring hop is {names[0]} to {names[1]}: {speed} ({origin}{shared}); {takes}"


def _runner_up(chosen: Candidate, others: Sequence[Candidate]) -> str:
    same = sorted(other for other in others if other.workers == chosen.workers and sorted(other.names) != sorted(chosen.names))
    if not same:
        return ""
    without, instead = sorted({*chosen.names} - {*same[0].names}), sorted({*same[0].names} - {*chosen.names})
    if not without or not instead:
        return ""
    difference = _percent(same[0].objective, chosen.objective)
    compared = "is as fast" if difference == SAME else f"costs {difference}"
    if difference.startswith("-"):
        compared = f"costs {difference[1:]} less, too little to decide"
    return f"Next best set that the search kept takes {_listed(instead)} for {_listed(without)} and {compared}."


def _topology(problem: Problem, chosen: Candidate) -> str:
    topology = problem.job.placement.topology
    key = topology.required or topology.preferred
    if key is None:
        return ""
    values = sorted({problem.graph.nodes[problem.nodes[member]].labels.get(key, "") for member in chosen.order})
    if len(values) == 1:
        return f"All workers are inside {key}={values[0]}, as {'required' if topology.required else 'preferred'}."
    return f"Workers span {len(values)} domains of {key}: staying inside one would cost more than it is worth."


def _slower(problem: Problem, chosen: Candidate) -> list[Rejection]:
    """Suitable nodes that were not used, the nearest miss first, with what the plan would cost with them instead of one of its own."""
    used = np.unique(np.array(chosen.order, dtype=np.int64))
    free = np.setdiff1d(np.flatnonzero(problem.slots > 0), used)
    most = MAX_COMPARED if chosen.workers <= LARGE_JOB else MAX_REJECTED
    unused = np.sort(free[np.argsort(-problem.flops_per_second[free], kind="stable")[:most]])
    if not len(unused):
        return []
    costs = problem.costs(np.concatenate((used, unused)))
    order = np.searchsorted(used, np.array(chosen.order, dtype=np.int64))
    stays = np.isin(np.arange(len(order)), [rank for rank, _ in problem.pinned])
    seconds = best_replacement(costs, order, np.arange(len(used), len(used) + len(unused)), stays)
    apart = _outside(problem, chosen, unused)
    compared = list(zip([problem.names[member] for member in unused], seconds.tolist(), apart, strict=True))
    # NaN, which is neither more nor less than a number, would leave the order to the sorting algorithm.
    compared.sort(key=lambda entry: (math.inf if math.isnan(entry[1]) else entry[1], entry[0]))
    kinds = [(outside, math.isfinite(cost)) for _, cost, outside in compared]
    shown = [entry for at, entry in enumerate(compared) if kinds[:at].count(kinds[at]) < MAX_REJECTED]  # more of one kind are never shown
    return [_why_not(problem, chosen, *entry) for entry in shown]


def _why_not(problem: Problem, chosen: Candidate, name: str, seconds: float, outside: bool) -> Rejection:
    """Why a suitable node is not used that would make the objective `seconds`."""
    if outside:
        return Rejection(name, "Constraint", f"outside the domain of {problem.job.placement.topology.required} that was chosen")
    if math.isnan(seconds):
        return Rejection(name, "GPUMemory", "its GPUs do not hold their part of the training graph at the places tried")
    if not math.isfinite(seconds):
        return Rejection(name, "Unreachable", _unreachable(problem, chosen, name))
    reason, difference = _compared(seconds, chosen.objective, tolerance(problem))
    return Rejection(name, reason, f"one worker moved there: {difference}")


def _compared(other: float, chosen: float, within: float) -> tuple[str, str]:
    """Reason and words for a node with which the objective would be `other`; within: relative difference that counts as equal."""
    difference = _percent(other, chosen)
    if difference == SAME:
        return "EqualPlan", "it is as fast"
    if other > chosen:
        equal = other <= chosen * (1.0 + within) * (1.0 + ROUNDING)
        return ("EqualPlan", f"{(other / chosen - 1.0) * 100.0:.1f} % more, which counts as equal") if equal else ("SlowerPlan", difference)
    less = f"{(1.0 - other / chosen) * 100.0:.1f} % less"
    if chosen <= other * (1.0 + within) * (1.0 + ROUNDING):
        return "EqualPlan", f"{less}, which counts as equal"
    return "NotChosen", f"{less}; the search did not get there, or ranks that stay or a preference kept it out"


def _unreachable(problem: Problem, chosen: Candidate, name: str) -> str:
    """Which planned nodes cannot be reached, and whether that was measured."""
    planned = sorted(set(chosen.names))
    positions = np.array([problem.graph.index[other] for other in planned], dtype=np.int64)
    links = problem.graph.link_costs_between(np.array([problem.graph.index[name]], dtype=np.int64), positions)
    lost = [other for other, bandwidth in zip(planned, links.bandwidth_bytes_per_second[0], strict=True) if bandwidth <= 0.0]
    return f"its links to {_listed(lost)} are dead or missing" if lost else "cannot reach the planned nodes"


def _outside(problem: Problem, chosen: Candidate, members: IntArray) -> list[bool]:
    """Whether each candidate lies outside the required domain of the plan."""
    key = problem.job.placement.topology.required
    if key is None:
        return [False] * len(members)
    domains = domains_of(problem, key)
    return [domains[member] != domains[chosen.order[0]] for member in members]


def _percent(other: float, chosen: float) -> str:
    """How much more `other` is: in percent up to twice as much, else as a factor."""
    if not math.isfinite(other):
        return "impossible"
    ratio = other / chosen
    if ratio > LARGEST_PERCENTAGE:
        return f"{ratio:.3g} times as much" if ratio < MANY_TIMES else f"over {MANY_TIMES:g} times as much"
    # A difference below the last digit is none: never "-0.0 %".
    return f"{(ratio - 1.0) * 100.0:+.1f} %".replace("-0.0 %", SAME)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
