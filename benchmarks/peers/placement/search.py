"""Searches as peers: greedy from one seed, 2-swap, annealing, a genetic algorithm of DT-FM's kind, FAQ on the relaxed costs.

Annealing and the genetic algorithm use the product's compiled evaluation, so that equal time means equal language.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.optimize import quadratic_assignment

from benchmarks.peers.placement.anneal import anneal
from benchmarks.peers.placement.arena import Arena
from benchmarks.peers.placement.schedulers import random_nodes
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import volumes
from hyperscale.planner.search.kernels import kernel

Search = Callable[[Arena, int], IntArray]
"""Instance and seed to candidates, (k,)."""
Timed = Callable[[Arena, int, float], IntArray]
"""Instance, seed and seconds to candidates, (k,)."""

POPULATION: Final = 32
CHILDREN: Final = 16
"""Offspring of one generation of the genetic algorithm."""
MUTATION: Final = 0.1
"""Part of the members that a child draws again."""
ANNEAL_MOVES: Final = 20_000
"""Moves of one annealing; another follows while time is left."""
LONG_MOVES: Final = 200_000
"""Moves of one annealing of the long search."""


def greedy_fastest(instance: Arena, _: int) -> IntArray:
    """Greedy from the fastest node."""
    return _greedy(instance, int(np.argmax(np.where(instance.slots > 0, instance.costs.flops_per_second, -np.inf))))


def greedy_near(instance: Arena, _: int) -> IntArray:
    """Greedy from the node with the best speed and nearest partners."""
    return _greedy(instance, int(kernel.seed_ranking(instance.costs, instance.slots, instance.workers)[0]))


def greedy_every(instance: Arena, _: int) -> IntArray:
    """Greedy from every node, the best of all."""
    found = kernel.greedy_all(instance.costs, instance.slots, instance.workers)
    return found[int(np.argmin(kernel.objectives(instance.costs, found)))] if len(found) else random_nodes(instance, 0)


def two_swap(instance: Arena, seed: int) -> IntArray:
    """A random start, then replacements and swaps while one improves."""
    orders, _ = kernel.local_search(instance.costs, instance.slots, random_nodes(instance, seed)[None, :])
    found: IntArray = orders[0]
    return found


def annealed(instance: Arena, start: IntArray, seed: int, moves: int, until: float) -> tuple[IntArray, float]:
    """One annealing from `start`: the placement and its objective; ends when `time.perf_counter()` reaches `until`."""
    return anneal(instance.costs, instance.slots, start, seed=seed, iterations=moves, expired=lambda: time.perf_counter() > until)


def annealing(instance: Arena, seed: int, seconds: float) -> IntArray:
    """The best greedy of all, then annealing again and again from the best so far."""
    until = time.perf_counter() + seconds
    best = greedy_every(instance, seed)
    least = float(kernel.objectives(instance.costs, best[None, :])[0])
    attempt = 0
    while attempt == 0 or time.perf_counter() < until:
        found, cost = annealed(instance, best, seed + 1000 * attempt, ANNEAL_MOVES, until)
        if cost < least:
            best, least = found, cost
        attempt += 1
    return best


def genetic(instance: Arena, seed: int, seconds: float) -> IntArray:
    """A memetic algorithm as DT-FM has it: children of two parents, mutation, local search, survival of the best different ones."""
    until = time.perf_counter() + seconds
    rng = np.random.default_rng([seed, 3])
    population = np.array([random_nodes(instance, seed * 1000 + at) for at in range(POPULATION)])
    population, cost = kernel.local_search(instance.costs, instance.slots, population, sweeps=1)
    while time.perf_counter() < until:
        parents = rng.integers(len(population), size=(CHILDREN, 2, 2)).min(axis=2)
        ranked = np.argsort(cost, kind="stable")
        children = np.array([_child(instance, population[ranked[pair]], rng) for pair in parents])
        children, scores = kernel.local_search(instance.costs, instance.slots, children, sweeps=1)
        population, cost = _survivors(np.concatenate((population, children)), np.concatenate((cost, scores)))
    best: IntArray = population[int(np.argmin(cost))]
    return best


def faq(instance: Arena, seed: int, seconds: float) -> IntArray:
    """FAQ (Vogelstein et al. 2015, scipy) on a quadratic stand-in for the costs, from the barycentre and then random starts.

    Flow: workers among each other 1 on the diagonal (arithmetic) and 1 on every pair; other slots nothing. Distance: arithmetic seconds of
    a fair share on the diagonal, on pairs the boundary and ring seconds that they would cause if all pairs were like them; pairs that
    cannot talk cost a hundred times the worst. The sum replaces the maxima of the objective, which still judges what is found.
    """
    until = time.perf_counter() + seconds
    slots = np.repeat(np.arange(len(instance.slots)), instance.slots)
    flow = np.zeros((len(slots), len(slots)))
    flow[: instance.workers, : instance.workers] = 1.0
    distance = _pair_costs(instance)[np.ix_(slots, slots)]
    best, least, attempt = random_nodes(instance, seed), np.inf, 0
    while attempt == 0 or time.perf_counter() < until:
        options = {"P0": "barycenter" if attempt == 0 else "randomized", "rng": np.random.default_rng([seed, attempt])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = quadratic_assignment(flow, distance, method="faq", options=options)
        found = slots[result.col_ind[: instance.workers]]
        cost = float(kernel.objectives(instance.costs, kernel.rings(instance.costs, found[None, :]))[0])
        if cost < least:
            best, least = found, cost
        attempt += 1
    return best


def long_search(instance: Arena, seed: int, seconds: float, known: list[IntArray]) -> IntArray:
    """The best known: annealing from every known placement, from random ones and from the best, then the genetic algorithm."""
    started = time.perf_counter()
    starts = kernel.local_search(instance.costs, instance.slots, np.array(known))[0]
    best = starts[int(np.argmin(kernel.objectives(instance.costs, starts)))]
    until = started + 0.7 * seconds
    attempt = 0
    while attempt == 0 or time.perf_counter() < until:
        start = (starts[attempt // 3 % len(starts)], best, random_nodes(instance, seed * 1000 + attempt))[attempt % 3]
        found, _ = annealed(instance, start, seed + attempt, LONG_MOVES, until)
        best = _better(instance, best, found)
        attempt += 1
    best = _better(instance, best, genetic(instance, seed, 0.2 * seconds))
    return _better(instance, best, annealed(instance, best, seed, LONG_MOVES, started + seconds)[0])


GREEDY: Final[dict[str, Search]] = {
    "greedy, fastest node": greedy_fastest,
    "greedy, best neighbourhood": greedy_near,
    "greedy, every node": greedy_every,
    "2-swap, random start": two_swap,
}
TIMED: Final[dict[str, Timed]] = {"annealing": annealing, "FAQ": faq, "genetic": genetic}


def _better(instance: Arena, first: IntArray, second: IntArray) -> IntArray:
    """The one with the lower objective."""
    seconds = kernel.objectives(instance.costs, np.stack((first, second)))
    return second if seconds[1] < seconds[0] else first


def _greedy(instance: Arena, seed_node: int) -> IntArray:
    found = kernel.greedy_all(instance.costs, instance.slots, instance.workers, np.array([seed_node]))
    return found[0] if len(found) else random_nodes(instance, 0)


def _child(instance: Arena, parents: IntArray, rng: np.random.Generator) -> IntArray:
    """Members drawn from both parents, some replaced by any slot."""
    counts = np.maximum(*(np.bincount(parent, minlength=len(instance.slots)) for parent in parents))
    pool = rng.permutation(np.repeat(np.arange(len(counts)), counts))[: instance.workers]
    kept = pool[rng.random(len(pool)) >= MUTATION]
    left = instance.slots - np.bincount(kept, minlength=len(instance.slots))
    free = rng.permutation(np.repeat(np.arange(len(left)), np.maximum(left, 0)))
    child: IntArray = np.concatenate((kept, free[: instance.workers - len(kept)]))
    return child


def _survivors(population: IntArray, cost: FloatArray) -> tuple[IntArray, FloatArray]:
    """The best POPULATION different sets."""
    ranked = np.argsort(cost, kind="stable")
    _, first = np.unique(np.sort(population[ranked], axis=1), axis=0, return_index=True)
    kept = ranked[np.sort(first)][:POPULATION]
    return population[kept], cost[kept]


def _pair_costs(instance: Arena) -> FloatArray:
    """(m, m) seconds of a pair, on the diagonal of a worker."""
    costs, workers = instance.costs, instance.workers
    volume = volumes(costs, workers)
    pairs = max(1, workers * (workers - 1))
    halo = volume.halo_bytes / pairs * costs.seconds_per_byte + volume.rounds / max(1, workers - 1) * costs.latency_seconds
    ring = (volume.ring_latency_factor * costs.latency_seconds + volume.ring_byte_factor * costs.seconds_per_byte) / pairs
    joint = (1.0 + costs.communication_weight) * (halo / workers + ring)
    joint = np.where(costs.blocked, 100.0 * joint.max(where=~costs.blocked, initial=0.0), joint)
    speed = costs.flops_per_second
    share = np.full(len(speed), 1.0 / workers) if costs.balance is Balance.EQUAL else speed / (workers * speed.mean())
    np.fill_diagonal(joint, joint.diagonal() + costs.workload.epoch_flops * share / speed / workers)
    return joint
