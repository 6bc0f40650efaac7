"""Which of several placements that are equal within the policy's tolerance: the cheapest, then the best fit. Pure and deterministic.

The best fit strands the fewest GPUs for the sizes that the cluster is asked for, then leaves the fewest idle on the nodes that it uses,
then takes the fewest nodes that are wholly free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.choice.consolidated import consolidated
from hyperscale.planner.choice.node_risk import node_failure_risk, weighed_risk
from hyperscale.planner.choice.stranding import DIGITS, SizeDemand, added_stranding, size_demand
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.problem.candidates import free_gpus
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.node_room import free_cpu, free_memory, with_held
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.search.ring import canonical
from hyperscale.planner.search.search_result import Candidate
from hyperscale.util.float_sums import sum_in_order

MAX_NODES: Final = 32
"""Placements on more nodes are not fitted: so large a job leaves few of them half empty."""
MIN_LOGARITHM: Final = 1e-12
"""Smaller seconds and prices count as this: a free GPU has a logarithm too."""
MAX_TRIED: Final = 48
"""Other nodes tried for each planned one, the best fits first."""


def tolerance(problem: Problem) -> float:
    """Part of the objective below which two placements count as equal; a policy allows people's weights a larger one."""
    percent = problem.policy.tolerance_percent
    if problem.request.weights is not None:
        percent = max(percent, problem.policy.preferences.tolerance_percent)
    return percent / 100.0


def settled(problem: Problem, ranked: Sequence[tuple[Candidate, str]], least: float) -> list[tuple[Candidate, str]]:
    """`ranked` with the one in front that is cheapest and fits best among those as good as `least` within the tolerance.

    ranked: placements that may win, by falling preference, with their planners · least: objective of the best
    Cheaper is a lower price by the hour where the policy has a price of every GPU, else fewer GPUs. The better fit strands fewer GPUs for
    the sizes that the cluster is asked for, where the request states them; of equal ones it leaves fewer GPUs idle on the nodes that it
    uses, and of these it takes fewer nodes that are wholly free. Without weights of people layouts on fuller nodes are tried too.
    Jobs with ranks that stay are left as they are. With weights of people the least burden goes first:
    the weighted sum of the logarithms of time, cost and risk. No placement beyond the tolerance wins by them.
    """
    candidates = list(ranked)
    if not candidates or problem.pinned or not tolerance(problem):
        return candidates
    limit = least * (1.0 + tolerance(problem))
    rooms = _Rooms(problem)
    prices = [speed.price_per_hour for speed in problem.speeds]
    priced = all(price is not None for price in prices)

    def key(entry: tuple[Candidate, str]) -> tuple[bool, float, float, int, int]:
        candidate = entry[0]
        if candidate.objective > limit:
            return True, 0.0, 0.0, 0, 0
        hourly = sum_in_order(prices[member] or 0.0 for member in candidate.order) if priced else float(candidate.workers)
        if problem.request.weights is not None:
            hourly = burden(problem.request.weights, candidate, hourly, problem.job.model.epochs)
        return False, round(hourly, 9), *rooms.misfit(np.array(candidate.order))

    candidates.sort(key=key)
    best, planner = candidates[0]
    packed = consolidated(problem, best, limit, rooms.misfits, ~rooms.whole) if problem.request.weights is None else None
    fitted = _fitted(problem, packed or best, limit, rooms)
    return candidates if fitted is best else [(fitted, planner), *candidates]


class _Rooms:
    """What is free on the candidates of a problem, and how well placements fit it."""

    def __init__(self, problem: Problem) -> None:
        self.gpus: IntArray = free_gpus(problem.graph, problem.demand)[problem.nodes]
        """(m,) free GPUs."""
        self.whole: BoolArray = self.gpus == np.maximum(figures_of(problem.graph).allocatable_gpus[problem.nodes], 1)
        """(m,) nodes all of whose GPUs are free."""
        demand = problem.demand
        self._taken = np.array((demand.gpus, demand.cpu_cores, demand.memory_bytes), dtype=np.float64)
        self._sizes: SizeDemand | None = size_demand(problem.request.asked_sizes)
        self._free = _free(problem, self.gpus) if self._sizes is not None else np.zeros((len(self.gpus), 3))

    def added(self, nodes: IntArray, workers: IntArray) -> FloatArray:
        """(p,) GPUs that the `nodes` (p,) strand more with these numbers of `workers` (p,); 0 where no size is known."""
        if self._sizes is None:
            return np.zeros(len(nodes))
        return added_stranding(self._free[nodes], workers[:, None] * self._taken, self._sizes)

    def misfit(self, order: IntArray) -> tuple[float, int, int]:
        """GPUs that a placement strands more, those that it leaves idle on its nodes, and nodes that were wholly free."""
        nodes, workers = np.unique(order, return_counts=True)
        stranded = round(sum_in_order(self.added(nodes, workers).tolist()), DIGITS)
        return stranded, int(self.gpus[nodes].sum() - len(order) * self._taken[0]), int(self.whole[nodes].sum())

    def misfits(self, layouts: list[IntArray]) -> FloatArray:
        """(B, 3) GPUs that each of B layouts (k,) strands more, those that it leaves idle, and nodes that were wholly free."""
        rows = np.repeat(np.arange(len(layouts)), len(layouts[0]))
        keys, workers = np.unique(rows * len(self.gpus) + np.concatenate(layouts), return_counts=True)
        rows, nodes = np.divmod(keys, len(self.gpus))
        used = np.bincount(rows, self.gpus[nodes], len(layouts)) - len(layouts[0]) * self._taken[0]
        stranded = np.bincount(rows, self.added(nodes, workers), len(layouts)).round(DIGITS)
        return np.stack((stranded, used, np.bincount(rows, self.whole[nodes], len(layouts))), axis=1)


