"""The roll of `kinds` for many sets of stops of the same jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hyperscale.plan.queue import rule
from hyperscale.plan.queue.kinds import Contender, Outcome, rolled


def mean_seconds(jobs: Sequence[Contender], free: Sequence[int], settings: rule.Settings) -> tuple[dict[str, float], float]:
    """Seconds to the end of each job if none is stopped, and their weighted mean."""
    forecast = Forecast(jobs, free, settings)
    return forecast.outcome(frozenset()).ends, forecast.mean_seconds(frozenset())


class Forecast:
    """What follows from stopping these or those jobs."""

    def __init__(self, jobs: Sequence[Contender], free: Sequence[int], settings: rule.Settings) -> None:
        self._jobs, self._free, self._settings = list(jobs), tuple(free), settings
        self._weight = sum(job.weight for job in jobs)

    def outcome(self, stopped: frozenset[str]) -> Outcome:
        """Every job's end, and who starts at once."""
        return rolled(self._jobs, self._free, self._settings, stopped)

    def mean_seconds(self, stopped: frozenset[str]) -> float:
        """Weighted mean of the seconds from now to the end of all jobs."""
        ends = self.outcome(stopped).ends
        return sum(job.weight * ends[job.key] for job in self._jobs) / self._weight if self._weight else 0.0
