"""Parts of a large cluster that are worth a close search: the best neighbourhoods beside the fastest nodes. Pure and deterministic."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import volumes
from hyperscale.planner.cost.shares import largest_parts
from hyperscale.planner.problem.machine_costs import cards_left
from hyperscale.planner.problem.placement_problem import Problem

POOL_NODES: Final = 224
"""Largest pool for moderate worker counts: a thorough search takes some tens of milliseconds."""
REPRESENTATIVES: Final = 384
"""Nodes whose surroundings are scored."""
MOST_PAIRS: Final = 2_000_000
"""Links that scoring may read, all representatives together: 384 of 5,000 nodes; of larger clusters fewer are scored."""
PER_DOMAIN: Final = 2
"""Representatives of one narrowest domain: a single one may be the one with a bad link."""
NEIGHBOURHOODS: Final = 4
"""Best surroundings that share a pool."""


class Pools:
    """Pools of one region of the cluster, by worker count; the links of the representatives are read once."""

    def __init__(self, problem: Problem, region: IntArray) -> None:
        """region: (p,) candidates that may be used."""
        self._problem, self._region = problem, region
        self._pools: dict[int, IntArray] = {}
        self._roomy: dict[int, IntArray] = {}
        self._room = problem.slots + np.bincount([candidate for _, candidate in problem.pinned], minlength=len(problem.slots))
        self._far: tuple[IntArray, FloatArray, FloatArray] | None = None

    def pool(self, workers: int) -> IntArray:
        """Candidates, rising, among which `workers` workers should be placed; everything where that is small."""
        bracket = 1 << max(0, workers - 1).bit_length()
        if bracket not in self._pools:
            self._pools[bracket] = self._cut(bracket, workers)
        pool = self._pools[bracket]
        if len(pool) == len(self._region) or self._able_slots(pool, workers) >= workers:
            return pool
        if workers not in self._roomy:
            self._roomy[workers] = np.union1d(pool, self._cut_by_memory(workers))
        return self._roomy[workers]

    def _able_slots(self, pool: IntArray, workers: int) -> int:
        """Slots of `pool` that hold an equal part: with fewer of them, others must hold more, or the job does not fit."""
        return int(self._room[pool][self._limits(pool, workers) >= 1.0 / workers].sum())

    def _limits(self, pool: IntArray, workers: int) -> FloatArray:
        problem = self._problem
        return largest_parts(problem.workload, problem.memory_bytes[pool], workers * problem.demand.gpus, problem.demand.gpus)

    def _cut_by_memory(self, workers: int) -> IntArray:
        """A pool of the candidates that hold an equal part, or where these do not suffice of those with the most memory."""
        limits = self._limits(self._region, workers)
        able = self._region[limits >= 1.0 / workers]
        if self._able_slots(able, workers) >= workers:
            return Pools(self._problem, able).pool(workers)
        return self._region[np.argsort(-limits, kind="stable")[: max(POOL_NODES, 2 * workers)]]

    def _cut(self, bracket: int, workers: int) -> IntArray:
        needed = max(POOL_NODES, 2 * bracket)
        if len(self._region) <= needed:
            return self._region
        slots = self._problem.slots[self._region]
        seeds, latency, per_byte = self._surroundings()
        joint = self._joint_seconds(workers, seeds, latency, per_byte)
        fast = np.lexsort((np.arange(len(slots)), -self._problem.flops_per_second[self._region]))
        take = max(needed // NEIGHBOURHOODS, bracket)
        nearest = np.argsort(joint, axis=1, kind="stable")[:, : max(take, bracket)]
        score = _filled_cost(np.take_along_axis(joint, nearest, axis=1), slots[nearest], workers)
        best = np.lexsort((seeds, score))
        lists = [np.concatenate((seeds[row : row + 1], nearest[row])) for row in best[:NEIGHBOURHOODS]]
        # One neighbourhood holds a large job whole; parts of several would spread it.
        whole = lists[0].tolist()[: bracket if bracket > needed // NEIGHBOURHOODS else 0]
        chosen = list(dict.fromkeys([*whole, *_first_distinct([*lists, fast], needed)]))[:needed]
        pinned = [int(np.flatnonzero(self._region == candidate)[0]) for _, candidate in self._problem.pinned if candidate in self._region]
        return self._region[np.array(sorted({*chosen, *pinned}), dtype=np.int64)]

    def _surroundings(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Representatives (r,) as positions in the region, and their links to every position, (r, p) latency and seconds per byte."""
        if self._far is None:
            problem = self._problem
            seeds = _representatives(problem, self._region)
            nodes = problem.nodes[self._region]
            links = problem.graph.link_costs_between(nodes[seeds], nodes)
            with np.errstate(divide="ignore"):
                per_byte = np.where(links.bandwidth_bytes_per_second > 0, 1.0 / links.bandwidth_bytes_per_second, np.inf)
            left = cards_left(problem.machine, nodes)
            per_byte /= np.minimum(left[seeds][:, None], left)
            self._far = (seeds, links.latency_seconds, per_byte)
        return self._far

    def _joint_seconds(self, workers: int, seeds: IntArray, latency: FloatArray, per_byte: FloatArray) -> FloatArray:
        """(r, p) seconds that each candidate adds as a partner of each representative: its links and its slowness."""
        problem = self._problem
        volume = volumes(problem.costs(self._region[:1]), workers)
        speed = problem.flops_per_second[self._region]
        compute = problem.workload.epoch_flops / (workers * np.minimum(speed[seeds][:, None], speed[None, :]))
        partners = max(1, workers - 1)
        bytes_seconds = (volume.halo_bytes / (workers * partners) + volume.ring_byte_factor / partners) * per_byte
        joint = bytes_seconds + (volume.rounds + volume.ring_latency_factor) / partners * latency + compute / partners
        joint = np.where(np.isfinite(latency) & np.isfinite(per_byte), joint, np.inf)
        joint[np.arange(len(seeds)), seeds] = np.where(
            problem.slots[self._region][seeds] > 1, compute[np.arange(len(seeds)), seeds], np.inf
        )
        return joint


