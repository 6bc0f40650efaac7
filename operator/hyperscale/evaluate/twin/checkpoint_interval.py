"""The checkpoint interval with the earliest expected end, on the same futures for every interval; Young's and Daly's for comparison.

The valley around the best interval is flat: its cost is what counts, not its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.twin.job_arrays import horizon_seconds
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.risk_figures import capped_end_seconds, mean_seconds_between_stops
from hyperscale.evaluate.twin.twin_types import SMALL_INTERVAL_SECONDS, IntervalChoice, JobRisk

COARSE: Final = tuple(2.0**power for power in range(-4, 5))
"""First intervals tried, times Young's."""
COARSE_SHARE: Final = 4
"""The first sweep plays this part of the futures: one in four."""
FINE: Final = tuple(2.0 ** (power / 4.0) for power in range(-4, 5))
"""Then these, times the best of the first: a parabola through them gives the interval."""
MIN_SHARE: Final = 1e-4
"""Shortest interval tried, as a part of the work: where a checkpoint costs nothing, shorter ones gain nothing that counts."""


def young_seconds(write_seconds: float, mtbf_seconds: float) -> float:
    """Return the interval of Young (CACM 1974): first order, exponential failures."""
    return math.sqrt(2.0 * write_seconds * mtbf_seconds)


def daly_seconds(write_seconds: float, mtbf_seconds: float) -> float:
    """Return the interval of Daly (FGCS 2006), equation 37: higher order, exponential failures."""
    if write_seconds >= 2.0 * mtbf_seconds:
        return mtbf_seconds
    ratio = write_seconds / (2.0 * mtbf_seconds)
    return young_seconds(write_seconds, mtbf_seconds) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - write_seconds


def expected_end_seconds(job: JobRisk, interval_seconds: float, futures: int, seed: int) -> float:
    """Return the mean end with another interval, on the same futures; past the horizon a future counts as the horizon."""
    return float(np.mean(capped_end_seconds(play(replace(job, checkpoint_interval_seconds=interval_seconds), futures, seed))))


class _Costs:
    """Expected ends by interval, each simulated once, all within one horizon."""

    def __init__(self, job: JobRisk, futures: int, seed: int) -> None:
        self._job = replace(job, horizon_seconds=horizon_seconds(job))
        self._futures, self._seed = futures, seed
        self._shortest = max(SMALL_INTERVAL_SECONDS, min(job.checkpoint_interval_seconds, MIN_SHARE * job.work_seconds))
        self._ends: dict[float, float] = {}

    def within(self, seconds: float) -> float:
        """The nearest interval that is tried; longer than the work is one segment."""
        return min(max(seconds, self._shortest), self._job.work_seconds)

    def end(self, seconds: float) -> float:
        """Expected end in seconds."""
        own = self.within(seconds)
        if own not in self._ends:
            self._ends[own] = expected_end_seconds(self._job, own, self._futures, self._seed)
        return self._ends[own]

    def best(self, intervals: Sequence[float]) -> float:
        """The interval with the earliest end, the longest among equals: it writes least."""
        return min(map(self.within, intervals), key=lambda seconds: (self.end(seconds), -seconds))


def best_interval(job: JobRisk, futures: int, seed: int) -> IntervalChoice:
    """Return the best interval by `futures` simulated futures; whole epochs where the job states how long one is.

    Raises ValueError as `play` does.
    """
    between = mean_seconds_between_stops(play(job, futures, seed))
    costs = _Costs(job, futures, seed)
    if between is None:
        best, young, daly = job.work_seconds, None, None
    else:
        young, daly = young_seconds(job.write_seconds, between), daly_seconds(job.write_seconds, between)
        coarse = _Costs(job, -(-futures // COARSE_SHARE), seed)
        middle = coarse.best([*(costs.within(young) * step for step in COARSE), job.work_seconds])
        best = costs.best([_bottom(costs, middle), young, daly])
    epochs = None
    if job.epoch_seconds is not None:
        epochs = _epochs(costs, best, job.epoch_seconds, job.work_seconds)
        best = epochs * job.epoch_seconds
    return IntervalChoice(
        seconds=best,
        expected_end_seconds=costs.end(best),
        current_end_seconds=costs.end(job.checkpoint_interval_seconds),
        young_seconds=young,
        young_end_seconds=None if young is None else costs.end(young),
        daly_seconds=daly,
        daly_end_seconds=None if daly is None else costs.end(daly),
        epochs=epochs,
    )


def _bottom(costs: _Costs, middle: float) -> float:
    """The bottom of the valley near `middle`: a narrow sweep, and a parabola through it in ln(interval)."""
    near = sorted({costs.within(middle * step) for step in FINE})
    best = costs.best(near)
    if len(near) < len(FINE):
        return best
    steps = np.log(near)
    curve = np.polyfit(steps - steps.mean(), [costs.end(seconds) for seconds in near], 2)
    if curve[0] <= 0.0:
        return best
    bottom = math.exp(float(np.clip(-curve[1] / (2.0 * curve[0]) + steps.mean(), steps[0], steps[-1])))
    return costs.best([best, bottom])


def _epochs(costs: _Costs, seconds: float, epoch_seconds: float, work_seconds: float) -> int:
    """The better of the whole numbers of epochs around an interval, at least 1, at most the whole work."""
    most = max(1, math.ceil(work_seconds / epoch_seconds - 1e-9))
    down = min(max(1, math.floor(seconds / epoch_seconds)), most)
    up = min(down + 1, most)
    return min((down, up), key=lambda epochs: (costs.end(epochs * epoch_seconds), -epochs))
