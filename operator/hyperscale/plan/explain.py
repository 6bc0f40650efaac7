"""Why a plan won and what was turned down, in sentences with figures. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.model.plan import MAX_REJECTED, Rejection
from hyperscale.plan.heuristic import Candidate
from hyperscale.plan.objective import Breakdown, Costs
from hyperscale.plan.polish import replacement_estimates
from hyperscale.plan.problem import Problem

REASON_ORDER: Final = (
    "GpuFault",
    "GpuMemory",
    "GpuProduct",
    "Constraint",
    "NodeSelector",
    "Tainted",
    "Cordoned",
    "NotReady",
    "Cpu",
    "Memory",
    "NoFreeGpus",
    "Unreachable",
    "SlowerPlan",
)
"""Most telling first: what surprises, then what is merely busy, then what was suitable and slower."""


MAX_COMPARED: Final = 128
"""Unused nodes compared with the planned ones, fastest first."""


def reasons(problem: Problem, chosen: Candidate, figures: Breakdown, others: Sequence[Candidate]) -> tuple[str, ...]:
    """Sentences for the winner; `others` are the candidates that lost."""
    sentences = [_why_this_count(problem, chosen, others), _slowest_rank(problem, chosen, figures)]
    if chosen.workers > 1:
        sentences.append(_network(problem, chosen, figures))
    sentences += [sentence for sentence in (_runner_up(chosen, others), _topology(problem, chosen)) if sentence]
    return tuple(sentences)


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
        return f"{head}; the number is fixed because the MPIJob exists."
    if len(best) == 1:
        return f"{head}; no other number is allowed or has room."
    compared = sorted((count for count in best if count != chosen.workers), key=lambda count: (abs(count - chosen.workers), count))[:3]
    parts = [f"{count} would have {best[count]:.4g} s ({_percent(best[count], chosen.objective)})" for count in sorted(compared)]
    return f"{head}; {', '.join(parts)}."


def _slowest_rank(problem: Problem, chosen: Candidate, figures: Breakdown) -> str:
    member = chosen.order[figures.slowest_rank]
    node = problem.graph.nodes[problem.nodes[member]]
    known = bool(problem.utilization_known[member])
    use = f"{problem.utilization[member]:.0%} in use" if known else "use unknown"
    return (
        f"Slowest rank is {figures.slowest_rank} on {node.name} ({node.gpu_product or 'unlabelled GPU'}, {use}): "
        f"compute {figures.compute_seconds:.4g} s, boundary data {figures.halo_seconds:.4g} s an epoch."
    )


def _network(problem: Problem, chosen: Candidate, figures: Breakdown) -> str:
    order = np.array(chosen.order, dtype=np.int64)
    members = problem.nodes[order]
    links = problem.graph.link_costs(members)
    ranks = np.arange(len(order))
    following = np.roll(ranks, -1)
    slowest = int(np.argmax(1.0 / np.maximum(links.bandwidth_bytes_per_second[ranks, following], 1e-9)))
    after = int(following[slowest])
    source, destination = problem.names[order[slowest]], problem.names[order[after]]
    origin = "measured" if links.measured[slowest, after] else "estimated from labels"
    if source == destination:
        return f"All ring hops stay inside {source}; allreduce takes {figures.ring_seconds:.4g} s an epoch."
    milliseconds = links.latency_seconds[slowest, after] * 1e3
    gigabytes = links.bandwidth_bytes_per_second[slowest, after] / 1e9
    return (
        f"Slowest ring hop is {source} to {destination}: {milliseconds:.3g} ms, {gigabytes:.3g} GB/s ({origin}); "
        f"allreduce takes {figures.ring_seconds:.4g} s an epoch."
    )


def _runner_up(chosen: Candidate, others: Sequence[Candidate]) -> str:
    same = sorted(other for other in others if other.workers == chosen.workers and sorted(other.names) != sorted(chosen.names))
    if not same:
        return ""
    without, instead = sorted({*chosen.names} - {*same[0].names}), sorted({*same[0].names} - {*chosen.names})
    if not without or not instead:
        return ""
    return f"Next best set takes {_listed(instead)} for {_listed(without)} and costs {_percent(same[0].objective, chosen.objective)}."


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
    used = set(chosen.order)
    unused = [member for member in range(len(problem.nodes)) if member not in used and problem.slots[member] > 0]
    unused = sorted(sorted(unused, key=lambda member: -problem.flops_per_second[member])[:MAX_COMPARED])
    if not unused:
        return []
    members = np.array([*sorted(used), *unused], dtype=np.int64)
    costs = problem.costs(members)
    order = np.searchsorted(members[: len(used)], np.array(chosen.order, dtype=np.int64))
    best = _best_replacement(costs, order)
    found: list[tuple[float, Rejection]] = []
    for position, member in enumerate(unused, start=len(used)):
        name, seconds = problem.names[member], float(best[position])
        if np.isfinite(seconds):
            message = f"instead of the planned node it replaces best: {_percent(seconds, chosen.objective)}"
            found.append((seconds, Rejection(name, "SlowerPlan", message)))
        else:
            found.append((seconds, Rejection(name, "Unreachable", "cannot reach the planned nodes")))
    return [rejection for _, rejection in sorted(found, key=lambda entry: (entry[0], entry[1].node))]


def _best_replacement(costs: Costs, order: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(m,) lowest objective with each candidate in one of the first 32 positions."""
    estimates = [replacement_estimates(costs, order, position) for position in range(min(len(order), 32))]
    lowest: np.ndarray[tuple[int], np.dtype[np.float64]] = np.min(estimates, axis=0)
    return lowest


def _percent(other: float, chosen: float) -> str:
    if not np.isfinite(other):
        return "impossible"
    ratio = (other / chosen - 1.0) * 100.0
    return f"{ratio:+.1f} %"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
