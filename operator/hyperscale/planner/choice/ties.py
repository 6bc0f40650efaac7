"""Which of several placements that are equal within the policy's tolerance: the cheapest, then the best fit. Pure and deterministic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.choice.node_risk import node_failure_risk, weighed_risk
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.problem.candidates import free_gpus
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
"""Other nodes tried for each planned one, the fullest first."""


def tolerance(problem: Problem) -> float:
    """Part of the objective below which two placements count as equal; a policy allows people's weights a larger one."""
    percent = problem.policy.tolerance_percent
    if problem.request.weights is not None:
        percent = max(percent, problem.policy.preferences.tolerance_percent)
    return percent / 100.0


def settled(problem: Problem, ranked: Sequence[tuple[Candidate, str]], least: float) -> list[tuple[Candidate, str]]:
    """`ranked` with the one in front that is cheapest and fits best among those as good as `least` within the tolerance.

    ranked: placements that may win, by falling preference, with their planners · least: objective of the best
    Cheaper is a lower price by the hour where the policy has a price of every GPU, else fewer GPUs. The better fit leaves fewer GPUs
    idle on the nodes that it uses. Jobs with ranks that stay are left as they are. With weights of people the least burden goes first:
    the weighted sum of the logarithms of time, cost and risk. No placement beyond the tolerance wins by them.
    """
    candidates = list(ranked)
    if not candidates or problem.pinned or not tolerance(problem):
        return candidates
    limit = least * (1.0 + tolerance(problem))
    free = free_gpus(problem.graph, problem.demand)[problem.nodes]
    prices = [speed.price_per_hour for speed in problem.speeds]
    priced = all(price is not None for price in prices)

    def key(entry: tuple[Candidate, str]) -> tuple[bool, float, float]:
        candidate = entry[0]
        if candidate.objective > limit:
            return True, 0.0, 0.0
        hourly = sum_in_order(prices[member] or 0.0 for member in candidate.order) if priced else float(candidate.workers)
        if problem.request.weights is not None:
            hourly = burden(problem.request.weights, candidate, hourly, problem.job.model.epochs)
        return False, round(hourly, 9), float(_idle(problem, free, np.array(candidate.order)))

    candidates.sort(key=key)
    best, planner = candidates[0]
    fitted = _fitted(problem, best, limit, free)
    return candidates if fitted is best else [(fitted, planner), *candidates]


def burden(weights: tuple[float, float, float], candidate: Candidate, hourly: float, epochs: int) -> float:
    """Return what a placement weighs for people: w . (ln time, ln cost, ln risk), less is better.

    Time is the objective; cost is `hourly` x time; the risk is that of a node failure in all epochs, those below LEAST_RISK are equal.
    """
    time, cost, risk = weights
    seconds = math.log(max(candidate.objective, MIN_LOGARITHM))
    failure = weighed_risk(node_failure_risk(len(set(candidate.order)), epochs * candidate.objective))
    return time * seconds + cost * (math.log(max(hourly, MIN_LOGARITHM)) + seconds) + risk * failure


def _idle(problem: Problem, free: IntArray, order: IntArray) -> int:
    """GPUs that a placement leaves idle on the nodes that it uses."""
    return int(free[np.unique(order)].sum()) - len(order) * problem.demand.gpus


def _fitted(problem: Problem, candidate: Candidate, limit: float, free: IntArray) -> Candidate:
    """The placement with nodes replaced, one after the other, by fuller ones of the same room, price and domain within the limit."""
    order = np.array(candidate.order, dtype=np.int64)
    used, workers = np.unique(order, return_counts=True)
    if len(used) > MAX_NODES:
        return candidate
    others = {int(node): _fuller(problem, free, int(node), int(count), used) for node, count in zip(used, workers, strict=True)}
    members = np.unique(np.concatenate([used, *others.values()]))
    if len(members) == len(used):
        return candidate
    costs, now = problem.costs(members), order
    for node in sorted(others, key=lambda node: (-free[node], node)):
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


def _fuller(problem: Problem, free: IntArray, node: int, count: int, used: IntArray) -> IntArray:
    """Nodes that could take `count` workers in place of `node` and have fewer GPUs free, the fullest first."""
    topology = problem.job.placement.topology
    fits = (problem.slots >= count) & (free < free[node])
    fits[used] = False
    fitting = np.flatnonzero(fits)
    price = problem.speeds[node].price_per_hour
    same = [member for member in fitting.tolist() if problem.speeds[member].price_per_hour == price]
    if (key := topology.required or topology.preferred) is not None and same:
        domains = domains_of(problem, key)
        same = [member for member in same if domains[member] == domains[node]]
    return np.array(sorted(same, key=lambda member: (free[member], member))[:MAX_TRIED], dtype=np.int64)
