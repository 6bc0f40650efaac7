"""Nodes of which some GPUs are much busier than the others: fewer workers may be faster there together. Pure.

A node's speed in a search is that of the busiest GPU that its slots take (`Figures.utilization`), however few of them a placement fills.
So a second problem has fewer slots on such nodes, and what is best of both counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.placement_problem import LEAST_IDLE_RATIO, Problem

MIN_GAIN_RATIO: Final = 1.1
"""How many times as fast fewer slots must be together: use is a sample of one moment."""


def without_busy_gpus(problem: Problem) -> Problem | None:
    """The question with as many slots on each node as are fastest together; None where that changes nothing, or no count has room then."""
    slots = _fastest_slots(problem)
    counts = problem.counts()
    if (slots == problem.slots).all() or not counts or int(slots.sum()) + len(problem.pinned) < counts[0]:
        return None
    use, sampled = figures_of(problem.graph).utilization(problem.nodes, slots * problem.demand.gpus)
    return replace(problem, slots=slots, utilization=use, utilization_known=sampled)


def holding(problem: Problem, names: Sequence[str]) -> Problem:
    """The question to which one worker on each node of `names` is an answer: with fewer slots where it needs no more."""
    fewer = without_busy_gpus(problem)
    if fewer is None:
        return problem
    place = {name: at for at, name in enumerate(problem.names)}
    pinned = Counter(candidate for _, candidate in problem.pinned)
    needed = Counter(place[name] for name in names if name in place)
    fits = all(count - pinned[candidate] <= fewer.slots[candidate] for candidate, count in needed.items())
    return fewer if fits else problem


def left_out(problem: Problem, fewer: Problem, names: Sequence[str]) -> str:
    """Say of the nodes that are used which GPUs count as not there; empty without any."""
    places = sorted({name: at for at, name in enumerate(problem.names) if name in set(names)}.items())
    cut = [(name, at) for name, at in places if fewer.slots[at] < problem.slots[at]]
    if not cut:
        return ""
    name, at = max(cut, key=lambda entry: (problem.utilization[entry[1]], entry[0]))
    gpus = int(problem.slots[at] - fewer.slots[at]) * problem.demand.gpus
    count, them = (f"1 GPU of {name} counts", "it") if gpus == 1 else (f"{gpus} GPUs of {name} count", "them")
    others = f", and likewise on {len(cut) - 1} other nodes" if len(cut) > 1 else ""
    busy = f"{count} as taken: with {them} its busiest would be {problem.utilization[at]:.0%} in use"
    return f"{busy}{others}; Kubernetes may still give the busy ones, so end what uses them."


def _fastest_slots(problem: Problem) -> IntArray:
    """(m,) the number of slots whose workers, each as slow as the busiest of their GPUs, are fastest together."""
    figures, gpus = figures_of(problem.graph), problem.demand.gpus
    first, _ = figures.utilization(problem.nodes, np.minimum(problem.slots, 1) * gpus)
    best = problem.slots.copy()
    if not (problem.utilization > first).any():
        return best
    speed = MIN_GAIN_RATIO * best * np.maximum(1.0 - problem.utilization, LEAST_IDLE_RATIO)
    for most in range(int(best.max()) - 1, 0, -1):
        slots = np.minimum(problem.slots, most)
        use, _ = figures.utilization(problem.nodes, slots * gpus)
        fewer = slots * np.maximum(1.0 - use, LEAST_IDLE_RATIO)
        faster = (fewer > speed) & (slots < problem.slots)
        best, speed = np.where(faster, slots, best), np.where(faster, fewer, speed)
    return best