def _free(problem: Problem, gpus: IntArray) -> FloatArray:
    """(m, 3) free GPUs, cores and bytes of the candidates, with what planned ranks of other jobs hold taken away."""
    reserved = problem.demand.reserved
    nodes = (problem.graph.nodes[position] for position in problem.nodes)
    left = (with_held(node, reserved[node.name]) if node.name in reserved else node for node in nodes)
    return np.array([(free, free_cpu(node), free_memory(node)) for free, node in zip(gpus.tolist(), left, strict=True)], dtype=np.float64)


def burden(weights: tuple[float, float, float], candidate: Candidate, hourly: float, epochs: int) -> float:
    """Return what a placement weighs for people: w . (ln time, ln cost, ln risk), less is better.

    Time is the objective; cost is `hourly` x time; the risk is that of a node failure in all epochs, those below LEAST_RISK are equal.
    """
    time, cost, risk = weights
    seconds = math.log(max(candidate.objective, MIN_LOGARITHM))
    failure = weighed_risk(node_failure_risk(len(set(candidate.order)), epochs * candidate.objective))
    return time * seconds + cost * (math.log(max(hourly, MIN_LOGARITHM)) + seconds) + risk * failure


def _fitted(problem: Problem, candidate: Candidate, limit: float, rooms: _Rooms) -> Candidate:
    """The placement with nodes replaced, one after the other, by better fits of the same room, price and domain within the limit."""
    order = np.array(candidate.order, dtype=np.int64)
    used, workers = np.unique(order, return_counts=True)
    if len(used) > MAX_NODES:
        return candidate
    others = {int(node): _fitter(problem, rooms, int(node), int(count), used) for node, count in zip(used, workers, strict=True)}
    members = np.unique(np.concatenate([used, *others.values()]))
    if len(members) == len(used):
        return candidate
    costs, now = problem.costs(members), order
    for node in sorted(others, key=lambda node: (-rooms.gpus[node], node)):
        left = others[node][~np.isin(others[node], now)]
        if not len(left):
            continue
        moved = np.where(now[None, :] == node, left[:, None], now[None, :])
        good = np.flatnonzero(objectives(costs, np.searchsorted(members, moved)) <= limit)
        now = moved[good[0]] if len(good) else now
    if now is order:
        return candidate
    now = canonical(now[None, :])[0]
    seconds = float(objectives(costs, np.searchsorted(members, now)[None, :])[0])
    names = tuple(problem.names[member] for member in now)
    return Candidate(seconds, candidate.workers, names, tuple(int(member) for member in now)) if seconds <= limit else candidate


def _fitter(problem: Problem, rooms: _Rooms, node: int, count: int, used: IntArray) -> IntArray:
    """Nodes that could take `count` workers in place of `node` and strand fewer GPUs, or as many with fewer free; the best first."""
    topology = problem.job.placement.topology
    every = np.arange(len(rooms.gpus))
    fits = problem.slots >= count
    added = np.full(len(every), np.inf)
    added[fits] = rooms.added(every[fits], np.full(int(fits.sum()), count))
    here = float(rooms.added(np.array([node]), np.array([count]))[0])
    fits &= (added < here) | ((added == here) & (rooms.gpus < rooms.gpus[node]))
    fits[used] = False
    fitting = np.flatnonzero(fits)
    price = problem.speeds[node].price_per_hour
    same = [member for member in fitting.tolist() if problem.speeds[member].price_per_hour == price]
    if (key := topology.required or topology.preferred) is not None and same:
        domains = domains_of(problem, key)
        same = [member for member in same if domains[member] == domains[node]]
    return np.array(sorted(same, key=lambda member: (added[member], rooms.gpus[member], member))[:MAX_TRIED], dtype=np.int64)
