"""The cost model: predicted seconds of one epoch for workers in ring order, one placement or many at once. Pure.

`predict` is the reference in plain arithmetic; `objectives` gives the same figures for a batch. Formulas: docs/explanation/planner.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.costs import UNREACHABLE_SECONDS as UNREACHABLE_SECONDS
from hyperscale.planner.cost.costs import Costs as Costs
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.costs import volumes as volumes
from hyperscale.planner.cost.shares import largest_shares as largest_shares
from hyperscale.planner.cost.shares import shares as shares
from hyperscale.util.float_sums import sum_in_order

BATCH_ELEMENTS: Final = 2_000_000
"""Largest (B, k, k) intermediate, in numbers: 16 MB stays in a cache-friendly range."""


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
    """(B,) allreduce seconds of an epoch over each row of `orders` (B, k)."""
    latency, per_byte = slowest_hops(costs, orders)
    seconds: FloatArray = volume.ring_latency_factor * latency + volume.ring_byte_factor * per_byte
    return seconds


def slowest_hops(costs: Costs, orders: IntArray) -> tuple[FloatArray, FloatArray]:
    """(B,) latency and seconds per byte of the slowest hop between two ranks of each ring in `orders` (B, k)."""
    following = np.roll(orders, -1, axis=1)
    latency = costs.latency_seconds[orders, following].max(axis=1)
    per_byte = (costs.seconds_per_byte[orders, following] * crossings(costs, orders, following)).max(axis=1)
    if costs.gpus_per_worker > 1:  # the ring passes all GPUs of a worker before the next worker
        latency = np.maximum(latency, costs.inside_latency_seconds[orders].max(axis=1))
        per_byte = np.maximum(per_byte, costs.inside_seconds_per_byte[orders].max(axis=1))
    return latency, per_byte


def hops_seconds(costs: Costs, order: IntArray) -> tuple[FloatArray, FloatArray]:
    """(k,) seconds of an epoch's allreduce at the pace of each hop alone: from each worker of `order` (k,) to the next, and inside each.

    The latter is 0 where workers have one GPU.
    """
    volume, following = volumes(costs, len(order)), np.roll(order, -1)
    shared = crossings(costs, order[None, :], following[None, :])[0]
    waits, byte_seconds = volume.ring_latency_factor * costs.latency_seconds, volume.ring_byte_factor * costs.seconds_per_byte
    apart: FloatArray = waits[order, following] + shared * byte_seconds[order, following]
    inside: FloatArray = waits[order, order] + byte_seconds[order, order]
    return apart, inside if costs.gpus_per_worker > 1 else np.zeros(len(order))


def crossings(costs: Costs, orders: IntArray, following: IntArray) -> FloatArray:
    """(B, k) how many hops share the card of the busier end of each hop; 1 for a hop inside a node.

    orders, following: (B, k) where each hop of a ring starts and ends. A ring that enters a node several times shares its card.
    """
    rows, workers = orders.shape
    ordered = np.sort(orders, axis=1)
    again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    counts = np.ones((rows, workers))
    nodes = len(costs.flops_per_second)
    for chosen in np.array_split(again, max(1, len(again) * nodes // BATCH_ELEMENTS)):
        source, target = orders[chosen], following[chosen]
        offset = np.arange(len(chosen))[:, None] * nodes
        leaves = source != target
        times = np.bincount((source + offset).ravel(), weights=leaves.ravel(), minlength=len(chosen) * nodes)
        counts[chosen] = np.where(leaves, np.maximum(times[source + offset], times[target + offset]), 1.0)
    return counts


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
    of_node = ((rows == columns) * share[:, None, :]).sum(axis=2)
    apart = (costs.apart_seconds_per_byte[rows, columns] @ share[:, :, None])[:, :, 0]
    inside = costs.inside_seconds_per_byte[sets]
    traffic = volume.halo_bytes / pairs * (of_node * apart + inside * rank * (of_node - rank))
    halo: FloatArray = volume.rounds * latency.max(axis=2) + traffic
    return halo, np.any(costs.blocked[rows, columns] & ~itself, axis=(1, 2))


def predict(costs: Costs, order: IntArray) -> Breakdown:
    """The reference: seconds of one epoch with one worker on each candidate of `order` (k,), in ring order."""
    workers = len(order)
    volume = volumes(costs, workers)
    share, fits = shares(costs, order[None, :])
    compute = [float(share[0, worker] * costs.workload.epoch_flops / costs.flops_per_second[node]) for worker, node in enumerate(order)]
    halo = [_halo_seconds(costs, order, share[0], worker, volume) for worker in range(workers)]
    slowest = max(range(workers), key=lambda worker: (compute[worker] + halo[worker], -worker))
    ring = _ring_seconds(costs, order, volume)
    epoch = compute[slowest] + halo[slowest] + ring + volume.steps * costs.workload.step_overhead_seconds
    communication = max(halo) + ring
    reason = _reason(costs, order, bool(fits[0]))
    objective = np.inf if reason else epoch + costs.communication_weight * communication
    return Breakdown(epoch, communication, max(compute), max(halo), ring, float(objective), slowest, reason)


def _ring_seconds(costs: Costs, order: IntArray, volume: ExchangeVolumes) -> float:
    """All allreduces of an epoch over `order` (k,): the slowest hop sets the pace (Patarasuk & Yuan 2009); 0 for one rank.

    Hops lead to the next GPU of a worker and then to the next worker. A node that the ring leaves c times gives each of these hops 1 / c
    of its card.
    """
    hops = [(int(order[at - 1]), int(node)) for at, node in enumerate(order)]
    leaves = [source for source, target in hops if source != target]
    inner = [(int(node), int(node)) for node in order] if costs.gpus_per_worker > 1 else []
    latency = max(float(costs.latency_seconds[hop]) for hop in (*hops, *inner))
    per_byte = max(
        float(costs.seconds_per_byte[source, target]) * (max(leaves.count(source), leaves.count(target)) if source != target else 1)
        for source, target in (*hops, *inner)
    )
    return volume.ring_latency_factor * latency + volume.ring_byte_factor * per_byte


def _halo_seconds(costs: Costs, order: IntArray, share: FloatArray, worker: int, volume: ExchangeVolumes) -> float:
    """Halo seconds of one rank of a worker. Bytes to ranks of its own node use the intra-node links; bytes to others use the node's card.

    All ranks of the node send through the card, so that each waits for the bytes of all; and the farthest partner's latency every round.
    """
    gpus, node = costs.gpus_per_worker, int(order[worker])
    if costs.ranks(len(order)) == 1:
        return 0.0
    rank = float(share[worker]) / gpus
    bytes_a_share = volume.halo_bytes / max(1e-12, 1.0 - sum_in_order(float(part) ** 2 / gpus for part in share))
    of_node = sum_in_order(float(part) for part, other in zip(share, order, strict=True) if other == node)
    by_card = sum_in_order(
        of_node * float(part) * float(costs.seconds_per_byte[node, other])
        for part, other in zip(share, order, strict=True)
        if other != node
    )
    by_inside = rank * (of_node - rank) * float(costs.seconds_per_byte[node, node])
    partners = [int(other) for at, other in enumerate(order) if at != worker or gpus > 1]
    return bytes_a_share * (by_card + by_inside) + volume.rounds * max(float(costs.latency_seconds[node, other]) for other in partners)


def _reason(costs: Costs, order: IntArray, fits: bool) -> str:
    if not fits:
        return "MemoryTooSmall"
    pairs = costs.blocked[np.ix_(order, order)].copy()
    np.fill_diagonal(pairs, False)
    return "NodesCannotReachEachOther" if pairs.any() else ""
