"""Devices into groups of equal size that form a pipeline, under DT-FM's cost (arXiv 2206.01288, section 3). Pure, deterministic by seed.

    cost = max over devices Σ gradient cost to the others of its group  +  2 × cheapest open path through the groups,

where two groups are as far apart as the largest pair of their best matching. Search: every way to deal the devices, in the order in
which clustering joins them, into runs of equally made groups (`dealt`), then exchange of two devices and annealing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.assign.assign import PipeSearch
from hyperscale.planner.assign.kernel_limits import MOST_GROUPS, MOST_MEMBERS
from hyperscale.planner.assign.order import shortest_path
from hyperscale.planner.assign.search import never

ROUNDS: Final = 8
"""Annealings."""
STEPS: Final = 10_000
"""Proposals of one annealing."""
DEALS: Final = 512
"""Ways of dealing that are looked at."""
KEPT: Final = 4
"""Deals that annealing begins from."""
HOT: Final = 0.08
"""First temperature over the best cost dealt."""
COLD: Final = 0.0005
"""Last temperature over it."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Devices and the number of groups. Raises ValueError where the groups cannot be of equal size or are more than 12."""

    gradient: FloatArray
    """(devices, devices), seconds: what device i needs to exchange its part of the gradients with j, there and back; zero diagonal."""
    activation: FloatArray
    """(devices, devices), seconds: what device i needs to send a batch's activations to j; zero diagonal."""
    groups: int

    def __post_init__(self) -> None:
        devices = len(self.gradient)
        if not 2 <= self.groups <= MOST_GROUPS or devices % self.groups or not 1 <= self.size <= MOST_MEMBERS:
            raise ValueError(f"{devices} devices cannot form {self.groups} equal groups of at most 64")
        if not np.array_equal(self.gradient, self.gradient.T) or not np.array_equal(self.activation, self.activation.T):
            raise ValueError("costs must be symmetric")
        if not np.isfinite(self.gradient).all() or not np.isfinite(self.activation).all():
            raise ValueError("costs must be finite")

    @property
    def size(self) -> int:
        """Devices of a group."""
        return len(self.gradient) // self.groups

    def levels(self) -> tuple[FloatArray, IntArray]:
        """Distinct activation costs, ascending, and the place of every pair's among them, (devices, devices)."""
        off = ~np.eye(len(self.activation), dtype=np.bool_)
        values = np.unique(self.activation[off])
        return values, np.searchsorted(values, np.where(off, self.activation, values[0])).astype(np.int64)

    def kinds(self) -> IntArray:
        """(devices,): devices of one kind may be exchanged without changing any cost."""
        kind = np.full(len(self.gradient), -1, dtype=np.int64)
        for i in range(len(kind)):
            alike = [j for j in range(i) if kind[j] == j and self._alike(i, j)]
            kind[i] = alike[0] if alike else i
        return kind

    def _alike(self, i: int, j: int) -> bool:
        others = np.ones(len(self.gradient), dtype=np.bool_)
        others[[i, j]] = False
        return bool(
            np.array_equal(self.gradient[i, others], self.gradient[j, others])
            and np.array_equal(self.activation[i, others], self.activation[j, others])
        )


@dataclasses.dataclass(frozen=True)
class Piped:
    """An answer."""

    group: IntArray
    """(devices,): the group of every device, numbered along the pipeline."""
    cost: float
    """Seconds."""


def from_links(
    delay_seconds: FloatArray, bits_per_second: FloatArray, gradient_bytes: float, activation_bytes: float, groups: int
) -> Pipeline:
    """Costs as DT-FM computes them: 2 (delay + gradient / size / bandwidth) and delay + activation / bandwidth; no diagonal."""
    size = len(delay_seconds) // groups
    off = ~np.eye(len(delay_seconds), dtype=np.bool_)
    bits = np.where(off, bits_per_second, 1.0)
    gradient = np.where(off, 2.0 * (delay_seconds + gradient_bytes * 8.0 / size / bits), 0.0)
    activation = np.where(off, delay_seconds + activation_bytes * 8.0 / bits, 0.0)
    return Pipeline(np.ascontiguousarray(gradient), np.ascontiguousarray(activation), groups)


