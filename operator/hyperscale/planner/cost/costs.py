"""What candidate nodes cost for one job, and what depends on its worker count alone. Pure.

A worker is a pod; each of its GPUs is one rank. Figures are per worker or per pair; formulas: docs/explanation/planner.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.cost.collective_tables import by_fours, collective_table, fours_of, winners, winners_first

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
    """(m, m) finite everywhere; the diagonal is the inside of a node, between two of its GPUs."""
    seconds_per_byte: FloatArray
    """(m, m) inverse bandwidth, finite everywhere; the diagonal likewise. Off it, all ranks of a node share what a pair of nodes has."""
    blocked: BoolArray
    """(m, m) True where two nodes cannot talk."""
    workload: WorkloadProfile
    gpus_per_worker: int
    balance: Balance
    communication_weight: float
    rails: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(m,) GPUs of a node that must send at once to fill its network cards; empty where one GPU fills them everywhere."""
    uplink_domains: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    """(levels, m) domain of each candidate at each level with limited uplinks, -1 where it has none."""
    uplink_seconds_per_byte: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    """(levels, domains) inverse of what leaves a domain, one way, all its nodes together; 0 where unlimited."""

    sharp_efficiency: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(m,) of NVLink SHARP, 0 where a node's switches do not add up; empty where none do. The least of a placement's nodes counts."""

    @property
    def links(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """(m, m) latency, seconds per byte, and True where two nodes cannot talk."""
        return self.latency_seconds, self.seconds_per_byte, self.blocked

    @cached_property
    def filling_workers(self) -> FloatArray:
        """(m,) workers of one node whose GPUs fill its network cards; with w below it they get w / filling of what the cards carry."""
        rails = self.rails if len(self.rails) else np.ones(len(self.flops_per_second))
        filling: FloatArray = np.ascontiguousarray(rails / self.gpus_per_worker)
        return filling

    @cached_property
    def railed(self) -> bool:
        """True where one worker alone may leave some node's cards partly idle."""
        return bool((self.filling_workers > 1.0).any())

    @cached_property
    def sharp_efficiencies(self) -> tuple[float, ...]:
        """Different efficiencies of NVLink SHARP, rising: a class of nodes each."""
        return tuple(np.unique(self.sharp_efficiency).tolist()) or (0.0,)

    @cached_property
    def sharp_class(self) -> IntArray:
        """(m,) place of each node's efficiency in `sharp_efficiencies`; the least class of a placement's nodes is its own."""
        if not len(self.sharp_efficiency):
            return np.zeros(len(self.flops_per_second), dtype=np.int64)
        return np.searchsorted(self.sharp_efficiencies, self.sharp_efficiency)

    @cached_property
    def compiled_sharp_class(self) -> NDArray[np.int32]:
        """(m,) the same as compiled searches read it."""
        return np.ascontiguousarray(self.sharp_class, dtype=np.int32)

    def card_slowness(self, nodes: IntArray, counts: IntArray) -> FloatArray:
        """How many times slower than full the cards are of `nodes`, candidates of any shape, with `counts` workers each."""
        slowness: FloatArray = np.maximum(1.0, self.filling_workers[nodes] / np.maximum(counts, 1))
        return slowness

    def hop_range(self, workers: int) -> FloatArray:
        """(2, 4) no hop has less and none has more: latency between nodes, inside one, seconds per byte between, however shared, inside."""
        hops = self._plain_hop_range.copy()
        hops[1, 2] = workers * max(hops[1, 2], float(np.max(self.uplink_seconds_per_byte, initial=0.0)))
        return hops

    @cached_property
    def _plain_hop_range(self) -> FloatArray:
        """(2, 4) the same with one hop for each card, as few ranks as may be there."""
        open_pairs = ~self.blocked
        np.fill_diagonal(open_pairs, False)
        latency, per_byte = (figures[open_pairs] for figures in (self.latency_seconds, self.seconds_per_byte))
        slowest = per_byte.max(initial=0.0) * float(np.max(self.filling_workers, initial=1.0))
        between = [latency.min(initial=latency.max(initial=0.0)), latency.max(initial=0.0)]
        apart = [per_byte.min(initial=slowest), slowest]
        inside, within = self.inside_latency_seconds, self.inside_seconds_per_byte
        return np.array([between, [inside.min(), inside.max()], apart, [within.min(), within.max()]]).T.copy()

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
    def inside_latency_seconds(self) -> FloatArray:
        """(m,) between two GPUs of each node."""
        return np.ascontiguousarray(np.diagonal(self.latency_seconds))

    @cached_property
    def inside_seconds_per_byte(self) -> FloatArray:
        """(m,) likewise."""
        return np.ascontiguousarray(np.diagonal(self.seconds_per_byte))

    @cached_property
    def apart_seconds_per_byte(self) -> FloatArray:
        """(m, m) between different nodes; 0 on the diagonal."""
        apart = np.array(self.seconds_per_byte, dtype=np.float64, order="C")
        np.fill_diagonal(apart, 0.0)
        return apart

    @cached_property
    def weighted_seconds_per_byte(self) -> FloatArray:
        """(m, m) between different nodes, times the weight of the column; 0 on the diagonal."""
        weighted: FloatArray = self.apart_seconds_per_byte * self.weight
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
    def volumes_by_workers(self) -> dict[int, ExchangeVolumes]:
        """Those asked for so far; see `volumes`."""
        return {}

    @cached_property
    def compiled(self) -> dict[tuple[int, bytes], Any]:
        """What compiled searches keep here by worker count and slots: kernels (`kernel_for`), and without slots `compiled_tables`."""
        return {}

    def ranks(self, workers: int) -> int:
        """MPI processes of that number of workers, one for each GPU."""
        return workers * self.gpus_per_worker

    def slower_copies(self, factors: FloatArray) -> Costs:
        """The same nodes c times, each pair of copy i slower by `factors[i]`; factors: (c, m, m).

        Copy i has the candidates from i m on. The factors are so near 1 that the same algorithms may be the fastest. Pairs of nodes of two
        copies have no meaning.
        """
        copies, nodes = factors.shape[:2]
        each = np.arange(copies)

        def blocks(figures: FloatArray) -> FloatArray:
            of_pairs = np.zeros((copies, nodes, copies, nodes))
            of_pairs[each, :, each, :] = figures
            return of_pairs.reshape(copies * nodes, copies * nodes)

        slower = replace(
            self,
            flops_per_second=np.tile(self.flops_per_second, copies),
            memory_bytes=np.tile(self.memory_bytes, copies),
            latency_seconds=blocks(self.latency_seconds * factors),
            seconds_per_byte=blocks(self.seconds_per_byte * factors),
            blocked=np.tile(self.blocked, (copies, copies)),
            rails=np.tile(self.rails, copies),
            uplink_domains=np.tile(self.uplink_domains, copies),
            sharp_efficiency=np.tile(self.sharp_efficiency, copies),
        )
        slower.volumes_by_workers.update(self.volumes_by_workers)
        return slower

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
            self.communication_weight,
            self.rails[members] if len(self.rails) else self.rails,
            self.uplink_domains[:, members] if len(self.uplink_domains) else self.uplink_domains,
            self.uplink_seconds_per_byte,
            self.sharp_efficiency[members] if len(self.sharp_efficiency) else self.sharp_efficiency,
        )


