"""The cost model: predicted seconds of one epoch for workers in ring order, one placement or many at once. Pure.

`predict` says it in plain arithmetic and is the reference; `objectives` gives the same figures for a batch. Formulas: docs/planner.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.job import Balance
from hyperscale.model.workload import WorkloadProfile

BATCH_ELEMENTS: Final = 2_000_000
"""Largest (B, k, k) intermediate, in numbers: 16 MB stays in a cache-friendly range."""

SHARE_ROUNDS: Final = 16
"""Rounds in which vertices that do not fit move to workers with room; each fills at least one worker."""

UNREACHABLE_SECONDS: Final = 1e100
"""Latency of a pair that cannot talk where a search must not meet infinities."""


@dataclass(frozen=True)
class Costs:
    """What m candidate nodes cost for one job, whatever the worker count. Pairs are as slow as their slower direction."""

    flops_per_second: FloatArray
    """(m,) of one worker: all its GPUs, what others use taken away."""
    memory_bytes: FloatArray
    """(m,) usable memory of one GPU; +inf where unknown."""
    latency_seconds: FloatArray
    """(m, m) finite everywhere; the diagonal is two workers on one node."""
    seconds_per_byte: FloatArray
    """(m, m) inverse bandwidth, finite everywhere."""
    blocked: BoolArray
    """(m, m) True where two nodes cannot talk."""
    workload: WorkloadProfile
    gpus_per_worker: int
    balance: Balance
    partition_count: int | None
    """None: one partition a worker."""
    communication_weight: float

    @cached_property
    def any_blocked(self) -> bool:
        """True where some two nodes cannot talk."""
        return bool(self.blocked.any())

    @cached_property
    def reach_seconds(self) -> FloatArray:
        """(m, m) latency, UNREACHABLE_SECONDS between nodes that cannot talk."""
        return np.ascontiguousarray(np.where(self.blocked, UNREACHABLE_SECONDS, self.latency_seconds))

    @cached_property
    def weight(self) -> FloatArray:
        """(m,) what a worker's share is in proportion to, memory aside."""
        return np.ones(len(self.flops_per_second)) if self.balance is Balance.EQUAL else self.flops_per_second

    @cached_property
    def weighted_seconds_per_byte(self) -> FloatArray:
        """(m, m) times the weight of the column."""
        weighted: FloatArray = self.seconds_per_byte * self.weight
        return weighted

    @cached_property
    def _waits(self) -> dict[int, FloatArray]:
        return {}

    def waits(self, rounds: int) -> FloatArray:
        """(m, m) latency of `rounds` exchanges."""
        if rounds not in self._waits:
            self._waits.clear()
            self._waits[rounds] = rounds * self.latency_seconds
        return self._waits[rounds]

    @cached_property
    def volumes_by_workers(self) -> dict[int, Volumes]:
        """Those asked for so far; see `volumes`."""
        return {}

    def partitions(self, workers: int) -> int:
        """Partitions of the training graph for so many workers."""
        return workers if self.partition_count is None else self.partition_count

    def subset(self, members: IntArray) -> Costs:
        """The costs of some candidates only; `members` (p,) become 0..p-1."""
        pairs = np.ix_(members, members)
        return Costs(
            self.flops_per_second[members],
            self.memory_bytes[members],
            self.latency_seconds[pairs],
            self.seconds_per_byte[pairs],
            self.blocked[pairs],
            self.workload,
            self.gpus_per_worker,
            self.balance,
            self.partition_count,
            self.communication_weight,
        )


@dataclass(frozen=True)
class Volumes:
    """Figures of one epoch that depend on the worker count alone."""

    steps: int
    rounds: int
    """Exchanges of boundary data."""
    halo_bytes: float
    """Of all workers together."""
    ring_latency_factor: float
    """Seconds of latency of the slowest hop -> seconds of allreduce."""
    ring_byte_factor: float
    """Seconds per byte of the slowest hop -> seconds of allreduce."""


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
    slowest_rank: int
    reason: str = ""
    """Why the objective is +inf: NodesCannotReachEachOther or MemoryTooSmall; empty when it is finite."""


def volumes(costs: Costs, workers: int) -> Volumes:
    """Steps, rounds and bytes of an epoch with `workers` workers."""
    known = costs.volumes_by_workers.get(workers)
    if known is None:
        known = costs.volumes_by_workers[workers] = _volumes(costs, workers)
    return known


def _volumes(costs: Costs, workers: int) -> Volumes:
    workload, gpus = costs.workload, costs.gpus_per_worker
    steps = workload.steps(workers, gpus)
    if workers == 1:
        return Volumes(steps, 0, 0.0, 0.0, 0.0)
    return Volumes(
        steps=steps,
        rounds=steps * workload.exchanges_per_step,
        halo_bytes=workload.halo_bytes(costs.partitions(workers), workers, gpus),
        ring_latency_factor=steps * 2.0 * (workers - 1),
        ring_byte_factor=steps * 2.0 * (workers - 1) / workers * workload.gradient_bytes,
    )


def largest_shares(costs: Costs, workers: int) -> FloatArray:
    """(m,) part of the vertices that fits one worker on each candidate; may exceed 1, negative where not even the model fits."""
    workload = costs.workload
    room = costs.memory_bytes - workload.parameter_bytes - workload.step_bytes
    held = workload.gpu_bytes(1.0, costs.partitions(workers), costs.gpus_per_worker) - workload.parameter_bytes - workload.step_bytes
    if held <= 0.0:
        return np.where(room >= 0.0, np.inf, -1.0)
    shares: FloatArray = room / held
    return shares


