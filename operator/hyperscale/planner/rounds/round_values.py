"""What each option is worth to each job.

With R the work left in seconds on the job's fastest single GPU, an option of speed s after a delay d ends the job in T = d + R / s.
Its effective speed R / T, the restart included, counts as ((R / T)^q - i^q) / q with curve q and idle speed i (a Box-Cox curve,
the logarithm where q is 0), times weight / R^b with priority b.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.planner.rounds.round_types import GpuOption, RoundJob, RoundSettings

MIN_WORK_SECONDS: Final = 1.0
SECONDS_UNIT: Final = 1000.0
"""Work left is counted in this unit, so that values are near 1."""


def single_rate(options: Sequence[GpuOption]) -> float:
    """Rate on the fastest single GPU; where no option has one GPU, the best rate a GPU. 0 where the job runs nowhere."""
    single = max((option.rate for option in options if option.gpus == 1), default=0.0)
    return single or max((option.rate / option.gpus for option in options), default=0.0)


def work_seconds(job: RoundJob, settings: RoundSettings) -> float:
    """Work left in seconds on the fastest single GPU: known, or the prior and a part of the work done."""
    rate = single_rate(job.options)
    if rate <= 0.0:
        return MIN_WORK_SECONDS
    if job.remaining is not None:
        return max(job.remaining / rate, MIN_WORK_SECONDS)
    return max(settings.prior_seconds + settings.growth * job.attained / rate, MIN_WORK_SECONDS)


def option_values(job: RoundJob, settings: RoundSettings) -> tuple[FloatArray, float]:
    """(k,) the worth of each option, -inf where the job does not run; and the worth of no GPUs.

    No GPUs are worth 0 to a job that waits, and cost a running job a restart.
    """
    rates = np.array([option.rate for option in job.options], dtype=np.float64)
    left, rate = work_seconds(job, settings), single_rate(job.options)
    runs = rates > 0.0
    run_seconds = left * rate / np.where(runs, rates, 1.0)
    moved = run_seconds + job.restart_seconds
    if job.current is None:
        values = _worth(moved, left, job, settings)
        return np.where(runs, values, -np.inf), 0.0
    margin = settings.min_gain_ratio * min(1.0, settings.gain_seconds / max(job.unchanged_seconds, 1.0))
    values = _worth(moved * (1.0 + margin), left, job, settings)
    stays = _worth(run_seconds, left, job, settings)[job.current] if runs[job.current] else 0.0
    again = _worth(moved, left, job, settings)[job.current] if runs[job.current] else 0.0
    values = np.where(runs, values, -np.inf)
    values[job.current] = stays
    return values, float(again - stays)


def _worth(seconds: FloatArray, left: float, job: RoundJob, settings: RoundSettings) -> FloatArray:
    """(k,) worth of ends after `seconds` (k,), at least 0."""
    speed = left / seconds
    idle, curve = settings.idle_speed, settings.curve
    floor = idle**curve if idle > 0.0 else 0.0
    worth = np.log(speed / idle) if curve == 0.0 else (speed**curve - floor) / curve
    scale = job.weight * (left / SECONDS_UNIT) ** -settings.priority
    return np.asarray(np.maximum(worth, 0.0) * scale)
