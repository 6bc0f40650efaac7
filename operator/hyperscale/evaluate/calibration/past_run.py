"""Finished runs with what the evaluation had said before they began: the pairs that stages are scored by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from hyperscale.evaluate.calibration.stated_figure import StatedFigure, as_before, error_of
from hyperscale.evaluate.calibration.widening import recalibration
from hyperscale.model.evaluation import EvaluationStatus, Interval, Recalibration

FORECAST: Final = "forecast"
TWIN: Final = "twin"
SCORED: Final = (FORECAST, TWIN)
"""Stages that state an interval."""
MAX_PAST_RUNS: Final = 1_000
"""Newest ones that stages are scored by."""


class PastRun(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finished run: the prediction as it was written before the run, and what happened."""

    predicted: EvaluationStatus
    epoch_seconds: float | None = None
    """Measured; absent where the run had more than one plan, or trained on a stand-in of its graph."""
    run_seconds: float | None = None
    """From its first epoch to its end; absent where it was stopped for others, or its times are unknown."""
    succeeded: bool = True
    ended_in_time: bool | None = None
    """Absent without a deadline."""

    def stated(self, stage: str) -> StatedFigure | None:
        """The figure of a stage of `SCORED` with its outcome; None where either is absent."""
        if stage == FORECAST:
            return _pair(self.predicted.epoch_seconds, self.epoch_seconds)
        return _pair(self.predicted.end_seconds, self.run_seconds, at_least=not self.succeeded)

    def applied(self, stage: str) -> Recalibration | None:
        """What had been applied to the stage's interval."""
        return next((each for each in self.predicted.recalibrations if each.stage == stage), None)


def _pair(stated: Interval | None, outcome: float | None, at_least: bool = False) -> StatedFigure | None:
    return None if stated is None or outcome is None else StatedFigure(stated.middle, stated.low, stated.high, outcome, at_least)


def errors_of(past: Iterable[PastRun], stage: str) -> list[float]:
    """Return the errors of a stage's statements as they were made, in the order of the runs."""
    pairs = (run.stated(stage) for run in past)
    return [error for pair in pairs if pair is not None and (error := error_of(pair)) is not None]


def learned_recalibration(past: Sequence[PastRun], stage: str, from_runs: bool, drifting: bool = False) -> Recalibration | None:
    """Return what finished runs teach about a stage's own statements, before anything was applied to them; None from too few.

    past: oldest first; from_runs: of forecasts that rest on finished runs, else of the plan's own range: their errors differ.
    """
    errors = []
    for run in past:
        pair = run.stated(stage)
        if pair is None or (run.predicted.forecast_runs > 0) != from_runs:
            continue
        error = error_of(as_before(pair, run.applied(stage)))
        if error is not None:
            errors.append(error)
    return recalibration(stage, errors, drifting)