@dataclass(frozen=True)
class ExchangeVolumes:
    """Figures of one epoch that depend on the worker count alone."""

    steps: int
    rounds: int
    """Exchanges of boundary data."""
    halo_bytes: float
    """Of all ranks together."""
    ring_latency_factor: float
    """Seconds of latency of the slowest hop -> seconds of allreduce, were all hops of a ring alike: what searches are guided by."""
    ring_byte_factor: float
    """Seconds per byte of the slowest hop, likewise."""
    collectives: FloatArray = field(compare=False)
    """(classes, workers + 1, algorithms, 5) by class (`Costs.sharp_class`) and number of nodes; the fastest counts: see `Collective`.

    Slowest latency between nodes, slowest inside, seconds per byte of the most loaded hop between nodes, and inside -> seconds of an
    epoch's allreduces, of which the slower of the last two counts; then seconds whatever the hops."""

    def allreduce_seconds(
        self,
        nodes: IntArray,
        between: FloatArray,
        inside: FloatArray,
        per_byte: FloatArray,
        inside_per_byte: FloatArray,
        sharp: IntArray | int = -1,
    ) -> FloatArray:
        """Seconds (...) of an epoch's allreduces over `nodes` nodes, with these slowest hops.

        sharp: class of each placement; without it the highest, which is never slower
        """
        terms = self.collectives[sharp, nodes]
        transfer = np.maximum(terms[..., 2] * per_byte[..., None], terms[..., 3] * inside_per_byte[..., None])
        waits = terms[..., 4] + terms[..., 0] * between[..., None] + terms[..., 1] * inside[..., None]
        seconds: FloatArray = (waits + transfer).min(axis=-1)
        return seconds


