"""The objective of ranks that keep the parts of the training graph they hold, wherever they run. Pure.

A running job does not deal its vertices out anew when a node slows down or a rank moves. `objective.py` does: there a part follows the
speed of the node. The formulas are otherwise the same (docs/planner.md).
"""

from __future__ import annotations

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.plan.objective import Breakdown, Costs, Volumes, largest_shares, ring_costs, volumes
from hyperscale.plan.polish import ring_with_each

FITS = 1e-9
"""Rounding of a share beside what fits."""


def held_objectives(costs: Costs, orders: IntArray, share: FloatArray) -> FloatArray:
    """(B,) objective of each row of `orders` (B, k); rank r holds `share[r]` (k,) of the vertices. +inf where a placement cannot work."""
    return _seconds(costs, orders, share, costs.communication_weight)


def held_epochs(costs: Costs, orders: IntArray, share: FloatArray) -> FloatArray:
    """(B,) seconds of an epoch, likewise."""
    return _seconds(costs, orders, share, 0.0)


def held_breakdown(costs: Costs, order: IntArray, share: FloatArray) -> Breakdown:
    """The same for one placement (k,), by cause; what cannot work has no reason here and an objective of +inf."""
    volume = volumes(costs, len(order))
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[order]
    halo = _halo_seconds(costs, order[None, :], share, volume)[0][0] if len(order) > 1 else np.zeros(1)
    ring = float(ring_costs(costs, order[None, :], volume)[0])
    slowest = int(np.argmax(compute + halo))
    return Breakdown(
        epoch_seconds=float(held_epochs(costs, order[None, :], share)[0]),
        communication_seconds=float(halo.max()) + ring,
        compute_seconds=float(compute.max()),
        halo_seconds=float(halo.max()),
        ring_seconds=ring,
        objective=float(held_objectives(costs, order[None, :], share)[0]),
        slowest_rank=slowest,
    )


def held_replacements(costs: Costs, order: IntArray, position: int, share: FloatArray) -> FloatArray:
    """(m,) objective with each candidate at `position` of `order` (k,)."""
    workers = len(order)
    volume = volumes(costs, workers)
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[order]
    come = share[position] * costs.workload.epoch_flops / costs.flops_per_second
    overhead = volume.steps * costs.workload.step_overhead_seconds
    fits = share[position] <= largest_shares(costs, workers) + FITS
    if workers == 1:
        return np.where(fits, come + overhead, np.inf)
    others = np.delete(np.arange(workers), position)
    members, parts = order[others], share[others]
    stay_halo, come_halo = _halo_with_each(costs, members, parts, float(share[position]), volume)
    halo = np.maximum(stay_halo.max(axis=0), come_halo)
    slowest = np.maximum((compute[others][:, None] + stay_halo).max(axis=0), come + come_halo)
    ring = ring_with_each(costs, order[None, :], position, volume)[0]
    fits &= bool(np.all(parts <= largest_shares(costs, workers)[members] + FITS))
    apart = costs.blocked[members].any(axis=0) | costs.blocked[np.ix_(members, members)].any()
    seconds = slowest + ring + overhead + costs.communication_weight * (halo + ring)
    return np.where(apart | np.logical_not(fits), np.inf, seconds)


def _halo_with_each(costs: Costs, members: IntArray, parts: FloatArray, part: float, volume: Volumes) -> tuple[FloatArray, FloatArray]:
    """Boundary data with each candidate as one more rank that holds `part`: of `members` (k - 1, m), and of the candidate (m,)."""
    own = np.eye(len(members), dtype=np.bool_)
    pairs = np.ix_(members, members)
    inner = np.where(own, 0.0, costs.seconds_per_byte[pairs]) @ parts
    latency = np.where(own, 0.0, costs.latency_seconds[pairs]).max(axis=1)
    scale = volume.halo_bytes / max(1e-12, 1.0 - float((parts * parts).sum()) - part * part)
    per_byte, waits = costs.seconds_per_byte[members], costs.latency_seconds[members]
    stay: FloatArray = scale * parts[:, None] * (inner[:, None] + part * per_byte)
    stay += volume.rounds * np.maximum(latency[:, None], waits)
    come: FloatArray = scale * part * (parts @ per_byte) + volume.rounds * waits.max(axis=0)
    return stay, come


def _seconds(costs: Costs, orders: IntArray, share: FloatArray, weight: float) -> FloatArray:
    workers = orders.shape[1]
    volume = volumes(costs, workers)
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[orders]
    fits = np.all(share <= largest_shares(costs, workers)[orders] + FITS, axis=1)
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if workers == 1:
        return np.where(fits, compute[:, 0] + overhead, np.inf)
    halo, apart = _halo_seconds(costs, orders, share, volume)
    ring = ring_costs(costs, orders, volume)
    seconds = (compute + halo).max(axis=1) + ring + overhead + weight * (halo.max(axis=1) + ring)
    return np.where(np.logical_or(apart, np.logical_not(fits)), np.inf, seconds)


def _halo_seconds(costs: Costs, orders: IntArray, share: FloatArray, volume: Volumes) -> tuple[FloatArray, FloatArray]:
    """(B, k) boundary data of every rank, and (B,) whether some two ranks cannot talk."""
    own = np.eye(orders.shape[1], dtype=np.bool_)
    pairs = (orders[:, :, None], orders[:, None, :])
    per_byte = np.where(own, 0.0, costs.seconds_per_byte[pairs])
    latency = np.where(own, 0.0, costs.latency_seconds[pairs])
    scale = volume.halo_bytes / max(1e-12, 1.0 - float((share * share).sum()))
    halo: FloatArray = scale * share * (per_byte @ share) + volume.rounds * latency.max(axis=2)
    return halo, np.any(costs.blocked[pairs] & ~own, axis=(1, 2))
