"""A lower bound of the objective for a number of workers; a search that reaches it ends. Pure and deterministic."""

from __future__ import annotations

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs, largest_shares, volumes


def lower_bound(costs: Costs, slots: IntArray, workers: int, link: tuple[float, float]) -> float:
    """Seconds of the objective that every placement has at least: the fastest slots, all pairs over the best link.

    slots: (m,) of each candidate, pinned ranks counted · link: as `best_link` has it. +inf where there are too few slots.
    """
    usable = np.flatnonzero(slots > 0)
    fast = usable[np.argsort(-costs.flops_per_second[usable], kind="stable")][:workers]
    chosen = np.repeat(fast, np.minimum(slots[fast], workers))[:workers]
    if len(chosen) < workers:
        return float("inf")
    volume, flops = volumes(costs, workers), costs.workload.epoch_flops
    speeds = costs.flops_per_second[chosen]
    compute = flops / (workers * speeds[-1]) if costs.balance is Balance.EQUAL else flops / speeds.sum()
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if costs.ranks(workers) == 1:
        return float(compute + overhead)
    latency, per_byte = link
    wait = volume.rounds * latency
    # The mean rank sends its part of the boundary data; where memory shifts shares, the slowest rank may send less.
    traffic = volume.halo_bytes * per_byte / costs.ranks(workers)
    ring = volume.ring_latency_factor * latency + volume.ring_byte_factor * per_byte
    slowest = compute + wait + (0.0 if memory_may_limit(costs, usable, workers) else traffic)
    return float(slowest + ring + overhead + costs.communication_weight * (wait + traffic + ring))


def memory_may_limit(costs: Costs, usable: IntArray, workers: int) -> bool:
    """False where no worker's share can exceed what its GPUs hold, whatever the placement; `usable` (u,) candidates."""
    limits = largest_shares(costs, workers)[usable]
    speeds = costs.flops_per_second[usable]
    if costs.balance is Balance.EQUAL:
        return bool((limits < 1.0 / workers).any())
    return bool((limits < speeds / (speeds + (workers - 1) * speeds.min())).any())


def best_link(costs: Costs, slots: IntArray) -> tuple[float, float]:
    """Lowest latency and seconds per byte of any pair that two ranks may form; `slots` (m,) with pinned workers."""
    usable = slots > 0
    open_pairs = ~costs.blocked & usable[:, None] & usable[None, :]
    np.fill_diagonal(open_pairs, slots * costs.gpus_per_worker > 1)
    latency = costs.latency_seconds.min(where=open_pairs, initial=np.inf)
    return float(latency), float(costs.seconds_per_byte.min(where=open_pairs, initial=np.inf))
