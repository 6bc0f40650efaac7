"""Seeded streams of jobs: a cluster of one of the families, jobs of unlike size and shape, arrivals at a given load. Pure arrays.

Work is log-normal (a few large jobs hold most); boundary data and allreduce each take 2 to 160 % of the arithmetic with 4 workers,
latency 0.2 to 30 %; half of the jobs are sampled (many steps an epoch, fewer with more workers), half train the full graph. How volumes
change with the worker count is the product's own model (`hyperscale.model.workload`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.learn.topologies import Topology, generate
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import UNREACHABLE_SECONDS

FAMILIES: Final = ("geo", "fattree", "zones", "random", "wan")
COUNTS: Final = (1, 2, 4, 6, 8, 12)
"""Worker counts that jobs may have."""
REFERENCE: Final = 4
"""Workers for which the parts of a job's time are drawn."""
LEAST_NODES: Final = 16
MOST_NODES: Final = 32
MEDIAN_SECONDS: Final = 600.0
"""Arithmetic of the median job with the reference count."""
SIGMA: Final = 1.2
"""Of the logarithm of the work."""
LEAST_SLOTS: Final = 4
"""Workers that a known cluster holds, also with machines drained; with fewer there is little to decide."""
DRAINED_PART: Final = 10
"""Of this number of machines of a known cluster one may be away."""
FIGURES: Final = 6
"""Rounds, halo bytes, ring latency factor, ring byte factor, operations, overhead."""


@dataclass(frozen=True)
class Conditions:
    """What a stream is like, its seed aside."""

    family: str
    load: float
    """Arrival rate × mean cheapest area (on a random half of the nodes) / nodes."""
    jobs: int = 150
    noise: float = 0.0
    """Durations are known to ± this part."""
    contention: bool = False
    """Jobs that cross the same uplink slow each other's communication."""
    starvation_runs: float = 0.0
    """A job that has waited for this number of mean runs starts first; 0: never."""
    communication_weight: float = 0.1
    """λ of the placement."""
    nodes: int = 0
    """Of the cluster; 0: drawn."""


