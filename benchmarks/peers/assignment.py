"""A reference: all jobs assigned to kinds of GPU again in every round, which no cluster's scheduler does that starts jobs one by one.

The index rule's order, weighted shortest remaining time first, for all jobs and kinds at once: the assignment that finishes the most
weighted jobs a second. With one kind this is that order itself (Smith 1956); with several, a job that gains little from the fast GPUs
leaves them to one that gains much. A linear program, which leaves at most one job a kind undecided, then rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from benchmarks.replay import Cluster, Job, Running
from hyperscale.model.graph import FloatArray


class Assignment:
    """A policy of the replay: steps left are known, any job may stop or move in any round."""

    packs: Final = True
    name = "assignment at every round"

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        contenders = []
        for job in jobs:
            seconds = tuple(left[job.number] / speed if speed > 0.0 else math.inf for speed in job.packed)
            kind = running[job.number].kind if job.number in running else None
            contenders.append(Contender(str(job.number), job.gpus, seconds, job.weight, kind))
        chosen = assign(contenders, cluster.gpus, round_seconds=cluster.round_seconds, restart_seconds=cluster.restart_seconds)
        return {int(key): kind for key, kind in chosen.items()}


class Contender(msgspec.Struct, frozen=True, rename="camel"):
    """A job that runs or waits."""

    key: str
    gpus: int
    seconds: tuple[float, ...]
    """Left to run on each kind; +inf where it cannot."""
    weight: float = 1.0
    kind: int | None = None
    """Where it runs now; None: it waits."""


def assign(jobs: Sequence[Contender], free: Sequence[int], *, round_seconds: float, restart_seconds: float) -> dict[str, int]:
    """Kind of every job that runs in the next round, by key; the others wait. `free` are all GPUs of each kind.

    A start or a move loses `restart_seconds` of the round. ValueError: a job without one figure a kind, or a restart as long as a round.
    """
    if restart_seconds >= round_seconds:
        raise ValueError("a restart takes longer than the round")
    if any(len(job.seconds) != len(free) for job in jobs):
        raise ValueError("every job needs its seconds on every kind")
    ordered = sorted(jobs, key=lambda job: job.key)
    if not ordered:
        return {}
    values = np.array([[_value(job, kind, round_seconds, restart_seconds) for kind in range(len(free))] for job in ordered])
    return _rounded(ordered, values, _shares(ordered, values, free), list(free))


def _value(job: Contender, kind: int, round_seconds: float, restart_seconds: float) -> float:
    """Weighted part of the job that the round gets done; what needs less than a round counts as a round."""
    if not math.isfinite(job.seconds[kind]):
        return 0.0
    kept = 1.0 if job.kind == kind else 1.0 - restart_seconds / round_seconds
    return job.weight * kept * round_seconds / max(job.seconds[kind], round_seconds)


def _shares(jobs: Sequence[Contender], values: FloatArray, free: Sequence[int]) -> FloatArray:
    """(jobs, kinds) the linear program's answer, 0..1."""
    count, kinds = values.shape
    gpus = np.array([job.gpus for job in jobs], dtype=np.float64)
    columns = np.arange(count * kinds)
    ends = (np.concatenate([columns // kinds, count + columns % kinds]), np.concatenate([columns, columns]))
    # Two entries a column: one job once, one kind's GPUs.
    rows = csr_array((np.concatenate([np.ones(count * kinds), gpus.repeat(kinds)]), ends), shape=(count + kinds, count * kinds))
    limits = np.concatenate([np.ones(count), np.array(free, dtype=np.float64)])
    upper = (values > 0.0).astype(np.float64).ravel()
    solved = linprog(-values.ravel(), A_ub=rows, b_ub=limits, bounds=np.stack([np.zeros(len(upper)), upper], axis=1), method="highs")
    return np.zeros((count, kinds)) if solved.x is None else np.asarray(solved.x).reshape(count, kinds)


def _rounded(jobs: Sequence[Contender], values: FloatArray, shares: FloatArray, free: list[int]) -> dict[str, int]:
    """Whole jobs of the program first, then by value a GPU whatever still fits."""
    chosen: dict[str, int] = {}
    pairs = [(job, kind) for job in range(len(jobs)) for kind in range(len(free)) if values[job, kind] > 0.0]
    for job, kind in sorted(pairs, key=lambda pair: (shares[pair] < 0.999, -values[pair] / jobs[pair[0]].gpus, pair)):
        if jobs[job].key not in chosen and free[kind] >= jobs[job].gpus:
            chosen[jobs[job].key] = kind
            free[kind] -= jobs[job].gpus
    return chosen
