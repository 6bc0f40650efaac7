"""Greedy placement from many seeds at once: every step adds, for every seed, the node that costs least. Pure and deterministic."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.objective import Costs, volumes

LEAST_ROUNDS: Final = 1e-50
"""Instead of no exchange at all, so that a pair that cannot talk still costs more than anything."""


def seed_scores(costs: Costs, slots: IntArray, workers: int) -> FloatArray:
    """(m,) rough objective of a placement around each candidate; +inf without a slot."""
    volume = volumes(costs, workers)
    compute = costs.workload.epoch_flops / (workers * costs.flops_per_second)
    if workers == 1:
        inside = halo_factor(costs, volume, workers) * alone(costs) + volume.rounds * costs.inside_latency_seconds
        one = np.ones(len(slots), dtype=np.int64)
        none = np.zeros(len(slots))
        own = costs.inside_latency_seconds, costs.inside_seconds_per_byte
        ring = volume.allreduce_seconds(one, none, own[0], none, own[1], costs.sharp_class)
        return np.where(slots > 0, compute + inside + ring, np.inf)
    partners = workers - 1
    wait = (max(volume.rounds, LEAST_ROUNDS) + volume.ring_latency_factor) / partners
    pair = (halo_factor(costs, volume, workers) + volume.ring_byte_factor / partners) * hop_seconds_per_byte(costs, workers)
    pair += wait * costs.reach_seconds
    # The partners' own speed counts as well: a near but slow node is no good partner.
    joint = pair + np.maximum(compute[None, :], compute[:, None]) / partners
    room = np.clip(slots[None, :] - np.eye(len(slots), dtype=np.int64), 0, partners)
    ordered = np.argsort(joint, axis=1, kind="stable")
    # As many of each candidate's slots as are still wanted, the cheapest candidates first.
    taken = np.cumsum(np.take_along_axis(room, ordered, axis=1), axis=1)
    used = np.diff(np.minimum(taken, partners), axis=1, prepend=0)
    partner_count = used.sum(axis=1)
    mean = (used * np.take_along_axis(joint, ordered, axis=1)).sum(axis=1) / np.maximum(1, partner_count)
    return np.where(slots > 0, mean * partners, np.inf)


def hop_seconds_per_byte(costs: Costs, workers: int) -> FloatArray:
    """(m, m) of a hop that has its nodes' cards for itself, as if all workers were there to fill them; inside on the diagonal."""
    if not costs.railed:
        return costs.seconds_per_byte
    slow = costs.card_slowness(np.arange(len(costs.weight)), np.array(workers))
    per_byte: FloatArray = costs.seconds_per_byte * np.maximum(slow[:, None], slow)
    np.fill_diagonal(per_byte, costs.inside_seconds_per_byte)
    return per_byte


def halo_factor(costs: Costs, volume: ExchangeVolumes, workers: int) -> float:
    """Boundary bytes between two workers with equal shares."""
    pairs = workers * (workers - 1.0 / costs.gpus_per_worker)
    return volume.halo_bytes / pairs if pairs > 0.0 else 0.0


def alone(costs: Costs) -> FloatArray:
    """(m,) seconds per byte of `halo_factor` inside a node with one worker."""
    parts = 1.0 / costs.gpus_per_worker
    return costs.inside_seconds_per_byte * (parts * (1.0 - parts))


def greedy(costs: Costs, slots: IntArray, workers: int, seeds: IntArray, start: IntArray) -> IntArray:
    """One placement per seed, (B, workers) candidates in the order in which they were added; seeds that got stuck are left out.

    costs:  of m candidates
    slots:  (m,) workers that each can take
    seeds:  (B,) first candidates; ignored where `start` is not empty
    start:  (p,) candidates that are taken already (their slots were not counted)
    """
    state = _GreedyState(costs, slots, workers, start[None, :] if len(start) else seeds[:, None], takes_slot=not len(start))
    for _ in range(workers - state.chosen.shape[1]):
        state.extend()
    complete: IntArray = state.chosen[~state.stuck]
    return complete


