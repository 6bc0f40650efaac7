"""The outlook of a job: when it ends, and what an interval, a spare or a bad node is worth. The entry point of the twin."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hyperscale.evaluate.twin.checkpoint_interval import best_interval
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.risk_figures import binomial_bounds, costly_nodes, end_quantile, mean_ettr, spare_worth, time_parts
from hyperscale.evaluate.twin.twin_types import JobRisk, Outlook

MAX_SEARCH_FUTURES: Final = 2000
"""Futures for each interval that is tried: all share them, so that differences are known better than ends."""
LATE: Final = 0.95
"""Part of the futures that end by `late_end_seconds`."""


def outlook(job: JobRisk, futures: int, seed: int, deadline_seconds: float | None) -> Outlook:
    """Return what `futures` simulated futures say of `job`; the same arguments give the same bytes.

    deadline_seconds: from the start of the job, None without one.
    Raises ValueError with the field and what to write instead.
    """
    if deadline_seconds is not None and not 0.0 < deadline_seconds < math.inf:
        raise ValueError(f"deadline_seconds: {deadline_seconds} is no time above 0; write seconds from the start of the job, or none")
    base = play(job, futures, seed)
    past = int(np.isinf(base.end_seconds).sum())
    in_time, low, high = None, None, None
    if deadline_seconds is not None:
        in_time, low, high = _chance(base.end_seconds <= deadline_seconds, base.horizon_seconds < deadline_seconds, past)
    return Outlook(
        futures=futures,
        deadline_seconds=deadline_seconds,
        p_by_deadline=in_time,
        low=low,
        high=high,
        past_horizon=past,
        expected_end_seconds=None if past else float(base.end_seconds.mean()),
        median_end_seconds=end_quantile(base, 0.5),
        late_end_seconds=end_quantile(base, LATE),
        ettr=mean_ettr(base),
        expected_failures=float(base.failures.mean()),
        best_interval=best_interval(job, min(futures, MAX_SEARCH_FUTURES), seed),
        spare_worth=spare_worth(job, base, seed, deadline_seconds),
        costly_nodes=costly_nodes(job, base),
        time_parts=time_parts(base),
    )


def _chance(in_time: np.ndarray, beyond: bool, past: int) -> tuple[float, float, float]:
    """Part of the futures in time and its exact bounds; futures cut off before the deadline may still end in time."""
    successes, trials = int(in_time.sum()), len(in_time)
    low = binomial_bounds(successes, trials)[0]
    high = binomial_bounds(successes + past if beyond else successes, trials)[1]
    return successes / trials, low, high
