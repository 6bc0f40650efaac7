"""The next round of one cluster: what every job is given, running and pending, by one assignment over all jobs.

Pure and deterministic. A stop of a running job is the option of no GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.planner.rounds.round_solver import assign
from hyperscale.planner.rounds.round_types import GpuPool, RoundGrant, RoundJob, RoundSettings
from hyperscale.planner.rounds.round_values import option_values

DEFAULT: Final = RoundSettings()


def next_round(jobs: Sequence[RoundJob], pools: Sequence[GpuPool], settings: RoundSettings = DEFAULT) -> tuple[RoundGrant, ...]:
    """What each job is given, in the order of keys.

    Raises ValueError for bad questions: a key twice, an option without GPUs or of no pool, or more GPUs held than a pool has.
    """
    ordered = sorted(jobs, key=lambda job: job.key)
    _check_question(ordered, pools)
    free = np.array([pool.gpus for pool in pools], dtype=np.int64)
    fixed = {job.key for job in ordered if _keeps(job, settings)}
    for job in ordered:
        if job.key in fixed:
            _take(free, job)
    if (free < 0).any():
        raise ValueError(f"jobs hold more GPUs than pool {pools[int(np.argmin(free))].name} has")
    open_jobs = [job for job in ordered if job.key not in fixed]
    table = _Table(open_jobs, settings)
    chosen = table.solve(free)
    if settings.max_changes is not None:
        chosen = table.bounded(chosen, free, settings.max_changes)
    options = dict(zip((job.key for job in open_jobs), chosen, strict=True))
    return tuple(_grant(job, options.get(job.key, job.current)) for job in ordered)


def _check_question(jobs: Sequence[RoundJob], pools: Sequence[GpuPool]) -> None:
    if len({job.key for job in jobs}) < len(jobs):
        raise ValueError("a job is in the question twice")
    for job in jobs:
        for option in job.options:
            if option.gpus < 1 or not 0 <= option.pool < len(pools) or not option.rate >= 0.0:
                raise ValueError(f"{job.key}: an option needs a pool of the question, at least 1 GPU and a rate of at least 0: {option}")
        if job.current is not None and not 0 <= job.current < len(job.options):
            raise ValueError(f"{job.key}: what it holds is not among its options")


def _keeps(job: RoundJob, settings: RoundSettings) -> bool:
    """Whether the job keeps what it holds whatever the others gain."""
    return job.current is not None and (not job.movable or job.unchanged_seconds < settings.hold_seconds)


def _take(free: np.ndarray[tuple[int], np.dtype[np.int64]], job: RoundJob) -> None:
    if job.current is not None:
        free[job.options[job.current].pool] -= job.options[job.current].gpus


def _grant(job: RoundJob, option: int | None) -> RoundGrant:
    return RoundGrant(job.key, option, option != job.current)


class _Table:
    """Values of jobs that may change, over the distinct pairs of pool and GPUs; column 0 is nothing."""

    def __init__(self, jobs: Sequence[RoundJob], settings: RoundSettings) -> None:
        self.jobs = jobs
        pairs = sorted({(option.pool, option.gpus) for job in jobs for option in job.options})
        column = {pair: index + 1 for index, pair in enumerate(pairs)}
        self.pools = np.array([0, *(pool for pool, _ in pairs)], dtype=np.int64)
        self.gpus = np.array([0, *(gpus for _, gpus in pairs)], dtype=np.int64)
        self.values = np.full((len(jobs), len(pairs) + 1), -np.inf)
        self.option_of: list[dict[int, int]] = []
        self.held = np.zeros(len(jobs), dtype=np.int64)
        """(n,) column that each job holds, 0 for none."""
        for row, job in enumerate(jobs):
            values, nothing = option_values(job, settings)
            columns = [column[option.pool, option.gpus] for option in job.options]
            best = {place: int(index) for index, place in sorted(enumerate(columns), key=lambda pair: values[pair[0]])}
            if job.current is not None:
                self.held[row] = columns[job.current]
                best[columns[job.current]] = job.current
            self.option_of.append(best)
            self.values[row, 0] = nothing
            for place, index in best.items():
                self.values[row, place] = values[index]

    def solve(self, free: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int | None]:
        """Option of each job, None for nothing."""
        choice = assign(self.values, self.pools, self.gpus, free)
        return [self.option_of[row].get(int(place)) for row, place in enumerate(choice)]

    def bounded(self, chosen: Sequence[int | None], free: np.ndarray[tuple[int], np.dtype[np.int64]], max_changes: int) -> list[int | None]:
        """An answer in which at most `max_changes` running jobs change: those that gain the most, the others keep what they hold."""
        changing = [row for row, job in enumerate(self.jobs) if job.current is not None and chosen[row] != job.current]
        if len(changing) <= max_changes:
            return list(chosen)
        gains = {row: self._value(row, chosen[row]) - self._value(row, self.jobs[row].current) for row in changing}
        may = sorted(changing, key=lambda row: (-gains[row], row))[:max_changes]
        return self._without([row for row, place in enumerate(self.held) if place > 0 and row not in set(may)], free)

    def _without(self, kept: Sequence[int], free: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int | None]:
        """An answer in which the jobs of the rows `kept` keep what they hold."""
        room = free.copy()
        np.subtract.at(room, self.pools[self.held[kept]], self.gpus[self.held[kept]])
        rows = sorted(set(range(len(self.jobs))) - set(kept))
        answer = [job.current for job in self.jobs]
        for row, place in zip(rows, assign(self.values[rows], self.pools, self.gpus, room), strict=True):
            answer[row] = self.option_of[row].get(int(place))
        return answer

    def _value(self, row: int, option: int | None) -> float:
        if option is None:
            return float(self.values[row, 0])
        place = next(place for place, index in self.option_of[row].items() if index == option)
        return float(self.values[row, place])