def shares(costs: Costs, orders: IntArray) -> tuple[FloatArray, BoolArray]:
    """Part of the vertices of each rank, (B, k), rows summing to 1, and whether they fit the GPUs' memory, (B,).

    By speed (Capacity) or equal. Under Capacity a worker takes no more than its memory holds; the others take the rest.
    """
    limit = largest_shares(costs, orders.shape[1])[orders]
    weight = np.ones(orders.shape) if costs.balance is Balance.EQUAL else costs.flops_per_second[orders]
    share = weight / weight.sum(axis=1, keepdims=True)
    if not np.any(share > limit):
        return share, np.ones(len(orders), dtype=np.bool_)
    if costs.balance is Balance.EQUAL:
        return share, np.all(share <= limit, axis=1)
    full = np.zeros(orders.shape, dtype=np.bool_)
    for _ in range(SHARE_ROUNDS):
        over = share > limit
        if not over.any():
            break
        full |= over
        fixed = np.where(full, np.maximum(limit, 0.0), 0.0)
        open_weight = np.where(full, 0.0, weight)
        total = open_weight.sum(axis=1, keepdims=True)
        rest = 1.0 - fixed.sum(axis=1, keepdims=True)
        share = np.where(full, fixed, np.divide(open_weight * rest, total, out=np.zeros_like(weight), where=total > 0))
    fits = np.all((share <= limit + 1e-12) & (share > 1e-6), axis=1) & (np.abs(share.sum(axis=1) - 1.0) < 1e-9)
    return share, fits


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


def ring_costs(costs: Costs, orders: IntArray, volume: Volumes) -> FloatArray:
    """(B,) allreduce seconds of an epoch over each row of `orders` (B, k)."""
    if orders.shape[1] == 1:
        return np.zeros(len(orders))
    following = np.roll(orders, -1, axis=1)
    latency = costs.latency_seconds[orders, following].max(axis=1)
    per_byte = costs.seconds_per_byte[orders, following].max(axis=1)
    seconds: FloatArray = volume.ring_latency_factor * latency + volume.ring_byte_factor * per_byte
    return seconds


def _set_objectives(costs: Costs, sets: IntArray) -> FloatArray:
    workers = sets.shape[1]
    volume = volumes(costs, workers)
    share, fits = shares(costs, sets)
    rank_seconds = share * costs.workload.epoch_flops / costs.flops_per_second[sets]
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if workers == 1:
        return np.where(fits, rank_seconds[:, 0] + overhead, np.inf)
    rows, columns = sets[:, :, None], sets[:, None, :]
    own = np.eye(workers, dtype=np.bool_)
    latency = np.where(own, 0.0, costs.latency_seconds[rows, columns])
    per_byte = np.where(own, 0.0, costs.seconds_per_byte[rows, columns])
    fits &= ~np.any(costs.blocked[rows, columns] & ~own, axis=(1, 2))
    pairs = 1.0 - (share * share).sum(axis=1, keepdims=True)
    traffic = volume.halo_bytes * share * (per_byte @ share[:, :, None])[:, :, 0] / np.maximum(pairs, 1e-12)
    halo = volume.rounds * latency.max(axis=2) + traffic
    return np.where(fits, (rank_seconds + halo).max(axis=1) + overhead + costs.communication_weight * halo.max(axis=1), np.inf)


def predict(costs: Costs, order: IntArray) -> Breakdown:
    """The reference: seconds of one epoch with one worker on each candidate of `order` (k,), in ring order."""
    workers = len(order)
    volume = volumes(costs, workers)
    share, fits = shares(costs, order[None, :])
    compute = [float(share[0, rank] * costs.workload.epoch_flops / costs.flops_per_second[node]) for rank, node in enumerate(order)]
    halo = [_halo_seconds(costs, order, share[0], rank, volume) for rank in range(workers)]
    slowest = max(range(workers), key=lambda rank: (compute[rank] + halo[rank], -rank))
    ring = _ring_seconds(costs, order, volume)
    epoch = compute[slowest] + halo[slowest] + ring + volume.steps * costs.workload.step_overhead_seconds
    communication = max(halo) + ring
    reason = _reason(costs, order, bool(fits[0]))
    objective = np.inf if reason else epoch + costs.communication_weight * communication
    return Breakdown(epoch, communication, max(compute), max(halo), ring, float(objective), slowest, reason)


def _ring_seconds(costs: Costs, order: IntArray, volume: Volumes) -> float:
    """All allreduces of an epoch over `order` (k,): the slowest hop sets the pace (Patarasuk & Yuan 2009); 0 for k = 1."""
    if len(order) == 1:
        return 0.0
    hops = [(order[rank - 1], node) for rank, node in enumerate(order)]
    latency = max(float(costs.latency_seconds[hop]) for hop in hops)
    per_byte = max(float(costs.seconds_per_byte[hop]) for hop in hops)
    return volume.ring_latency_factor * latency + volume.ring_byte_factor * per_byte


def _halo_seconds(costs: Costs, order: IntArray, share: FloatArray, rank: int, volume: Volumes) -> float:
    """Boundary data of one rank: all its bytes through its own link, and the farthest partner's latency every round."""
    others = np.delete(np.arange(len(order)), rank)
    if not len(others):
        return 0.0
    scale = volume.halo_bytes * float(share[rank]) / max(1e-12, 1.0 - float((share * share).sum()))
    seconds = scale * float((share[others] * costs.seconds_per_byte[order[rank], order[others]]).sum())
    return seconds + volume.rounds * float(costs.latency_seconds[order[rank], order[others]].max())


def _reason(costs: Costs, order: IntArray, fits: bool) -> str:
    if not fits:
        return "MemoryTooSmall"
    pairs = costs.blocked[np.ix_(order, order)].copy()
    np.fill_diagonal(pairs, False)
    return "NodesCannotReachEachOther" if pairs.any() else ""
