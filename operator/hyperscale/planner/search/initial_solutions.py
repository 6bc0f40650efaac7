"""Starts beside greedy's: whole neighbourhoods, the fastest nodes of every domain, and everything where that is little. Pure."""

from __future__ import annotations

import math
from itertools import combinations, combinations_with_replacement
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, ring_costs, set_objectives, volumes
from hyperscale.planner.search.greedy import pair_seconds
from hyperscale.planner.search.ring import EXACT_WORKERS, all_rings

CHUNK_SETS: Final = 64


def exact(costs: Costs, slots: IntArray, workers: int, limit: int) -> IntArray | None:
    """The best placement (k,) of all, the first of equals; None where there are more than `limit` sets, or too few slots.

    Sets come in the order of their cost without the ring; once that alone is above the best whole cost, the rest cannot win.
    """
    sets = _all_sets(slots, workers, limit) if workers <= EXACT_WORKERS else None
    if sets is None:
        return None
    floor = set_objectives(costs, sets)
    ranking = np.argsort(floor, kind="stable")
    rings, volume, weight = all_rings(workers), volumes(costs, workers), 1.0 + costs.communication_weight
    best: IntArray = sets[ranking[0]]
    best_seconds = np.inf
    for start in range(0, len(ranking), CHUNK_SETS):
        rows = ranking[start : start + CHUNK_SETS]
        if not floor[rows[0]] < best_seconds:
            break
        orders = sets[rows][:, rings].reshape(-1, workers)
        seconds = np.repeat(floor[rows], len(rings)) + weight * ring_costs(costs, orders, volume)
        choice = int(np.argmin(seconds))
        if seconds[choice] < best_seconds:
            best, best_seconds = orders[choice], float(seconds[choice])
    return best


def _all_sets(slots: IntArray, workers: int, limit: int) -> IntArray | None:
    """(B, k) every set of slots, members rising, sets in rising order; None where there are too many to list, or none."""
    usable = np.flatnonzero(slots > 0)
    single = bool((slots <= 1).all())
    size = len(usable)
    if (math.comb(size, workers) if single else math.comb(size + workers - 1, workers)) > limit:
        return None
    chosen = (combinations if single else combinations_with_replacement)(usable.tolist(), workers)
    sets = np.array(list(chosen), dtype=np.int64).reshape(-1, workers)
    for times in range(1, workers):
        # A member that comes again `times` places later needs more than `times` slots.
        again = (sets[:, times:] == sets[:, :-times]) & (slots[sets[:, times:]] <= times)
        sets = sets[~again.any(axis=1)]
    return sets if len(sets) else None


def nearest_sets(costs: Costs, slots: IntArray, workers: int, seeds: IntArray) -> IntArray:
    """(B, k) each seed with its cheapest partners by link and speed; rows with too few slots are left out."""
    compute = costs.workload.epoch_flops / (workers * costs.flops_per_second)
    joint = pair_seconds(costs, workers, volumes(costs, workers))[seeds] + compute[None, :] / max(1, workers - 1)
    joint[np.arange(len(seeds)), seeds] = -np.inf
    return _fill(joint, slots, workers)


def fastest_sets(costs: Costs, slots: IntArray, workers: int, domains: IntArray) -> IntArray:
    """(D + 1, k) the fastest slots of all, and those of every topology domain that has enough.

    domains: (m, levels) codes, -1 for none
    """
    slowness = 1.0 / costs.flops_per_second
    rows: list[FloatArray] = [slowness]
    for level in range(domains.shape[1]):
        codes = domains[:, level]
        rows += [np.where(codes == code, slowness, np.inf) for code in np.unique(codes[codes >= 0])]
    return _fill(np.array(rows), slots, workers)


def _fill(preference: FloatArray, slots: IntArray, workers: int) -> IntArray:
    """(B', k) slots in order of preference (B, m), lowest first, +inf never; rows that do not get k slots are left out."""
    ranking = np.argsort(preference, axis=1, kind="stable")[:, : max(workers, 1)]
    usable = np.where(np.isinf(preference) & (preference > 0), 0, slots[None, :])
    room = np.minimum(np.take_along_axis(usable, ranking, axis=1), workers)
    rows = [np.repeat(order, count)[:workers] for order, count in zip(ranking, room, strict=True)]
    complete = [row for row in rows if len(row) == workers]
    return np.array(complete, dtype=np.int64).reshape(len(complete), workers)
