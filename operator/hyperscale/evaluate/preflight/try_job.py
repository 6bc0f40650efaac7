"""A preflight of a job: its first steps, the same steps again with the same seed, and smaller graphs where its memory must be predicted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.evaluate.preflight.job_trial import JobTrial, Surroundings, trial_of
from hyperscale.evaluate.preflight.memory_forecast import TrialPeak, equal_share_bytes
from hyperscale.evaluate.preflight.trial_types import Limits, Observation, TrialRequest
from hyperscale.evaluate.preflight.trials import TrialError, observe
from hyperscale.evaluate.preflight.verdict import report_of
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.preflight_report import PreflightReport

SMALLER: Final = (0.5, 0.25)
"""Sizes of further trials, of the first one's; the first that still leaves time for it is enough."""
REPEATED_STEPS: Final = 3
MARGIN: Final = 1.3
"""A further trial may take this multiple of the first one's seconds; with less time left it is not begun."""

Observe = Callable[[TrialRequest], Observation]


class Preflight(NamedTuple):
    """What trials said, and the peaks of memory that a plan's GPUs are predicted from."""

    report: PreflightReport
    peaks: tuple[TrialPeak, ...]


def preflight(key: str, job: JobSpec, limits: Limits, around: Surroundings, *, seed: int = 0, watch: Observe = observe) -> Preflight:
    """Return what the first steps of a job's own code did; all trials together end within the limit of seconds.

    Raises TrialInputError for a job that cannot be tried, TrialError where the watcher fails.
    """
    began = time.monotonic()
    trial = trial_of(key, job, limits, around, seed=seed)
    first = watch(trial.request)
    if first.faults or not first.steps:
        return Preflight(report_of(first, None, limits, note=trial.note), ())
    left = _Left(limits.seconds - (time.monotonic() - began), MARGIN * first.seconds)
    again = left.observed(replace(trial.request, limits=replace(limits, steps=min(REPEATED_STEPS, first.steps))), watch)
    peaks = _peaks(key, job, around, trial, first, left, watch)
    predicted = equal_share_bytes(job, peaks)
    rounded = None if predicted is None else round(predicted)
    return Preflight(report_of(first, again, limits, predicted_gpu_bytes=rounded, note=trial.note), peaks)


class _Left:
    """Seconds for further trials."""

    def __init__(self, seconds: float, needed_seconds: float) -> None:
        self._seconds, self._needed = seconds, needed_seconds

    def observed(self, request: TrialRequest, watch: Observe) -> Observation | None:
        """None where the time that is left is too short, or where it failed."""
        if self._seconds < self._needed:
            return None
        began = time.monotonic()
        try:
            trial = watch(replace(request, limits=replace(request.limits, seconds=self._seconds)))
        except TrialError:
            return None  # what the first trial said stands
        finally:
            self._seconds -= time.monotonic() - began
        return None if trial.faults or not trial.steps else trial


def _peaks(
    key: str, job: JobSpec, around: Surroundings, trial: JobTrial, first: Observation, left: _Left, watch: Observe
) -> tuple[TrialPeak, ...]:
    """Of an own script on a stand-in, whose size the contract states: the peak at two sizes. A built-in model is counted instead."""
    if trial.request.script is None or first.peak_bytes is None:
        return ()
    if trial.scale >= 1.0:
        return (TrialPeak(1.0, first.peak_bytes),)
    for part in SMALLER:
        scale = trial.scale * part
        smaller = left.observed(trial_of(key, job, trial.request.limits, around, scale=scale, seed=trial.request.seed).request, watch)
        if smaller is not None and smaller.peak_bytes is not None:
            return (TrialPeak(trial.scale, first.peak_bytes), TrialPeak(scale, smaller.peak_bytes))
    return ()