def _representatives(problem: Problem, region: IntArray) -> IntArray:
    """The fastest nodes of every narrowest domain, positions in the region, fastest first; lone nodes stand for themselves."""
    domains = problem.graph.domains[problem.nodes[region]]
    group = np.full(len(region), -1, dtype=np.int64)
    for level in range(domains.shape[1]):
        group = np.where(domains[:, level] >= 0, domains[:, level] + level * (len(problem.graph.nodes) + 1), group)
    fastest = np.lexsort((np.arange(len(region)), -problem.flops_per_second[region]))
    most = max(1, min(REPRESENTATIVES, MOST_PAIRS // len(region)))
    taken: dict[int, int] = {}
    chosen: list[int] = []
    for position in fastest:
        domain = int(group[position])
        if domain >= 0 and taken.get(domain, 0) >= PER_DOMAIN:
            continue
        taken[domain] = taken.get(domain, 0) + 1
        chosen.append(int(position))
        if len(chosen) == most:
            break
    return np.array(chosen, dtype=np.int64)


def _filled_cost(joint: FloatArray, slots: IntArray, workers: int) -> FloatArray:
    """(r,) cost of the first workers - 1 slots of each row (r, p); +inf where the row has too few."""
    before = np.cumsum(slots, axis=1) - slots
    used = np.clip(workers - 1 - before, 0, slots)
    cost = np.where(used > 0, used * joint, 0.0).sum(axis=1)
    enough = used.sum(axis=1) >= workers - 1
    return np.where(enough & np.isfinite(cost), cost if workers > 1 else joint.min(axis=1), np.inf)


def _first_distinct(lists: list[IntArray], count: int) -> list[int]:
    """Up to `count` distinct members, one of each list in turn."""
    chosen: dict[int, None] = {}
    for rank in range(max(len(members) for members in lists)):
        for members in lists:
            if rank < len(members):
                chosen.setdefault(int(members[rank]), None)
            if len(chosen) >= count:
                return list(chosen)
    return list(chosen)


def pinned_in(problem: Problem, pool: IntArray) -> tuple[IntArray, IntArray]:
    """Ranks that stay, and their positions in the pool."""
    ranks = np.array([rank for rank, _ in problem.pinned], dtype=np.int64)
    start = np.searchsorted(pool, np.array([candidate for _, candidate in problem.pinned], dtype=np.int64))
    return ranks, start
