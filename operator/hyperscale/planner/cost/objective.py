"""The cost model: predicted seconds of one epoch for workers in ring order, one placement or many at once. Pure.

`predict` is the reference in plain arithmetic; `objectives` gives the same figures for a batch. Formulas: docs/explanation/planner.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.costs import UNREACHABLE_SECONDS as UNREACHABLE_SECONDS
from hyperscale.planner.cost.costs import Costs as Costs
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.costs import volumes as volumes
from hyperscale.planner.cost.epoch_parts import allreduce_parts, halo_parts
from hyperscale.planner.cost.ring_hops import BATCH_ELEMENTS, slowest_hops
from hyperscale.planner.cost.ring_hops import crossings as crossings
from hyperscale.planner.cost.ring_hops import hops_seconds as hops_seconds
from hyperscale.planner.cost.shares import largest_shares as largest_shares
from hyperscale.planner.cost.shares import shares as shares


@dataclass(frozen=True)
class Breakdown:
    """Predicted seconds of one epoch, by cause."""

    epoch_seconds: float
    communication_seconds: float
    compute_seconds: float
    """Arithmetic of the slowest rank."""
    halo_seconds: float
    """Boundary data of the slowest rank."""
    ring_seconds: float
    objective: float
    slowest_worker: int
    """Its place in the ring."""
    reason: str = ""
    """Why the objective is +inf: NodesCannotReachEachOther or MemoryTooSmall; empty when it is finite."""


def objectives(costs: Costs, orders: IntArray) -> FloatArray:
    """(B,) objective of each row of `orders` (B, k), candidates in ring order; +inf where a placement cannot work."""
    if not len(orders):
        return np.zeros(0)
    volume = volumes(costs, orders.shape[1])
    seconds: FloatArray = set_objectives(costs, orders) + (1.0 + costs.communication_weight) * ring_costs(costs, orders, volume)
    return seconds


def set_objectives(costs: Costs, sets: IntArray) -> FloatArray:
    """(B,) the part of the objective that does not depend on the ring's order; +inf where a set (B, k) cannot work."""
    step = max(1, BATCH_ELEMENTS // max(1, sets.shape[1] ** 2))
    parts = [_set_objectives(costs, sets[start : start + step]) for start in range(0, len(sets), step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def ring_costs(costs: Costs, orders: IntArray, volume: ExchangeVolumes) -> FloatArray:
    """(B,) allreduce seconds of an epoch over each row of `orders` (B, k), by the fastest algorithm."""
    return volume.allreduce_seconds(*slowest_hops(costs, orders))


def _set_objectives(costs: Costs, sets: IntArray) -> FloatArray:
    workers = sets.shape[1]
    volume = volumes(costs, workers)
    share, fits = shares(costs, sets)
    rank_seconds = share * costs.workload.epoch_flops / costs.flops_per_second[sets]
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if costs.ranks(workers) == 1:
        return np.where(fits, rank_seconds[:, 0] + overhead, np.inf)
    halo, apart = halo_seconds(costs, sets, share, volume)
    return np.where(fits & ~apart, (rank_seconds + halo).max(axis=1) + overhead + costs.communication_weight * halo.max(axis=1), np.inf)


def halo_seconds(costs: Costs, sets: IntArray, share: FloatArray, volume: ExchangeVolumes) -> tuple[FloatArray, BoolArray]:
    """(B, k) boundary data of a rank of each worker, and (B,) whether some two workers cannot talk.

    sets: (B, k) candidates; share: (B, k) or (k,) part of the vertices of each worker, which its ranks divide evenly.
    """
    gpus, share = costs.gpus_per_worker, np.broadcast_to(share, sets.shape)
    rows, columns = sets[:, :, None], sets[:, None, :]
    itself = np.eye(sets.shape[1], dtype=np.bool_)
    latency = costs.latency_seconds[rows, columns]
    if gpus == 1:
        latency = np.where(itself, 0.0, latency)
    rank = share / gpus
    pairs = np.maximum(1.0 - (share * rank).sum(axis=1, keepdims=True), 1e-12)
    alike = rows == columns
    of_node = (alike * share[:, None, :]).sum(axis=2)
    by_card = of_node * costs.card_slowness(sets, alike.sum(axis=2)) if costs.railed else of_node
    apart = (costs.apart_seconds_per_byte[rows, columns] @ share[:, :, None])[:, :, 0]
    inside = costs.inside_seconds_per_byte[sets]
    weighted = by_card * apart + inside * rank * (of_node - rank)
    for domains, uplinks in zip(costs.uplink_domains, costs.uplink_seconds_per_byte, strict=True):
        weighted = np.maximum(weighted, _uplink_halo(domains[sets], share, uplinks))
    traffic = volume.halo_bytes / pairs * weighted
    halo: FloatArray = volume.rounds * latency.max(axis=2) + traffic
    return halo, np.any(costs.blocked[rows, columns] & ~itself, axis=(1, 2))


def _uplink_halo(domains: IntArray, share: FloatArray, uplinks: FloatArray) -> FloatArray:
    """(B, k) seconds per byte of what leaves each worker's domain, times the shares that exchange it; domains: (B, k), -1 for none."""
    mass = ((domains[:, :, None] == domains[:, None, :]) * share[:, None, :]).sum(axis=2)
    leaving: FloatArray = mass * (1.0 - mass) * np.where(domains >= 0, uplinks[domains], 0.0)
    return leaving


def predict(costs: Costs, order: IntArray) -> Breakdown:
    """The reference: seconds of one epoch with one worker on each candidate of `order` (k,), in ring order."""
    workers = len(order)
    volume = volumes(costs, workers)
    share, fits = shares(costs, order[None, :])
    compute = [float(share[0, worker] * costs.workload.epoch_flops / costs.flops_per_second[node]) for worker, node in enumerate(order)]
    halo = [halo_parts(costs, order, share[0], worker, volume).seconds for worker in range(workers)]
    slowest = max(range(workers), key=lambda worker: (compute[worker] + halo[worker], -worker))
    ring = allreduce_parts(costs, order, volume).seconds if costs.ranks(workers) > 1 else 0.0
    epoch = compute[slowest] + halo[slowest] + ring + volume.steps * costs.workload.step_overhead_seconds
    communication = max(halo) + ring
    reason = _reason(costs, order, bool(fits[0]))
    objective = np.inf if reason else epoch + costs.communication_weight * communication
    return Breakdown(epoch, communication, max(compute), max(halo), ring, float(objective), slowest, reason)


def _reason(costs: Costs, order: IntArray, fits: bool) -> str:
    if not fits:
        return "MemoryTooSmall"
    pairs = costs.blocked[np.ix_(order, order)].copy()
    np.fill_diagonal(pairs, False)
    return "NodesCannotReachEachOther" if pairs.any() else ""
