"""Gavel's scheduling policies (Narayanan et al., OSDI 2020) and two well-known orders, for the trace replay of suites/gavel.py.

A policy says for each round which job runs on which type of GPU. Gavel's have two halves: a linear program for the share of time that each
job should get on each type, and the round mechanism (section 5, algorithm 1) that serves those furthest behind their share first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from scipy.optimize import linprog

from benchmarks.peers.assignment import Assignment
from benchmarks.replay import Cluster, Job, Policy, Running

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

RESET_SECONDS: Final = 1000.0
"""Least time between two resets of what jobs have received, as in Gavel's scheduler."""
VERTICES: Final = 6
PUBLISHED: Final = ("Gavel max-min", "Gavel max-min, inside")
"""Two readings of one program: a vertex of its best shares, and a point in their midst."""
STRONGEST: Final = "Gavel max-min, most speed, filled"
"""Ties in the program go to the most speed in total, and GPUs that the rounds leave idle to the jobs that wait."""
UNSERVED: Final = 1e9
"""Factor on the share of a job that has not run yet."""


class Share(Protocol):
    """How a policy divides the time of all GPUs."""

    def __call__(self, jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> FloatArray:
        """(jobs, types) part of the time that each job runs on each type."""
        ...


def proportional_speed(jobs: Sequence[Job], cluster: Cluster) -> FloatArray:
    """(n,) steps a second of each job if it spent its time on every type in proportion to its GPUs."""
    part = np.array(cluster.gpus, dtype=np.float64) / sum(cluster.gpus)
    speeds: FloatArray = np.array([job.packed for job in jobs]) @ part
    return speeds


def fair_gain(jobs: Sequence[Job], cluster: Cluster) -> FloatArray:
    """(jobs, types) what all time on a type gives a job. It is its speed there over that of an equal share, for each GPU it asks for."""
    speeds = np.array([job.packed for job in jobs])
    gpus = np.array([job.gpus for job in jobs], dtype=np.float64)
    gain: FloatArray = speeds / proportional_speed(jobs, cluster)[:, None] * gpus[:, None] / np.array([job.weight for job in jobs])[:, None]
    return gain


def max_min(jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> FloatArray:
    """Section 4.1: the least of all jobs' gain as large as can be. A vertex of what is best, as HiGHS finds it."""
    return _largest_least(fair_gain(jobs, cluster), _gpus(jobs), cluster)


def max_min_inside(jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> FloatArray:
    """The same program's best shares, somewhere in their midst: the mean of six vertices, as an interior-point solver would answer."""
    first = max_min(jobs, left, cluster)
    rng = np.random.default_rng(0)
    found = [_tied(jobs, first, np.asarray(rng.uniform(-1.0, 1.0, first.shape)), cluster) for _ in range(VERTICES)]
    return np.asarray(np.mean(found, axis=0))


def max_min_then_most(jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> FloatArray:
    """The same, and of all shares with that least gain those with the most speed in total: stronger than what was published."""
    return _tied(jobs, max_min(jobs, left, cluster), np.negative(fair_gain(jobs, cluster) / _gpus(jobs)[:, None]), cluster)


def _gpus(jobs: Sequence[Job]) -> FloatArray:
    return np.array([job.gpus for job in jobs], dtype=np.float64)


def _tied(jobs: Sequence[Job], first: FloatArray, costs: FloatArray, cluster: Cluster) -> FloatArray:
    """Of all shares whose least gain is that of `first`, those with the lowest `costs`."""
    gain = fair_gain(jobs, cluster)
    floor = float((gain * first).sum(axis=1).min()) * (1.0 - 1e-6)
    rows, limits = _capacity(_gpus(jobs), cluster)
    solved = linprog(
        costs.ravel(),
        A_ub=np.concatenate([rows, -_row_sums(gain)]),
        b_ub=np.concatenate([limits, np.full(len(gain), -floor)]),
        bounds=(0.0, 1.0),
        method="highs",
    )
    return first if solved.x is None else np.asarray(solved.x).reshape(gain.shape)


def _row_sums(gain: FloatArray) -> FloatArray:
    """(jobs, jobs · types) whose product with the shares is each job's gain."""
    count, types = gain.shape
    rows = np.zeros((count, count * types))
    for row in range(count):
        rows[row, row * types : (row + 1) * types] = gain[row]
    return rows


def makespan(jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> FloatArray:
    """Section 4.2: all jobs done as early as can be, from the steps that are left."""
    steps = np.array([max(left[job.number], 1e-9) for job in jobs])
    gain = np.array([job.packed for job in jobs]) / steps[:, None]
    gain /= gain.max()
    return _largest_least(gain, _gpus(jobs), cluster)


def _capacity(gpus: FloatArray, cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    """Rows of x (jobs · types) and their limits: no job more than all its time, no type more than its GPUs."""
    count, types = len(gpus), len(cluster.gpus)
    own = np.kron(np.eye(count), np.ones((1, types)))
    kinds = np.kron(gpus[None, :], np.eye(types))
    return np.concatenate([own, kinds]), np.concatenate([np.ones(count), np.array(cluster.gpus, dtype=np.float64)])


def _largest_least(gain: FloatArray, gpus: FloatArray, cluster: Cluster) -> FloatArray:
    """Shares x >= 0 for which the least row sum of gain · x is as large as can be."""
    count, types = gain.shape
    rows, limits = _capacity(gpus, cluster)
    least = np.hstack([-_row_sums(gain), np.ones((count, 1))])
    solved = linprog(
        np.append(np.zeros(count * types), -1.0),
        A_ub=np.concatenate([np.hstack([rows, np.zeros((len(rows), 1))]), least]),
        b_ub=np.concatenate([limits, np.zeros(count)]),
        bounds=[(0.0, 1.0)] * (count * types) + [(0.0, None)],
        method="highs",
    )
    return np.zeros((count, types)) if solved.x is None else np.asarray(solved.x[:-1]).reshape(count, types).clip(0.0, 1.0)


class Rounds:
    """Gavel's round mechanism over the shares of a program: highest share / time received first."""

    packs: Final = True

    def __init__(self, name: str, share: Share, *, fills: bool) -> None:
        self.name = name
        self._share = share
        self._fills = fills
        self._known: tuple[int, ...] = ()
        self._shares: dict[int, FloatArray] = {}
        self._received: dict[int, FloatArray] = {}
        self._deficit: dict[int, FloatArray] = {}
        self._clock: FloatArray = np.zeros(0)
        self._reset_at = -RESET_SECONDS
        self._stale = True

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """Type of GPU of each job that runs in the round from `now`; see `replay.Policy`."""
        numbers = tuple(job.number for job in jobs)
        self._stale = self._stale or numbers != self._known
        missing = any(number not in self._shares for number in numbers)
        if self._stale and (missing or now - self._reset_at >= RESET_SECONDS):
            self._reset(now, jobs, left, cluster)
        self._known = numbers
        chosen = self._serve(jobs, cluster)
        for job in jobs:
            if job.number in chosen:
                self._received[job.number][chosen[job.number]] += cluster.round_seconds
        for kind in set(chosen.values()):
            self._clock[kind] += cluster.round_seconds
        return chosen

    def _reset(self, now: float, jobs: Sequence[Job], left: Mapping[int, float], cluster: Cluster) -> None:
        """New shares; what jobs should have had and did not is kept as their deficit, which breaks ties."""
        types = len(cluster.gpus)
        elapsed = max(0.0, now - self._reset_at) if self._shares else 0.0
        shares = self._share(jobs, left, cluster)
        for job in jobs:
            due = self._shares.get(job.number, np.zeros(types)) * elapsed
            had = self._received.get(job.number, np.zeros(types))
            self._deficit[job.number] = self._deficit.get(job.number, np.zeros(types)) + due - had
        self._shares = {job.number: row for job, row in zip(jobs, shares, strict=True)}
        self._received = {job.number: np.zeros(types) for job in jobs}
        self._clock = np.zeros(types)
        self._reset_at, self._stale = now, False

    def _serve(self, jobs: Sequence[Job], cluster: Cluster) -> dict[int, int]:
        """Algorithm 1: in order of priority, whatever still has room; then, where it may, those without room for their share."""
        free = list(cluster.gpus)
        chosen: dict[int, int] = {}
        for priority, _, _, number, kind, job in sorted(self._entries(jobs), key=lambda entry: entry[:5]):
            if number not in chosen and free[kind] >= job.gpus and priority < -1e-9:
                chosen[number] = kind
                free[kind] -= job.gpus
        if self._fills:
            _give_fastest(jobs, chosen, free)
        return chosen

    def _entries(self, jobs: Sequence[Job]) -> Iterator[tuple[float, float, float, int, int, Job]]:
        """Each job on each type where it runs: minus its priority, its deficit and its share, then the job's number and the type."""
        for job in jobs:
            for kind, share in enumerate(self._shares[job.number]):
                if job.packed[kind] <= 0.0:
                    continue
                had = self._received[job.number][kind] / self._clock[kind] if self._clock[kind] else 0.0
                priority = float(share / had) if had > 0 else float(share) * UNSERVED
                yield -priority, -float(self._deficit[job.number][kind]), -float(share), job.number, kind, job


def _fastest(job: Job, kinds: Sequence[int]) -> int:
    """The kind on which the job runs fastest, the first of equals."""
    return max(kinds, key=lambda kind: (job.packed[kind], -kind))


def _give_fastest(jobs: Sequence[Job], chosen: dict[int, int], free: list[int]) -> None:
    """Each job that has no type yet takes, in the order given, the fastest type that has room; `chosen` and `free` change."""
    for job in jobs:
        kinds = [kind for kind in range(len(free)) if free[kind] >= job.gpus and job.packed[kind] > 0]
        if job.number not in chosen and kinds:
            best = _fastest(job, kinds)
            chosen[job.number] = best
            free[best] -= job.gpus


class Ordered:
    """Preemptive list scheduling: jobs by a key, each on the fastest type that has room."""

    packs: Final = True

    def __init__(self, name: str, order: str) -> None:
        self.name = name
        self._order = order
        self._attained: dict[int, float] = {}

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        for number, run in running.items():
            self._attained[number] = self._attained.get(number, 0.0) + run.gpus * cluster.round_seconds
        free, chosen = list(cluster.gpus), dict[int, int]()
        _give_fastest(sorted(jobs, key=lambda job: (self._key(job, left), job.number)), chosen, free)
        return chosen

    def _key(self, job: Job, left: Mapping[int, float]) -> float:
        if self._order == "first come":
            return job.arrival
        if self._order == "shortest left":
            return left[job.number] / max(job.packed) / job.weight
        return self._attained.get(job.number, 0.0)


class ShortestStays:
    """Without stops: the shortest first on the fastest type with room; while others run only where it takes `within` times its best."""

    packs: Final = False

    def __init__(self, name: str, within: float) -> None:
        self.name = name
        self._within = within

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        free, chosen = list(cluster.gpus), {number: run.kind for number, run in running.items()}
        for run in running.values():
            free[run.kind] -= run.gpus
        for job in sorted(jobs, key=lambda job: (job.best_seconds / job.weight, job.number)):
            kinds = [kind for kind in range(len(free)) if free[kind] >= job.gpus and job.packed[kind] > 0]
            if job.number in chosen or not kinds:
                continue
            kind = _fastest(job, kinds)
            if not chosen or max(job.packed) <= self._within * job.packed[kind]:
                chosen[job.number] = kind
                free[kind] -= job.gpus
        return chosen


def peers() -> list[Policy]:
    """Every peer, fresh."""
    return [
        Rounds(PUBLISHED[0], max_min, fills=False),
        Rounds(PUBLISHED[1], max_min_inside, fills=False),
        Rounds(STRONGEST, max_min_then_most, fills=True),
        Rounds("Gavel makespan, idle GPUs filled", makespan, fills=True),
        Ordered("first come", "first come"),
        Ordered("least attained service", "least attained"),
        Ordered("shortest left", "shortest left"),
        ShortestStays("shortest first, no stops", math.inf),
        ShortestStays("shortest first, no stops, within 1.5", 1.5),
        Assignment(),
    ]
