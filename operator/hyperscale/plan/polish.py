"""Local improvement of a placement: replace one worker's node at a time, then put the ring in order. Pure and deterministic."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.job import Balance
from hyperscale.plan.objective import Costs, Volumes, objectives, volumes
from hyperscale.plan.ring import ring_order

SWEEPS: Final = 6
"""Passes over all positions; nearly every start is at its optimum after three."""
IMPROVES: Final = 1.0 - 1e-9
"""A move must win by more than rounding."""
CHECKED_MOVES: Final = 3
"""Best estimates per position that are evaluated exactly."""


def polish(costs: Costs, slots: IntArray, order: IntArray, fixed: BoolArray, sweeps: int = SWEEPS) -> tuple[IntArray, float]:
    """A placement that no single replacement improves, in ring order, and its objective.

    costs: of m candidates · slots: (m,) of each, pinned ranks not counted · order: (k,) start · fixed: (k,) positions that stay
    """
    order = ring_order(costs, order, fixed)
    best = float(objectives(costs, order[None, :])[0])
    for _ in range(sweeps):
        before = best
        for position in np.flatnonzero(~fixed):
            order, best = _replace(costs, slots, order, int(position), fixed, best)
        turned = ring_order(costs, order, fixed)
        seconds = float(objectives(costs, turned[None, :])[0])
        if seconds < best * IMPROVES or not np.isfinite(best):
            order, best = turned, seconds
        if not best < before * IMPROVES:
            break
    return ring_order(costs, order, fixed), best


def _replace(costs: Costs, slots: IntArray, order: IntArray, position: int, fixed: BoolArray, best: float) -> tuple[IntArray, float]:
    """The best other node for one position, where one is better."""
    used = np.bincount(order[~fixed], minlength=len(slots))
    allowed = used < slots
    allowed[order[position]] = False
    if not allowed.any():
        return order, best
    estimates = np.where(allowed, replacement_estimates(costs, order, position), np.inf)
    tried = np.argsort(estimates, kind="stable")[:CHECKED_MOVES]
    tried = tried[estimates[tried] < best * IMPROVES]
    if not len(tried):
        return order, best
    moves = np.repeat(order[None, :], len(tried), axis=0)
    moves[:, position] = tried
    seconds = objectives(costs, moves)
    choice = int(np.argmin(seconds))
    return (moves[choice], float(seconds[choice])) if seconds[choice] < best * IMPROVES else (order, best)


def replacement_estimates(costs: Costs, order: IntArray, position: int) -> FloatArray:
    """(m,) objective with each candidate at `position`; exact where memory limits no share."""
    workers = len(order)
    volume = volumes(costs, workers)
    weight = np.ones(len(costs.flops_per_second)) if costs.balance is Balance.EQUAL else costs.flops_per_second
    others = np.delete(order, position)
    total = weight[others].sum() + weight
    compute_rate = costs.workload.epoch_flops / total
    slowest = np.maximum((weight / costs.flops_per_second)[others].max(initial=0.0), weight / costs.flops_per_second)
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if workers == 1:
        alone: FloatArray = compute_rate * slowest + overhead
        return alone
    halo = _halo_with_each(costs, others, weight, total, volume)
    ring = _ring_with_each(costs, order, position, volume)
    ranks = halo + compute_rate * np.concatenate(
        (np.repeat((weight / costs.flops_per_second)[others][:, None], len(weight), axis=1), (weight / costs.flops_per_second)[None, :])
    )
    seconds = ranks.max(axis=0) + ring + overhead + costs.communication_weight * (halo.max(axis=0) + ring)
    # The diagonal of `blocked` is False, so that the others are not held against themselves.
    broken = costs.blocked[others].any(axis=0) | costs.blocked[np.ix_(others, others)].any()
    return np.where(broken, np.inf, seconds)


def _halo_with_each(costs: Costs, others: IntArray, weight: FloatArray, total: FloatArray, volume: Volumes) -> FloatArray:
    """(k, m) halo seconds of every rank with each candidate as the last rank; the others first."""
    inner = costs.seconds_per_byte[np.ix_(others, others)].copy()
    np.fill_diagonal(inner, 0.0)
    latency = costs.latency_seconds[np.ix_(others, others)].copy()
    np.fill_diagonal(latency, 0.0)
    outer, outer_latency = costs.seconds_per_byte[others], costs.latency_seconds[others]
    squares = total**2 - (weight[others] ** 2).sum() - weight**2
    scale = volume.halo_bytes / np.maximum(squares, 1e-300)
    stay = weight[others][:, None] * ((inner @ weight[others])[:, None] + outer * weight[None, :]) * scale
    stay += volume.rounds * np.maximum(latency.max(axis=1)[:, None], outer_latency)
    come = weight * (weight[others] @ outer) * scale + volume.rounds * outer_latency.max(axis=0)
    return np.concatenate((stay, come[None, :]))


def _ring_with_each(costs: Costs, order: IntArray, position: int, volume: Volumes) -> FloatArray:
    """(m,) allreduce seconds with each candidate at `position` of the ring."""
    before, after = order[position - 1], order[(position + 1) % len(order)]
    following = np.roll(order, -1)
    kept = np.ones(len(order), dtype=np.bool_)
    kept[[position - 1, position]] = False
    latency, per_byte = costs.latency_seconds, costs.seconds_per_byte
    worst_latency = latency[order, following][kept].max(initial=0.0)
    worst_per_byte = per_byte[order, following][kept].max(initial=0.0)
    latency_each = np.maximum(worst_latency, np.maximum(latency[before], latency[after]))
    per_byte_each = np.maximum(worst_per_byte, np.maximum(per_byte[before], per_byte[after]))
    seconds: FloatArray = volume.ring_latency_factor * latency_each + volume.ring_byte_factor * per_byte_each
    return seconds
