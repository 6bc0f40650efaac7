"""The roll of `kinds` for many sets of stops of the same jobs: compiled where it can be, with the same answers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from hyperscale.planner.queue import rule
from hyperscale.planner.queue.kinds import NOWHERE, Contender, KindsOutcome, by_age, rolled

try:
    from hyperscale.planner.queue import _roll
except ImportError:  # pragma: no cover - a machine without a compiler; planner/search/kernels/kernel.py has warned
    _roll = None  # type: ignore[assignment] # the Python path asks

NO_PREEMPTION: Final[frozenset[str]] = frozenset()


class Forecast:
    """What follows from stopping these or those jobs. Raises ValueError where a job has not one figure a kind."""

    def __init__(
        self, jobs: Sequence[Contender], free: Sequence[int], settings: rule.RuleSettings, *, compiled: bool = _roll is not None
    ) -> None:
        if any(len(demand.seconds) != len(free) for job in jobs for demand in job.demands):
            raise ValueError("every job needs its seconds on every kind")
        if any(len(job.gpus_by_kind) != len(free) for job in jobs if job.runs):
            raise ValueError("every job that runs needs its GPUs of every kind")
        self._jobs, self._free, self._settings = by_age(jobs), tuple(free), settings
        self._weight = np.array([job.weight for job in self._jobs], dtype=np.float64)
        self._arrays = _Arrays(self._jobs, self._free, settings) if compiled and jobs and len(free) else None

    def outcome(self, stopped: Collection[str] = NO_PREEMPTION) -> KindsOutcome:
        """Every job's end, and who starts at once."""
        if self._arrays is None:
            return rolled(self._jobs, self._free, self._settings, stopped)
        ends, starts = self._arrays.roll(stopped)
        began = starts.sum(axis=1).tolist()
        return KindsOutcome(
            {job.key: float(end) for job, end in zip(self._jobs, ends, strict=True)},
            {job.key: tuple(taken.tolist()) for job, taken, at_once in zip(self._jobs, starts, began, strict=True) if at_once},
        )

    def mean_seconds(self, stopped: Collection[str] = NO_PREEMPTION) -> float:
        """Weighted mean of the seconds from now to the end of all jobs; 0 where none counts."""
        return self.judged(stopped)[0]

    def judged(self, stopped: Collection[str]) -> tuple[float, bool]:
        """The weighted mean, and whether some stop is in vain: the job would continue at once where it was."""
        if self._arrays is None:
            outcome = rolled(self._jobs, self._free, self._settings, stopped)
            ends = np.array([outcome.ends[job.key] for job in self._jobs], dtype=np.float64)
            in_vain = any(job.gpus_by_kind == outcome.starts.get(job.key) for job in self._jobs if job.key in stopped)
        else:
            ends, starts = self._arrays.roll(stopped)
            rows = [self._arrays.rows[key] for key in stopped]
            in_vain = bool(rows) and bool((starts[rows] == self._arrays.held[rows]).all(axis=1).any())
        total = float(self._weight.sum())
        return float((self._weight * ends).sum()) / total if total else 0.0, in_vain


class _Arrays:
    """Jobs by age as the compiled roll takes them."""

    def __init__(self, jobs: Sequence[Contender], free: Sequence[int], settings: rule.RuleSettings) -> None:
        count, kinds, most = len(jobs), len(free), max(len(job.demands) for job in jobs)
        self.gpus = np.zeros((count, most), dtype=np.int32)
        self.seconds = np.full((count, most, kinds), NOWHERE)
        self.mixed = np.full((count, most), NOWHERE)
        self.held = np.zeros((count, kinds), dtype=np.int32)
        for row, job in enumerate(jobs):
            for column, demand in enumerate(job.demands):
                self.gpus[row, column], self.mixed[row, column] = demand.gpus, demand.mixed_seconds
                self.seconds[row, column] = demand.seconds
            if job.runs:
                self.held[row] = job.gpus_by_kind
        self.figures = np.array([(job.weight, job.waited_seconds, job.start_seconds, job.left_seconds) for job in jobs]).T.copy()
        self.rank = np.argsort(np.argsort(np.array([job.key for job in jobs]), kind="stable")).astype(np.int32)
        self.waits = np.array([not job.runs for job in jobs], dtype=np.uint8)
        self.rows = {job.key: row for row, job in enumerate(jobs)}
        self.free = np.array(free, dtype=np.int32)
        self.knobs = np.array([settings.patience, settings.patience_costs, settings.thrift_alone, settings.thrift])

    def roll(
        self, stopped: Collection[str]
    ) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], np.ndarray[tuple[int, ...], np.dtype[np.int32]]]:
        """(jobs,) ends in seconds, (jobs, kinds) GPUs of those that start at once."""
        waits = self.waits.copy()
        for key in stopped:
            waits[self.rows[key]] = 1
        ends, starts = np.empty(len(waits)), np.zeros(self.held.shape, dtype=np.int32)
        _roll.roll(self.gpus, self.seconds, self.mixed, self.figures, self.rank, self.held, waits, self.free, self.knobs, ends, starts)
        return ends, starts


def mean_seconds(jobs: Sequence[Contender], free: Sequence[int], settings: rule.RuleSettings) -> tuple[dict[str, float], float]:
    """Seconds to the end of each job if none is stopped, and their weighted mean."""
    forecast = Forecast(jobs, free, settings)
    return forecast.outcome().ends, forecast.mean_seconds()
