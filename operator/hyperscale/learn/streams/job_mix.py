"""Jobs less alike, and more alike, than those that streams are drawn with. Training on them keeps an agent from one queue's habits.

A cluster of sweeps holds many short jobs of one or a few workers that come at once; another holds jobs of minutes beside jobs of weeks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hyperscale.learn.streams.scenario import MEDIAN_SECONDS, REFERENCE, SIGMA, RecordedJobs
from hyperscale.model.graph import FloatArray, IntArray

USUAL_PART: Final = 0.4
"""Of the streams: jobs as `scenario.draw` has them."""
SWEEP_SIGMAS: Final = (0.05, 0.9)
"""Of the logarithm of the work within a sweep; the usual one of all jobs is 1.2."""
BETWEEN_SWEEPS: Final = 1.0
MOST_SWEEP: Final = 24.0
"""Jobs of a sweep in the mean, at most."""
UNLIKE_SIGMAS: Final = (1.4, 2.6)
NARROW_SIGMAS: Final = (1.0, 2.2)
MOST_AT_ONCE: Final = 0.8
"""Of the jobs of a stream in bursts, the part that comes with the one before."""
BURSTS_PART: Final = 0.6
"""Of the streams of narrow jobs and of classes."""
SINGLE_PARTS: Final = (0.45, 0.85)
"""Of narrow jobs, those of one worker."""
WEIGHTY_PART: Final = 0.25
WEIGHT: Final = 3.0
DECADES: Final = 4
"""Classes of work, each ten times the one before, as shared clusters have them (Pollux, OSDI 2021, table 1)."""


def mixed_jobs(rng: np.random.Generator, jobs: int) -> RecordedJobs | None:
    """The jobs of one stream; None: the usual ones."""
    kind = float(rng.random()) - USUAL_PART
    if kind < 0.0:
        return None
    for part, drawn in zip(PARTS, KINDS, strict=True):
        if kind < part:
            return drawn(rng, jobs)
        kind -= part
    return bursts(rng, jobs)


def sweeps(rng: np.random.Generator, jobs: int) -> RecordedJobs:
    """Bursts of alike jobs, each burst with its own size; some bursts take turns job by job."""
    mean_size = float(np.exp(rng.uniform(0.0, np.log(MOST_SWEEP))))
    begins = rng.random(jobs) < 1.0 / mean_size
    begins[0] = True
    number = np.cumsum(begins) - 1
    turns = np.where(rng.random(jobs) < rng.uniform(0.0, 0.5), rng.integers(0, 3, jobs), 0)
    kind = np.minimum(number + turns, int(number.max()))
    work = MEDIAN_SECONDS * rng.lognormal(0.0, BETWEEN_SWEEPS, jobs)[kind] * rng.lognormal(0.0, rng.uniform(*SWEEP_SIGMAS), jobs)
    high = rng.choice((1, 2, 4, 8), jobs, p=(0.5, 0.2, 0.2, 0.1))[kind].astype(np.int64)
    low = np.where((rng.random(jobs) < 0.5)[kind], 1, np.maximum(1, high // 4)).astype(np.int64)
    gaps = np.where(begins, rng.exponential(1.0, jobs), 0.0 if rng.random() < 0.7 else rng.exponential(0.05, jobs))
    return RecordedJobs(gaps, work, low, high, _weights(rng, jobs))


def unlike(rng: np.random.Generator, jobs: int) -> RecordedJobs:
    """Lengths with up to twice the usual spread."""
    work = MEDIAN_SECONDS * rng.lognormal(0.0, rng.uniform(*UNLIKE_SIGMAS), jobs)
    low, high = _workers(rng, work.argsort().argsort() / jobs)
    return RecordedJobs(rng.exponential(1.0, jobs), work, low, high, _weights(rng, jobs))


def classes(rng: np.random.Generator, jobs: int) -> RecordedJobs:
    """Work in classes of a decade each, few jobs in the largest; larger ones run on more workers."""
    parts = rng.dirichlet((6.0, 5.0, 2.0, 0.5))
    kind = rng.choice(DECADES, jobs, p=parts)
    gpu_seconds = 360.0 * 10.0 ** (kind + rng.random(jobs))
    high = np.array([rng.choice((1, 2, 4), p=(0.7, 0.2, 0.1)) if one < 2 else rng.choice((1, 2, 4, 8, 12)) for one in kind], dtype=np.int64)
    return RecordedJobs(_gaps(rng, jobs), gpu_seconds / REFERENCE, np.maximum(1, high // 4), high, _weights(rng, jobs))


def narrow(rng: np.random.Generator, jobs: int) -> RecordedJobs:
    """Most jobs have one worker, and many come at once."""
    single = float(rng.uniform(*SINGLE_PARTS))
    rest = rng.dirichlet((3.0, 3.0, 2.0)) * (1.0 - single)
    high = rng.choice((1, 2, 4, 8), jobs, p=(single, *rest)).astype(np.int64)
    work = MEDIAN_SECONDS * rng.lognormal(0.0, rng.uniform(*NARROW_SIGMAS), jobs)
    return RecordedJobs(_gaps(rng, jobs), work * high / REFERENCE, np.maximum(1, high // 4), high, _weights(rng, jobs))


def bursts(rng: np.random.Generator, jobs: int) -> RecordedJobs:
    """Lengths and worker counts as usual, and many jobs come at once."""
    work = MEDIAN_SECONDS * rng.lognormal(0.0, SIGMA, jobs)
    low, high = rng.choice((1, 2, 4), jobs), rng.choice((4, 8, 12), jobs)
    return RecordedJobs(
        _at_once(rng, jobs, rng.uniform(0.0, MOST_AT_ONCE)), work, low.astype(np.int64), high.astype(np.int64), _weights(rng, jobs)
    )


def _gaps(rng: np.random.Generator, jobs: int) -> FloatArray:
    """(J,) by chance, or with many that come at once."""
    return _at_once(rng, jobs, rng.uniform(0.0, MOST_AT_ONCE)) if rng.random() < BURSTS_PART else rng.exponential(1.0, jobs)


def _at_once(rng: np.random.Generator, jobs: int, part: float) -> FloatArray:
    """(J,) gaps where this part of the jobs come with the one before."""
    joins = rng.random(jobs) < part
    joins[0] = False
    return np.where(joins, 0.0, rng.exponential(1.0, jobs))


def _weights(rng: np.random.Generator, jobs: int) -> FloatArray:
    """(J,) in half of the streams all 1."""
    weighty = rng.random(jobs) < WEIGHTY_PART
    return np.where(weighty & (rng.random() < 0.5), WEIGHT, 1.0)


def _workers(rng: np.random.Generator, rank: NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Fewest and most workers; in half of the streams short jobs are narrow and the longest wide."""
    low, high = rng.choice((1, 2, 4), len(rank)), rng.choice((4, 8, 12), len(rank))
    if rng.random() < 0.5:
        low, high = np.where(rank < 0.4, 1, low), np.where(rank < 0.4, 4, np.where(rank > 0.95, 12, high))
    return low.astype(np.int64), high.astype(np.int64)


KINDS: Final[tuple[Callable[[np.random.Generator, int], RecordedJobs], ...]] = (sweeps, unlike, classes, narrow, bursts)
PARTS: Final = (0.1, 0.1, 0.1, 0.2, 0.1)
"""Of the streams, in the order of `KINDS`."""
