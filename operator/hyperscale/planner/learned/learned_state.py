"""Placements that grow worker by worker, many at once, with what every candidate would add: the same figures as greedy's. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, halo_seconds, shares, volumes
from hyperscale.planner.search.greedy import halo_factor, hop_seconds_per_byte, pair_seconds

LARGEST: Final = 1e30
"""Stands for +inf where sums of pairs are sorted."""


class Added(NamedTuple):
    """Seconds of the whole job as if a placement plus one candidate were its fair sample; each (B, m)."""

    compute: FloatArray
    halo: FloatArray
    """Of the slowest rank, the candidate included."""
    ring: FloatArray
    own_traffic: FloatArray
    """Boundary bytes of the candidate itself."""
    own_wait: FloatArray
    """Latency of the candidate itself."""
    hop: FloatArray
    """Ring over the candidate's best hop alone."""
    objective: FloatArray
    """+inf where the candidate has no slot left or cannot reach a member."""


class Surroundings:
    """What one worker count makes of the pairs of m candidates; shared by all states."""

    def __init__(self, costs: Costs, slots: IntArray, workers: int) -> None:
        """costs: of m candidates · slots: (m,) workers that each can take · workers: of the job, at least 2."""
        self.costs, self.slots, self.workers = costs, slots, workers
        self.volume = volumes(costs, workers)
        self.compute: FloatArray = costs.workload.epoch_flops / (workers * costs.flops_per_second)
        """(m,) of a worker with an equal share on each."""
        pair = pair_seconds(costs, workers, self.volume)
        joint = pair + np.maximum(self.compute[None, :], self.compute[:, None]) / max(1, workers - 1)
        np.fill_diagonal(joint, np.where(slots > 1, np.diag(joint), np.inf))
        self.joint: FloatArray = joint
        """(m, m) seconds that a pair adds: its links and its slower member; the diagonal is two workers on one node."""
        self.halo_bytes_pair = halo_factor(costs, self.volume, workers)
        self.inner = costs.gpus_per_worker > 1
        self.hop_per_byte = hop_seconds_per_byte(costs, workers)

    def sets(self, chosen: IntArray, each: IntArray, rest: IntArray) -> FloatArray:
        """(c,) objective of `chosen` (s,) with one of `each` (c,) and those of its row of `rest` (c, r); +inf where it cannot work.

        The ring counts with its bound: no ring beats the second best link of any of its members.
        """
        costs, volume, count = self.costs, self.volume, len(each)
        sets = np.concatenate((np.broadcast_to(chosen, (count, len(chosen))), each[:, None], rest), axis=1)
        workers = sets.shape[1]
        share, fits = shares(costs, sets)
        rows, columns = sets[:, :, None], sets[:, None, :]
        own = np.arange(workers)
        halo, apart = halo_seconds(costs, sets, share, volume)
        latency, per_byte = costs.latency_seconds[rows, columns], costs.seconds_per_byte[rows, columns]
        latency[:, own, own] = per_byte[:, own, own] = 0.0
        # Zero stands on the diagonal, so the second best link is the third smallest number.
        place = min(2, workers - 1)
        second = (
            np.partition(latency, place, axis=2)[:, :, place].max(axis=1),
            np.partition(per_byte, place, axis=2)[:, :, place].max(axis=1),
        )
        nodes = 1 + (np.diff(np.sort(sets, axis=1), axis=1) != 0).sum(axis=1)
        none = np.zeros(count)
        ring = volume.allreduce_seconds(nodes, second[0], none, second[1], none, costs.sharp_class[sets].min(axis=1))
        arithmetic = share * costs.workload.epoch_flops / costs.flops_per_second[sets]
        seconds = (arithmetic + halo).max(axis=1) + ring + costs.communication_weight * (halo.max(axis=1) + ring)
        return np.where(fits & ~apart, seconds, np.inf)