def volumes(costs: Costs, workers: int) -> ExchangeVolumes:
    """Steps, rounds and bytes of an epoch with `workers` workers."""
    volumes_of_one = costs.volumes_by_workers.get(workers)
    if volumes_of_one is None:
        volumes_of_one = costs.volumes_by_workers[workers] = _volumes(costs, workers)
    return volumes_of_one


def _volumes(costs: Costs, workers: int) -> ExchangeVolumes:
    workload, gpus, ranks = costs.workload, costs.gpus_per_worker, costs.ranks(workers)
    steps = workload.steps(workers, gpus)
    if ranks == 1:
        return ExchangeVolumes(steps, 0, 0.0, 0.0, 0.0, np.zeros((len(costs.sharp_efficiencies), 2, 1, 5)))
    gradients = steps * workload.gradient_bytes
    return ExchangeVolumes(
        steps=steps,
        rounds=steps * workload.exchanges_per_step,
        # Parts beyond the ranks are merged: a rank exchanges nothing with itself.
        halo_bytes=workload.halo_bytes(ranks, workers, gpus),
        ring_latency_factor=steps * 2.0 * (ranks - 1),
        ring_byte_factor=steps * 2.0 * (ranks - 1) / ranks * workload.gradient_bytes,
        collectives=collective_table(ranks, workers, costs.sharp_efficiencies) * (steps, steps, gradients, gradients, steps),
    )


def compiled_tables(costs: Costs, workers: int) -> tuple[FloatArray, FloatArray]:
    """Return what compiled searches read, twice (classes (workers + 1), fours, 5, 4), of four algorithms one figure beside the other.

    First the table of `ExchangeVolumes.collectives`, then floors: no algorithm over that number of nodes or more has smaller figures than
    the least of these. Algorithms that are never the fastest for that many nodes are left out; their places take forever.
    """
    table = volumes(costs, workers).collectives
    classes, rows = table.shape[:2]
    flat = table.reshape(classes * rows, *table.shape[2:])
    kept = winners(flat, costs.hop_range(workers))
    by_class = kept.reshape(classes, rows, -1)
    lasting = np.logical_or.accumulate(by_class[:, ::-1], axis=1)[:, ::-1].reshape(kept.shape)
    floors = np.minimum.accumulate(np.where(by_class[..., None], table, np.inf)[:, ::-1], axis=1)[:, ::-1].reshape(flat.shape)
    fastest, least = winners_first(flat, kept), winners_first(floors, lasting)
    fours = fours_of(max(fastest.shape[1], least.shape[1]))
    return by_fours(fastest, fours), by_fours(least, fours)