def place(pipeline: Pipeline, seed: int = 0, expired: Callable[[], bool] = never, rounds: int = ROUNDS, steps: int = STEPS) -> Piped:
    """The best groups found before `expired` says so; the first deal whatever it says."""
    values, rank = pipeline.levels()
    kinds = pipeline.kinds()

    def begin(group: IntArray) -> PipeSearch:
        return PipeSearch(pipeline.gradient, rank, values, kinds, group, pipeline.groups)

    starts: list[tuple[float, tuple[int, ...]]] = []
    for group in itertools.islice(dealt(pipeline), DEALS):
        starts.append((begin(group).score(), tuple(int(part) for part in group)))
        if expired():
            break
    starts = sorted(set(starts))[:KEPT]
    best = starts[0]
    rng = np.random.default_rng(seed)
    for turn in range(rounds):
        if expired():
            break
        search = begin(np.array(starts[turn % len(starts)][1], dtype=np.int64))
        search.anneal(steps, HOT * starts[0][0], COLD * starts[0][0], int(rng.integers(1 << 62)))
        search.descend()
        best = min(best, (search.score(), tuple(int(part) for part in search.group)))
    return _in_order(begin(np.array(best[1], dtype=np.int64)))


def _in_order(search: PipeSearch) -> Piped:
    """Groups numbered along the cheapest path."""
    stops, _ = shortest_path(search.pair_costs())
    number = np.empty(len(stops), dtype=np.int64)
    number[list(stops)] = np.arange(len(stops))
    return Piped(number[search.group], search.score())


def dealt(pipeline: Pipeline) -> Iterator[IntArray]:
    """Groups in runs: a run of m groups takes the next m × size devices of a clustering's order and deals them out in turn.

    Equally made groups are matched over short links only; runs of one group are whole clusters. Every composition of the number of
    groups into runs is dealt from two orders: largest clusters first and smallest first.
    """
    orders = [joined(pipeline, largest_first=True), joined(pipeline, largest_first=False)]
    for runs in _compositions(pipeline.groups):
        for order in orders:
            group = np.empty(len(order), dtype=np.int64)
            done, first = 0, 0
            for run in runs:
                part = order[first : first + run * pipeline.size]
                group[part] = done + np.arange(len(part)) % run
                done, first = done + run, first + len(part)
            yield group


def joined(pipeline: Pipeline, largest_first: bool) -> IntArray:
    """Devices in the order in which single linkage over the activation costs joins them; devices of one cluster stand together."""
    clusters: list[list[int]] = [[device] for device in range(len(pipeline.activation))]
    values, rank = pipeline.levels()
    for level in range(len(values)):
        ranked = sorted(clusters, key=lambda members: (-len(members) if largest_first else len(members), members[0]))
        clusters = _merged(ranked, rank <= level)
        if len(clusters) == 1:
            break
    return np.array([device for cluster in clusters for device in cluster], dtype=np.int64)


def _merged(clusters: list[list[int]], linked: BoolArray) -> list[list[int]]:
    """Clusters joined where any of their devices are linked, in the order given; linked: (devices, devices)."""
    merged: list[list[int]] = []
    for cluster in clusters:
        near, apart = list[list[int]](), list[list[int]]()
        for other in merged:
            (near if linked[np.ix_(other, cluster)].any() else apart).append(other)
        merged = [*apart, [device for other in near for device in other] + cluster]
    return merged


def _compositions(total: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as an ordered sum, few runs first."""
    for cuts in range(total):
        for places in itertools.combinations(range(1, total), cuts):
            ends = (0, *places, total)
            yield tuple(after - before for before, after in itertools.pairwise(ends))
