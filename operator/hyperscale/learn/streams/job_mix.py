"""Jobs less alike, and more alike, than those that streams are drawn with. Training on them keeps an agent from one queue's habits.

A cluster of sweeps holds many short jobs of one or a few workers that come at once; another holds jobs of minutes beside jobs of weeks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.learn.streams.scenario import MEDIAN_SECONDS, RecordedJobs
from hyperscale.model.graph import IntArray

USUAL_PART: Final = 0.4
"""Of the streams: jobs as `scenario.draw` has them."""
ALIKE_PART: Final = 0.3
ALIKE_SIGMAS: Final = (0.3, 0.9)
"""Of the logarithm of the work; the usual one is 1.2."""
MOST_AT_ONCE: Final = 0.6
"""Of alike jobs, the part that comes with the one before."""
UNLIKE_SIGMAS: Final = (1.4, 2.6)
WEIGHTY_PART: Final = 0.25
WEIGHT: Final = 3.0


def mixed_jobs(rng: np.random.Generator, jobs: int) -> RecordedJobs | None:
    """The jobs of one stream; None: the usual ones."""
    kind = rng.random()
    if kind < USUAL_PART:
        return None
    weights = np.where(rng.random(jobs) < WEIGHTY_PART, WEIGHT, 1.0)
    gaps = rng.exponential(1.0, jobs)
    if kind < USUAL_PART + ALIKE_PART:
        work = MEDIAN_SECONDS * rng.lognormal(0.0, rng.uniform(*ALIKE_SIGMAS), jobs)
        at_once = rng.random(jobs) < rng.uniform(0.0, MOST_AT_ONCE)
        low, high = np.ones(jobs, dtype=np.int64), rng.choice((1, 2, 4), jobs, p=(0.6, 0.2, 0.2))
        return RecordedJobs(np.where(at_once, 0.0, gaps), work, low, high.astype(np.int64), weights)
    work = MEDIAN_SECONDS * rng.lognormal(0.0, rng.uniform(*UNLIKE_SIGMAS), jobs)
    low, high = _workers(rng, work.argsort().argsort() / jobs)
    return RecordedJobs(gaps, work, low, high, weights)


def _workers(rng: np.random.Generator, rank: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[IntArray, IntArray]:
    """Fewest and most workers; in half of the streams short jobs are narrow and the longest wide."""
    low, high = rng.choice((1, 2, 4), len(rank)), rng.choice((4, 8, 12), len(rank))
    if rng.random() < 0.5:
        low, high = np.where(rank < 0.4, 1, low), np.where(rank < 0.4, 4, np.where(rank > 0.95, 12, high))
    return low.astype(np.int64), high.astype(np.int64)
