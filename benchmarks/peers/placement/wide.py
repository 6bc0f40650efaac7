"""A long search of a large cluster: its parts, chosen by chance and by what is best so far, searched closely again and again."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np

from benchmarks.families import Instance
from benchmarks.peers.placement.search import annealed
from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search.kernels import kernel

PART_NODES: Final = 384
SEEDS: Final = 48
STARTS: Final = 4
MOVES: Final = 20_000


class Part(NamedTuple):
    """Some candidates of an instance as a problem of its own."""

    members: IntArray
    costs: Costs
    slots: IntArray
    workers: int


def wide_search(instance: Instance, seed: int, seconds: float, known: list[IntArray]) -> IntArray:
    """The best placement found in so much time, never worse than the best of `known`.

    Parts in turn: the surroundings of a random node (same domains first), random nodes, the fastest nodes with the best so far, and the
    surroundings of the best so far. In each: greedy from the best seeds, local search of the best few, annealing of the very best.
    """
    until = time.perf_counter() + seconds
    rng = np.random.default_rng([seed, 5])
    best = min(known, key=lambda order: instance.score(order)[0])
    least = instance.score(best)[0]
    attempt = 0
    while attempt == 0 or time.perf_counter() < until:
        part = _part(instance, best, rng, attempt % 4)
        order = part.members[_close(part, best, seed + attempt, until)]
        cost, repaired = instance.score(order)
        if cost < least:
            best, least = repaired, cost
        attempt += 1
    return best


def _part(instance: Instance, best: IntArray, rng: np.random.Generator, kind: int) -> Part:
    size = len(instance.slots)
    draw = rng.random(size)
    positions = instance.problem.nodes
    if kind == 0:
        near = instance.graph.common_tier(positions[rng.integers(size, size=1)], positions)[0]
    elif kind == 1:
        near = np.zeros(size, dtype=np.int64)
    elif kind == 2:
        near = instance.problem.flops_per_second * instance.slots.clip(1, 2)
    else:
        near = instance.graph.common_tier(positions[best[rng.integers(len(best), size=1)]], positions)[0]
    ranked = np.lexsort((draw, -near))[: PART_NODES - len(best)]
    members = np.unique(np.concatenate((ranked, best)))
    return Part(members, instance.problem.costs(members), instance.slots[members], instance.workers)


def _close(part: Part, best: IntArray, seed: int, until: float) -> IntArray:
    """(k,) positions in the part."""
    seeds = kernel.seed_ranking(part.costs, part.slots, part.workers)[:SEEDS]
    found = kernel.greedy_all(part.costs, part.slots, part.workers, seeds)
    here = np.searchsorted(part.members, best)[None, :]
    starts = np.concatenate((found[np.argsort(kernel.objectives(part.costs, found), kind="stable")[:STARTS]], here))
    polished, seconds = kernel.local_search(part.costs, part.slots, starts)
    order, cost = annealed(part, polished[int(np.argmin(seconds))], seed, MOVES, until)
    return order if cost < seconds.min() else polished[int(np.argmin(seconds))]