class _GreedyState:
    """Partial placements of all seeds; row = seed, column = candidate."""

    def __init__(self, costs: Costs, slots: IntArray, workers: int, start: IntArray, takes_slot: bool) -> None:
        self.costs, self.workers = costs, workers
        self.volume = volumes(costs, workers)
        self.chosen: IntArray = start
        count = len(self.chosen)
        self.rows = np.arange(count)
        self.left: IntArray = np.repeat(slots[None, :], count, axis=0)
        self.stuck: BoolArray = np.zeros(count, dtype=np.bool_)
        self.halo_bytes_pair = halo_factor(costs, self.volume, workers)
        self.inner = costs.gpus_per_worker > 1
        shape = (count, len(slots))
        self.per_byte_sum: FloatArray = np.zeros(shape)
        self.members: FloatArray = np.zeros(shape)
        self.nodes: IntArray = np.zeros(count, dtype=np.int64)
        self.inside_latency: FloatArray = np.zeros(count)
        self.inside_per_byte: FloatArray = np.zeros(count)
        self.sharp: IntArray = np.full(count, len(costs.sharp_efficiencies) - 1)
        self.hop_between = hop_seconds_per_byte(costs, workers)
        self.latency_max: FloatArray = np.zeros(shape)
        if self.inner:
            self.latency_max += costs.inside_latency_seconds
        self.hop_latency: FloatArray = np.full(shape, np.inf)
        self.hop_per_byte: FloatArray = np.full(shape, np.inf)
        self.blocked: BoolArray = np.zeros(shape, dtype=np.bool_)
        self.speed_sum: FloatArray = np.zeros(count)
        self.speed_min: FloatArray = np.full(count, np.inf)
        self.ring_latency: FloatArray = np.zeros(count)
        self.ring_per_byte: FloatArray = np.zeros(count)
        self.halo_worst: FloatArray = np.zeros(count)
        for column in range(self.chosen.shape[1]):
            self._absorb(self.chosen[:, column], takes_slot=takes_slot)

    def extend(self) -> None:
        """Add the cheapest candidate to every row that still finds one."""
        objective = self._objective_with_each()
        objective[(self.left <= 0) | self.blocked] = np.inf
        best = np.argmin(objective, axis=1)
        self.stuck |= ~np.isfinite(objective[self.rows, best])
        self.ring_latency = np.maximum(self.ring_latency, self.hop_latency[self.rows, best])
        self.ring_per_byte = np.maximum(self.ring_per_byte, self.hop_per_byte[self.rows, best])
        self.chosen = np.concatenate((self.chosen, best[:, None]), axis=1)
        self._absorb(best, takes_slot=True)

    def _objective_with_each(self) -> FloatArray:
        """(B, m) objective of the whole job as if the placement so far plus one candidate were its fair sample."""
        costs, volume, now = self.costs, self.volume, self.chosen.shape[1] + 1
        if costs.balance is Balance.EQUAL:
            speed = np.minimum(self.speed_min[:, None], costs.flops_per_second[None, :]) * self.workers
        else:
            speed = (self.speed_sum[:, None] + costs.flops_per_second[None, :]) * (self.workers / now)
        halo = np.maximum(self._own_halo((self.workers - 1) / (now - 1)), self.halo_worst[:, None])
        joins = self.members > 0.0
        inside = np.where(joins | self.inner, costs.inside_latency_seconds, 0.0)
        inside_per_byte = np.where(joins | self.inner, costs.inside_seconds_per_byte, 0.0)
        # As many nodes of the whole job as if the members so far were its fair sample.
        nodes = -(-(self.nodes[:, None] + np.where(joins, 0, 1)) * self.workers // now)
        ring = volume.allreduce_seconds(
            nodes,
            np.maximum(self.ring_latency[:, None], self.hop_latency),
            np.maximum(self.inside_latency[:, None], inside),
            np.maximum(self.ring_per_byte[:, None], self.hop_per_byte),
            np.maximum(self.inside_per_byte[:, None], inside_per_byte),
            np.minimum(self.sharp[:, None], costs.sharp_class),
        )
        objective: FloatArray = costs.workload.epoch_flops / speed + (1.0 + costs.communication_weight) * (halo + ring)
        return objective

    def _own_halo(self, scale: float) -> FloatArray:
        """(B, m) boundary seconds of each candidate beside the members, whose links count `scale` times; its node shares a card."""
        costs, together, parts = self.costs, self.members + 1.0, 1.0 / self.costs.gpus_per_worker
        by_card = np.maximum(together, costs.filling_workers) if costs.railed else together
        traffic = scale * by_card * self.per_byte_sum + costs.inside_seconds_per_byte * (parts * (together - parts))
        seconds: FloatArray = self.halo_bytes_pair * traffic + self.volume.rounds * self.latency_max
        return seconds

    def _absorb(self, added: IntArray, takes_slot: bool) -> None:
        """Account for one more member of every row."""
        costs = self.costs
        if takes_slot:
            self.left[self.rows, added] -= 1
        self.speed_sum += costs.flops_per_second[added]
        self.speed_min = np.minimum(self.speed_min, costs.flops_per_second[added])
        latency, hops, per_byte = costs.latency_seconds[added], costs.latency_seconds[added], self.hop_between[added]
        hops[np.arange(len(added)), added] = per_byte[np.arange(len(added)), added] = 0.0
        self.halo_worst = np.maximum(self.halo_worst, self._own_halo(1.0)[self.rows, added])
        joins = self.members[self.rows, added] > 0.0
        self.nodes += np.where(joins, 0, 1)
        self.sharp = np.minimum(self.sharp, costs.sharp_class[added])
        several = joins | self.inner
        self.inside_latency = np.maximum(self.inside_latency, np.where(several, costs.inside_latency_seconds[added], 0.0))
        self.inside_per_byte = np.maximum(self.inside_per_byte, np.where(several, costs.inside_seconds_per_byte[added], 0.0))
        self.members[self.rows, added] += 1.0
        self.per_byte_sum += costs.apart_seconds_per_byte[added]
        np.maximum(self.latency_max, latency, out=self.latency_max)
        np.minimum(self.hop_latency, hops, out=self.hop_latency)
        np.minimum(self.hop_per_byte, per_byte, out=self.hop_per_byte)
        self.blocked |= costs.blocked[added]


def pair_seconds(costs: Costs, workers: int, volume: ExchangeVolumes) -> FloatArray:
    """(m, m) share of the communication that one pair causes when all pairs are like it; +inf where blocked."""
    halo = halo_factor(costs, volume, workers) * costs.seconds_per_byte
    ring = (volume.rounds + volume.ring_latency_factor) * costs.latency_seconds + volume.ring_byte_factor * costs.seconds_per_byte
    return np.where(costs.blocked, np.inf, halo + ring / max(1, workers - 1))
