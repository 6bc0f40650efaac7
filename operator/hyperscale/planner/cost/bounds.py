"""A lower bound of the objective for a number of workers; a search that reaches it ends. Pure and deterministic."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, largest_shares, volumes

ROUNDING: Final = 1e-6
"""Part of a graph by which sums of shares may be off."""


class BestLinks(NamedTuple):
    """What no link of a placement is better than; +inf where there is none of the kind."""

    between_seconds: float
    """Latency between two nodes."""
    between_seconds_per_byte: float
    inside_seconds: float
    """Latency inside a node that may have several ranks."""
    inside_seconds_per_byte: float


def lower_bound(costs: Costs, slots: IntArray, workers: int, links: BestLinks) -> float:
    """Seconds of the objective that every placement has at least: the fastest slots, all pairs over the best link.

    slots: (m,) of each candidate, pinned ranks counted · links: as `best_links` has them. +inf where there are too few slots, or too
    little memory on any of them.
    """
    usable = np.flatnonzero(slots > 0)
    fast = usable[np.argsort(-costs.flops_per_second[usable], kind="stable")][:workers]
    chosen = np.repeat(fast, np.minimum(slots[fast], workers))[:workers]
    limited = len(chosen) == workers and memory_may_limit(costs, usable, workers)
    if len(chosen) < workers or (limited and not _memory_holds(largest_shares(costs, workers), slots, workers, costs.balance)):
        return float("inf")
    volume, flops = volumes(costs, workers), costs.workload.epoch_flops
    speeds = costs.flops_per_second[chosen]
    compute = flops / (workers * speeds[-1]) if costs.balance is Balance.EQUAL else flops / speeds.sum()
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if costs.ranks(workers) == 1:
        return float(compute + overhead)
    # Where memory shifts shares, the slowest rank may send less than the mean.
    traffic_weight = costs.communication_weight + (0.0 if limited else 1.0)
    return float(compute + overhead + _least_communication(costs, slots, workers, links, traffic_weight))


def _least_communication(costs: Costs, slots: IntArray, workers: int, links: BestLinks, traffic_weight: float) -> float:
    """Least weighted seconds of boundary data and allreduce over all numbers of nodes that may hold the workers."""
    volume, weight = volumes(costs, workers), 1.0 + costs.communication_weight
    room = np.sort(np.minimum(slots[slots > 0], workers))[::-1]
    fewest = int(np.searchsorted(np.cumsum(room), workers)) + 1
    nodes = np.arange(fewest, min(workers, len(room)) + 1)
    one, packed = nodes == 1, nodes < costs.ranks(workers)
    apart = np.isfinite(links.between_seconds)
    links = BestLinks(*(figure if np.isfinite(figure) else 0.0 for figure in links))
    between = np.where(one, 0.0, links.between_seconds)
    inside = np.where(packed, links.inside_seconds, 0.0)
    per_byte = np.where(one, 0.0, links.between_seconds_per_byte)
    inside_per_byte = np.where(packed, links.inside_seconds_per_byte, 0.0)
    # The mean rank sends its part of the boundary data, and waits for its farthest partner every round.
    least = np.where(packed, np.minimum(links.between_seconds_per_byte, links.inside_seconds_per_byte), per_byte)
    mean = np.where(one, links.inside_seconds_per_byte, least)
    traffic = traffic_weight * volume.halo_bytes / costs.ranks(workers) * mean
    wait = weight * volume.rounds * np.where(one, links.inside_seconds, links.between_seconds)
    seconds = traffic + wait + weight * volume.allreduce_seconds(nodes, between, inside, per_byte, inside_per_byte)
    return float(np.where(one | apart, seconds, np.inf).min())


def memory_may_limit(costs: Costs, usable: IntArray, workers: int) -> bool:
    """False where no worker's share can exceed what its GPUs hold, whatever the placement; `usable` (u,) candidates."""
    limits = largest_shares(costs, workers)[usable]
    speeds = costs.flops_per_second[usable]
    if costs.balance is Balance.EQUAL:
        return bool((limits < 1.0 / workers).any())
    return bool((limits < speeds / (speeds + (workers - 1) * speeds.min())).any())


def _memory_holds(limits: FloatArray, slots: IntArray, workers: int, balance: Balance) -> bool:
    """False where the GPUs with the most memory hold too little for `workers` workers; limits: (m,) see `largest_shares` · `slots` (m,)."""
    if balance is Balance.EQUAL:
        return int(slots[limits >= 1.0 / workers].sum()) >= workers
    able = np.flatnonzero((slots > 0) & (limits > 0.0))
    roomy = able[np.argsort(-limits[able], kind="stable")][:workers]
    chosen = np.repeat(limits[roomy], np.minimum(slots[roomy], workers))[:workers]
    return len(chosen) == workers and float(chosen.sum()) >= 1.0 - ROUNDING


def best_links(costs: Costs, slots: IntArray) -> BestLinks:
    """Lowest latency and seconds per byte of any pair that two ranks may form; `slots` (m,) with pinned workers."""
    usable = slots > 0
    open_pairs = ~costs.blocked & usable[:, None] & usable[None, :]
    np.fill_diagonal(open_pairs, False)
    several = slots * costs.gpus_per_worker > 1
    return BestLinks(
        float(costs.latency_seconds.min(where=open_pairs, initial=np.inf)),
        float(costs.seconds_per_byte.min(where=open_pairs, initial=np.inf)),
        float(costs.inside_latency_seconds.min(where=several, initial=np.inf)),
        float(costs.inside_seconds_per_byte.min(where=several, initial=np.inf)),
    )
