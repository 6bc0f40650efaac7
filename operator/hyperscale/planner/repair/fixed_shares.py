"""The objective of ranks that keep the parts of the training graph they hold, wherever they run. Pure.

A running job does not deal its vertices out again when a node slows down or a rank moves. `cost/objective.py` does: a part follows the
speed of the node. The formulas are otherwise the same (docs/explanation/planner.md).
"""

from __future__ import annotations

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.objective import Breakdown, Costs, halo_seconds, largest_shares, ring_costs, volumes
from hyperscale.planner.search.local_search_batch import ring_with_each

FITS = 1e-9
"""Rounding of a share beside what fits."""


def held_objectives(costs: Costs, orders: IntArray, share: FloatArray) -> FloatArray:
    """(B,) objective of each row of `orders` (B, k); worker r holds `share[r]` (k,) of the vertices. +inf where a placement cannot work."""
    return _seconds(costs, orders, share, costs.communication_weight)


def held_epochs(costs: Costs, orders: IntArray, share: FloatArray) -> FloatArray:
    """(B,) seconds of an epoch, likewise."""
    return _seconds(costs, orders, share, 0.0)


def held_breakdown(costs: Costs, order: IntArray, share: FloatArray) -> Breakdown:
    """The same for one placement (k,), by cause; what cannot work has no reason here and an objective of +inf."""
    volume = volumes(costs, len(order))
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[order]
    halo = halo_seconds(costs, order[None, :], share, volume)[0][0] if costs.ranks(len(order)) > 1 else np.zeros(1)
    ring = float(ring_costs(costs, order[None, :], volume)[0])
    slowest = int(np.argmax(compute + halo))
    return Breakdown(
        epoch_seconds=float(held_epochs(costs, order[None, :], share)[0]),
        communication_seconds=float(halo.max()) + ring,
        compute_seconds=float(compute.max()),
        halo_seconds=float(halo.max()),
        ring_seconds=ring,
        objective=float(held_objectives(costs, order[None, :], share)[0]),
        slowest_worker=slowest,
    )


def held_replacements(costs: Costs, order: IntArray, position: int, share: FloatArray) -> FloatArray:
    """(m,) objective with each candidate at `position` of `order` (k,)."""
    workers = len(order)
    volume = volumes(costs, workers)
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[order]
    come = share[position] * costs.workload.epoch_flops / costs.flops_per_second
    overhead = volume.steps * costs.workload.step_overhead_seconds
    fits = share[position] <= largest_shares(costs, workers) + FITS
    if costs.ranks(workers) == 1:
        return np.where(fits, come + overhead, np.inf)
    others = np.delete(np.arange(workers), position)
    members, parts = order[others], share[others]
    stay_halo, come_halo = _halo_with_each(costs, members, parts, float(share[position]), volume)
    halo = np.maximum(stay_halo.max(axis=0, initial=0.0), come_halo)
    slowest = np.maximum((compute[others][:, None] + stay_halo).max(axis=0, initial=0.0), come + come_halo)
    ring = ring_with_each(costs, order[None, :], position, volume)[0]
    fits &= bool(np.all(parts <= largest_shares(costs, workers)[members] + FITS))
    apart = costs.blocked[members].any(axis=0) | costs.blocked[np.ix_(members, members)].any()
    seconds = slowest + ring + overhead + costs.communication_weight * (halo + ring)
    return np.where(apart | np.logical_not(fits), np.inf, seconds)


def _halo_with_each(
    costs: Costs, members: IntArray, parts: FloatArray, part: float, volume: ExchangeVolumes
) -> tuple[FloatArray, FloatArray]:
    """Boundary data with each candidate as one more worker that holds `part`: of `members` (k - 1, m), and of the candidate (m,)."""
    gpus, apart = costs.gpus_per_worker, costs.apart_seconds_per_byte
    pairs, same = np.ix_(members, members), members[:, None] == np.arange(len(costs.weight))
    latency = (
        costs.latency_seconds[pairs] if gpus > 1 else np.where(np.eye(len(members), dtype=np.bool_), 0.0, costs.latency_seconds[pairs])
    )
    scale = volume.halo_bytes / max(1e-12, 1.0 - (float((parts * parts).sum()) + part * part) / gpus)
    waits = costs.latency_seconds[members]
    alike = members[:, None] == members
    of_node = (alike @ parts)[:, None] + part * same
    rank = parts[:, None] / gpus
    stay: FloatArray = of_node * ((apart[pairs] @ parts)[:, None] + part * apart[members])
    if costs.railed:
        stay *= costs.card_slowness(members[:, None], alike.sum(axis=1)[:, None] + same)
    stay += costs.inside_seconds_per_byte[members][:, None] * rank * (of_node - rank)
    with_them, rank_part = part + parts @ same, part / gpus
    come: FloatArray = with_them * (parts @ apart[members])
    if costs.railed:
        come *= costs.card_slowness(np.arange(len(costs.weight)), same.sum(axis=0) + 1)
    come += costs.inside_seconds_per_byte * rank_part * (with_them - rank_part)
    for domains, uplinks in zip(costs.uplink_domains, costs.uplink_seconds_per_byte, strict=True):
        own, slow = domains[members], np.where(domains >= 0, uplinks[domains], 0.0)
        joins = own[:, None] == domains
        mass = ((own[:, None] == own) @ parts)[:, None] + part * joins
        stay = np.maximum(stay, mass * (1.0 - mass) * slow[members][:, None])
        mass = part + parts @ joins
        come = np.maximum(come, mass * (1.0 - mass) * slow)
    stay = scale * stay + volume.rounds * np.maximum(latency.max(axis=1, initial=0.0)[:, None], waits)
    wait = np.maximum(waits.max(axis=0, initial=0.0), costs.inside_latency_seconds if gpus > 1 else 0.0)
    return stay, scale * come + volume.rounds * wait


def _seconds(costs: Costs, orders: IntArray, share: FloatArray, weight: float) -> FloatArray:
    workers = orders.shape[1]
    volume = volumes(costs, workers)
    compute = share * costs.workload.epoch_flops / costs.flops_per_second[orders]
    fits = np.all(share <= largest_shares(costs, workers)[orders] + FITS, axis=1)
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if costs.ranks(workers) == 1:
        return np.where(fits, compute[:, 0] + overhead, np.inf)
    halo, apart = halo_seconds(costs, orders, share, volume)
    ring = ring_costs(costs, orders, volume)
    seconds = (compute + halo).max(axis=1) + ring + overhead + weight * (halo.max(axis=1) + ring)
    return np.where(np.logical_or(apart, np.logical_not(fits)), np.inf, seconds)