class ConstructorState:
    """B partial placements; row = placement, column = candidate."""

    def __init__(self, around: Surroundings, start: IntArray, takes_slot: bool = True) -> None:
        """start: (B, s) members so far, s may be 0 · takes_slot: False where their slots were not counted (pinned ranks)."""
        self.around = around
        count, shape = len(start), (len(start), len(around.slots))
        self.rows = np.arange(count)
        self.chosen: IntArray = start[:, :0]
        self.left: IntArray = np.repeat(around.slots[None, :], count, axis=0)
        self.members: IntArray = np.zeros(shape, dtype=np.int64)
        self.nodes: IntArray = np.zeros(count, dtype=np.int64)
        self.inside_latency: FloatArray = np.zeros(count)
        self.inside_per_byte: FloatArray = np.zeros(count)
        self.per_byte_sum: FloatArray = np.zeros(shape)
        self.latency_max: FloatArray = np.zeros(shape)
        if around.inner:
            self.latency_max += around.costs.inside_latency_seconds
        self.hop_latency: FloatArray = np.full(shape, np.inf)
        self.hop_per_byte: FloatArray = np.full(shape, np.inf)
        self.joint_sum: FloatArray = np.zeros(shape)
        self.blocked: BoolArray = np.zeros(shape, dtype=np.bool_)
        self.speed_sum: FloatArray = np.zeros(count)
        self.speed_min: FloatArray = np.full(count, np.inf)
        self.ring_latency: FloatArray = np.zeros(count)
        self.ring_per_byte: FloatArray = np.zeros(count)
        self.halo_worst: FloatArray = np.zeros(count)
        for column in range(start.shape[1]):
            self.add(start[:, column], takes_slot)

    @property
    def size(self) -> int:
        """Workers placed so far."""
        return int(self.chosen.shape[1])

    def open(self) -> BoolArray:
        """(B, m) candidates that have a slot left and reach every member."""
        free: BoolArray = (self.left > 0) & ~self.blocked
        return free

    def added(self) -> Added:
        """What each candidate would make of each placement; for placements of at least one worker."""
        around, costs, volume = self.around, self.around.costs, self.around.volume
        now = self.size + 1
        if costs.balance is Balance.EQUAL:
            speed = np.minimum(self.speed_min[:, None], costs.flops_per_second[None, :]) * around.workers
        else:
            speed = (self.speed_sum[:, None] + costs.flops_per_second[None, :]) * (around.workers / now)
        traffic = self._traffic((around.workers - 1) / self.size)
        wait = volume.rounds * self.latency_max
        halo = np.maximum(traffic + wait, self.halo_worst[:, None])
        joins = self.members > 0
        inside = np.where(joins | around.inner, costs.inside_latency_seconds, 0.0)
        inside_per_byte = np.where(joins | around.inner, costs.inside_seconds_per_byte, 0.0)
        nodes = -(-(self.nodes[:, None] + np.where(joins, 0, 1)) * around.workers // now)
        sharp = np.minimum(
            costs.sharp_class[self.chosen].min(axis=1, initial=len(costs.sharp_efficiencies) - 1)[:, None], costs.sharp_class
        )
        hop = volume.allreduce_seconds(nodes, self.hop_latency, inside, self.hop_per_byte, inside_per_byte, sharp)
        ring = volume.allreduce_seconds(
            nodes,
            np.maximum(self.ring_latency[:, None], self.hop_latency),
            np.maximum(self.inside_latency[:, None], inside),
            np.maximum(self.ring_per_byte[:, None], self.hop_per_byte),
            np.maximum(self.inside_per_byte[:, None], inside_per_byte),
            sharp,
        )
        compute = costs.workload.epoch_flops / speed
        objective = compute + (1.0 + costs.communication_weight) * (halo + ring)
        return Added(compute, halo, ring, traffic, wait, hop, np.where(self.open(), objective, np.inf))

    def _traffic(self, scale: float) -> FloatArray:
        """(B, m) seconds of each candidate's boundary bytes, links to the members counted `scale` times; its node shares a card."""
        costs, together, parts = self.around.costs, self.members + 1.0, 1.0 / self.around.costs.gpus_per_worker
        by_card = np.maximum(together, costs.filling_workers) if costs.railed else together
        seconds: FloatArray = scale * by_card * self.per_byte_sum + costs.inside_seconds_per_byte * (parts * (together - parts))
        return self.around.halo_bytes_pair * seconds

    def ahead(self) -> tuple[FloatArray, IntArray]:
        """What each candidate would still bring: (B, m) pair seconds of the workers after it, and those workers, (B, m, rest) candidates.

        They are the cheapest by their links to it and to all members; LARGEST or more where fewer are left.
        """
        rest = self.around.workers - self.size - 1
        count, size = self.left.shape
        if rest <= 0:
            return np.zeros((count, size)), np.zeros((count, size, 0), dtype=np.int64)
        room = np.repeat(self.left[:, None, :], size, axis=1)
        room[:, np.arange(size), np.arange(size)] -= 1
        cost = self.around.joint[None] + self.joint_sum[:, None, :]
        cost = np.where((room > 0) & (cost < LARGEST), cost, LARGEST)
        kept = min(rest, size)
        nearest: IntArray = np.argpartition(cost, kept - 1, axis=2)[:, :, :kept]
        near = np.take_along_axis(cost, nearest, axis=2)
        if kept < rest or bool((self.left > 1).any()):
            filled = _filled(near, np.take_along_axis(room, nearest, axis=2), rest)
            enough = filled < kept
            nearest = np.take_along_axis(nearest, np.minimum(filled, kept - 1), axis=2)
            near = np.where(enough, np.take_along_axis(cost, nearest, axis=2), LARGEST)
        seconds: FloatArray = near.sum(axis=2)
        return seconds, nearest

    def add(self, added: IntArray, takes_slot: bool = True) -> None:
        """One more member (B,) of every placement."""
        around, costs, volume = self.around, self.around.costs, self.around.volume
        rows = self.rows
        if takes_slot:
            self.left[rows, added] -= 1
        if self.size:
            self.ring_latency = np.maximum(self.ring_latency, self.hop_latency[rows, added])
            self.ring_per_byte = np.maximum(self.ring_per_byte, self.hop_per_byte[rows, added])
        own = self._traffic(1.0)[rows, added] + volume.rounds * self.latency_max[rows, added]
        self.halo_worst = np.maximum(self.halo_worst, own)
        self.chosen = np.concatenate((self.chosen, added[:, None]), axis=1)
        joins = self.members[rows, added] > 0
        self.nodes = self.nodes + np.where(joins, 0, 1)
        several = joins | around.inner
        self.inside_latency = np.maximum(self.inside_latency, np.where(several, costs.inside_latency_seconds[added], 0.0))
        self.inside_per_byte = np.maximum(self.inside_per_byte, np.where(several, costs.inside_seconds_per_byte[added], 0.0))
        self.members[rows, added] += 1
        speed = costs.flops_per_second[added]
        self.speed_sum = self.speed_sum + speed
        self.speed_min = np.minimum(self.speed_min, speed)
        latency, hops, per_byte = costs.latency_seconds[added], costs.latency_seconds[added], around.hop_per_byte[added]
        hops[rows, added] = per_byte[rows, added] = 0.0
        self.per_byte_sum += costs.apart_seconds_per_byte[added]
        self.joint_sum += around.joint[added]
        np.maximum(self.latency_max, latency, out=self.latency_max)
        np.minimum(self.hop_latency, hops, out=self.hop_latency)
        np.minimum(self.hop_per_byte, per_byte, out=self.hop_per_byte)
        self.blocked |= costs.blocked[added]


def _filled(cost: FloatArray, room: IntArray, rest: int) -> IntArray:
    """(B, m, rest) which of the last axis of `cost` (B, m, kept) each of `rest` workers gets, the cheapest with `room` first.

    `kept` where there is none left.
    """
    order = np.argsort(cost, axis=2, kind="stable")
    usable = np.where(cost < LARGEST, np.minimum(room, rest), 0)
    upto = np.cumsum(np.take_along_axis(usable, order, axis=2), axis=2)
    count, size, kept = cost.shape
    # One search for all rows: every row's sums are lifted above those of the row before.
    lift = (np.arange(count * size) * (rest * kept + rest + 1))[:, None]
    places = np.searchsorted((upto.reshape(-1, kept) + lift).ravel(), (np.arange(rest)[None, :] + lift).ravel(), side="right")
    place = np.minimum(places.reshape(-1, rest) - (np.arange(count * size) * kept)[:, None], kept)
    padded = np.concatenate((order.reshape(-1, kept), np.full((count * size, 1), kept)), axis=1)
    filled: IntArray = np.take_along_axis(padded, place, axis=1).reshape(count, size, rest)
    return filled