@dataclass(frozen=True)
class SimulatedNodes:
    """A cluster of n nodes for one worker each; a machine with room for several is as many nodes."""

    speed: FloatArray
    """(n,) floating-point operations a second of a worker."""
    latency_seconds: FloatArray
    """(n, n) one way; the diagonal is inside the node."""
    seconds_per_byte: FloatArray
    """(n, n)"""
    blocked: BoolArray
    """(n, n) True where two nodes cannot talk; there the figures mean nothing."""
    domain: IntArray
    """(n,) number of the widest domain with a border inside the cluster; −1 for all where there is none."""
    machine: IntArray
    """(n,) number of the machine."""

    @property
    def machines(self) -> int:
        """How many."""
        return len(np.unique(self.machine))

    def with_workers(self, count: int) -> SimulatedNodes:
        """The same machines with room for `count` workers each, which talk inside it as fast as its one worker did with itself."""
        places = np.repeat(np.arange(len(self.speed)), count)
        pairs = np.ix_(places, places)
        among = self.latency_seconds[pairs], self.seconds_per_byte[pairs], self.blocked[pairs]
        return SimulatedNodes(self.speed[places], *among, self.domain[places], self.machine[places])

    def some_drained(self, rng: np.random.Generator) -> SimulatedNodes:
        """Without up to a tenth of its machines, of few machines without one: nodes are drained, and the agent still decides."""
        machines = np.unique(self.machine)
        away = rng.choice(machines, int(rng.integers(0, max(1, len(machines) // DRAINED_PART) + 1)), replace=False)
        kept = np.flatnonzero(~np.isin(self.machine, away))
        if len(kept) < LEAST_SLOTS:
            return self
        pairs = np.ix_(kept, kept)
        among = self.latency_seconds[pairs], self.seconds_per_byte[pairs], self.blocked[pairs]
        return SimulatedNodes(self.speed[kept], *among, self.domain[kept], self.machine[kept])


@dataclass(frozen=True)
class Drawn:
    """One seed's cluster and jobs; see `Stream` for the shapes."""

    speed: FloatArray
    latency: FloatArray
    per_byte: FloatArray
    domain: IntArray
    weights: FloatArray
    noise: FloatArray
    equal: BoolArray
    workers: IntArray
    figures: FloatArray
    gaps: FloatArray
    half: BoolArray


@dataclass(frozen=True)
class RecordedJobs:
    """What a trace says of its jobs, in order of arrival; the rest is drawn."""

    gaps: FloatArray
    """(J,) from the arrival before; only their ratios count, the load sets the scale."""
    work_seconds: FloatArray
    """(J,) arithmetic with the reference count on nodes of middling speed."""
    low: IntArray
    """(J,) fewest workers."""
    high: IntArray
    """(J,) most workers."""
    weights: FloatArray
    """(J,)"""


def draw(conditions: Conditions, seed: int, recorded: RecordedJobs | None = None, cluster: SimulatedNodes | None = None) -> Drawn:
    """Cluster, jobs and arrivals of one seed; noise and contention change neither.

    recorded: arrivals, work, worker counts and weights are these instead of drawn ones
    cluster: the nodes are these instead of the family's
    Raises KeyError for an unknown family, ValueError where `recorded` is not of `conditions.jobs` jobs.
    """
    if recorded is not None and len(recorded.gaps) != conditions.jobs:
        raise ValueError(f"the conditions say {conditions.jobs} jobs, {len(recorded.gaps)} are recorded")
    rng = np.random.default_rng([seed, conditions.jobs, *conditions.family.encode()])
    nodes = int(rng.integers(LEAST_NODES, MOST_NODES + 1))
    own = of_topology(generate(conditions.family, conditions.nodes or nodes, seed)) if cluster is None else cluster
    nodes = len(own.speed)
    workers, figures = _jobs(own, conditions.jobs, rng, recorded)
    half = np.zeros(nodes, dtype=np.bool_)
    half[rng.permutation(nodes)[: (nodes + 1) // 2]] = True
    weights = np.where(rng.random(conditions.jobs) < 0.25, 3.0, 1.0)
    equal = rng.random(conditions.jobs) < 0.5
    gaps = rng.exponential(1.0, conditions.jobs)
    guess = rng.uniform(-1.0, 1.0, conditions.jobs)
    if recorded is not None:
        weights, gaps = recorded.weights, recorded.gaps / recorded.gaps.mean()
    return Drawn(
        speed=own.speed,
        latency=np.where(own.blocked, UNREACHABLE_SECONDS, own.latency_seconds),
        per_byte=np.ascontiguousarray(own.seconds_per_byte),
        domain=own.domain,
        weights=weights,
        noise=1.0 + conditions.noise * guess,
        equal=equal,
        workers=workers,
        figures=figures,
        gaps=gaps,
        half=half,
    )


def of_topology(topology: Topology) -> SimulatedNodes:
    """Every machine as one node."""
    figures = topology.flops_per_second, topology.latency_seconds, topology.seconds_per_byte, topology.blocked
    return SimulatedNodes(*figures, widest_domain(topology.domains), np.arange(len(topology.slots)))


def widest_domain(domains: IntArray) -> IntArray:
    """(n,) number of the widest domain with a border inside the cluster, of (n, levels); −1 for all: one switch for all."""
    for level in range(domains.shape[1]):
        _, numbers = np.unique(domains[:, level], return_inverse=True)
        if 1 < numbers.max() + 1 < len(numbers):
            return numbers.astype(np.int64)
    return np.full(len(domains), -1, dtype=np.int64)


def _jobs(cluster: SimulatedNodes, jobs: int, rng: np.random.Generator, recorded: RecordedJobs | None) -> tuple[IntArray, FloatArray]:
    """(J, 6) worker counts and (J, 6, 6) figures of every count."""
    nodes = len(cluster.speed)
    pairs = ~cluster.blocked & ~np.eye(nodes, dtype=np.bool_)
    latency, per_byte = float(np.median(cluster.latency_seconds[pairs])), float(np.median(cluster.seconds_per_byte[pairs]))
    speed = float(np.median(cluster.speed))
    compute = MEDIAN_SECONDS * rng.lognormal(0.0, SIGMA, jobs)
    if recorded is not None:
        compute = recorded.work_seconds
    halo, ring = _log_uniform(rng, 0.02, 1.6, jobs) * compute, _log_uniform(rng, 0.02, 1.6, jobs) * compute
    waits = _log_uniform(rng, 0.002, 0.3, jobs) * compute / latency
    sampled = rng.random(jobs) < 0.5
    exchanges = np.where(sampled, 1.0, 2.0 * rng.integers(1, 4, jobs))
    low, high = rng.choice((1, 2, 4), jobs), rng.choice((4, 8, 12), jobs)
    if recorded is not None:
        low, high = recorded.low, recorded.high
    low = np.minimum(low, nodes // 2)
    high = np.maximum(np.minimum(high, nodes // 2), low)
    low = np.minimum(low, np.array(COUNTS)[np.searchsorted(COUNTS, high, side="right") - 1])  # no count may lie between them
    steps = waits / (exchanges + 2.0 * (REFERENCE - 1))
    workers, figures = np.zeros((jobs, len(COUNTS)), dtype=np.int64), np.zeros((jobs, len(COUNTS), FIGURES))
    filled = np.zeros(jobs, dtype=np.int64)
    for count in COUNTS:
        chosen = np.flatnonzero((count >= low) & (count <= high))
        now = np.where(sampled, steps * REFERENCE / count, steps)[chosen]
        more = (count - 1) * count**-0.4 / ((REFERENCE - 1) * REFERENCE**-0.4)
        gradient = ring[chosen] / (2.0 * (REFERENCE - 1) / REFERENCE * per_byte * steps[chosen])
        row = figures[chosen, filled[chosen]]
        row[:, 0] = now * exchanges[chosen] if count > 1 else 0.0
        row[:, 1] = halo[chosen] * REFERENCE / per_byte * more
        row[:, 2] = now * 2.0 * (count - 1)
        row[:, 3] = now * 2.0 * (count - 1) / count * gradient
        row[:, 4] = compute[chosen] * REFERENCE * speed
        figures[chosen, filled[chosen]] = row
        workers[chosen, filled[chosen]] = count
        filled[chosen] += 1
    return workers, figures


def _log_uniform(rng: np.random.Generator, low: float, high: float, size: int) -> FloatArray:
    drawn: FloatArray = np.exp(rng.uniform(np.log(low), np.log(high), size))
    return drawn
