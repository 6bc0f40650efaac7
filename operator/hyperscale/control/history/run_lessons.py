"""What finished runs teach evaluations: rows for the forecast, past predictions with their outcomes, errors of planned ranges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hyperscale.control.history.runs_table import SHARES, SUCCEEDED, FinishedRun
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport, report_of
from hyperscale.evaluate.calibration.lessons import MAX_ASKED_PAST, MAX_FORECAST_RUNS, ForecastRow, Lessons, NodeLife
from hyperscale.evaluate.calibration.past_run import MAX_PAST_RUNS, PastRun
from hyperscale.evaluate.calibration.stated_figure import StatedFigure, error_of
from hyperscale.model.evaluation import EvaluationStatus

if TYPE_CHECKING:
    from hyperscale.control.history.run_store import RunStore

Lesson = TypeVar("Lesson")
_EVALUATIONS = msgspec.json.Decoder(EvaluationStatus)


def forecast_row(run: FinishedRun) -> ForecastRow | None:
    """Return the row of a run that teaches; None where its figures cannot be those of a run."""
    return None if run.measured_seconds is None or run.gpus < 1 else features_row(run)


def features_row(run: FinishedRun) -> ForecastRow:
    """Return what a run was like; an unknown epoch counts as predicted."""
    return ForecastRow(
        run=f"{run.namespace}/{run.name} ({run.uid[:8]})",
        architecture=run.architecture,
        products=run.products,
        vertices=run.vertices,
        edges=run.edges,
        feature_size=run.feature_size,
        hidden_size=run.hidden_size,
        layers=run.layers,
        ranks=max(1, run.gpus),
        hosts=max(1, min(run.hosts if run.hosts is not None else hosts_of(run.plan), run.gpus)),
        measured_seconds=run.predicted_seconds if run.measured_seconds is None else run.measured_seconds,
        physical_seconds=run.predicted_seconds,
        batch_size=run.batch_size,
    )


def hosts_of(plan: str) -> int:
    """Return the nodes of a plan's JSON; 1 where it names none."""
    try:
        return max(1, len(json.loads(plan)["ranksByNode"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return 1


def past_run(run: FinishedRun, measured_as_planned: bool) -> PastRun | None:
    """Return what was predicted before a run and what happened; None where nothing was, or it cannot be read.

    measured_as_planned: its epoch is that of the plan, as runs_table.TEACHES says.
    """
    if not run.evaluation:
        return None
    try:
        predicted = _EVALUATIONS.decode(run.evaluation)
    except (msgspec.DecodeError, RecursionError):
        return None
    if predicted.fault or not predicted.stages:
        return None
    undisturbed = not run.preemptions
    return PastRun(
        predicted=predicted,
        epoch_seconds=run.measured_seconds if measured_as_planned else None,
        run_seconds=run.run_seconds if undisturbed else None,
        succeeded=run.phase == SUCCEEDED,
        ended_in_time=run.ended_in_time if undisturbed else None,
    )


def plan_error(run: FinishedRun) -> float | None:
    """Return the error of the range that the plan stated of its epoch, in stated deviations; None where it stated none."""
    if run.low_seconds is None or run.high_seconds is None or run.measured_seconds is None:
        return None
    middle = run.predicted_seconds * run.correction
    return error_of(StatedFigure(middle, run.low_seconds, run.high_seconds, run.measured_seconds))


def lessons_and_report(history: RunStore, lives: Sequence[NodeLife], now: float) -> tuple[Lessons, CalibrationReport]:
    """Return what the newest runs teach evaluations, and how well those runs were predicted. Raises HistoryError.

    lives: of the cluster's nodes, up to `now` (Unix seconds).
    """
    newest = history.brief_runs(MAX_PAST_RUNS)[::-1]
    rows = [(run.namespace, row) for run, taught in newest if taught and (row := forecast_row(run)) is not None]
    past = [(run.namespace, predicted) for run, taught in newest if (predicted := past_run(run, taught)) is not None]
    planned = [error for run, taught in newest if taught and (error := plan_error(run)) is not None]
    report = report_of([predicted for _, predicted in past], planned, cut=len(newest) >= MAX_PAST_RUNS)
    return Lessons(shared(rows, MAX_FORECAST_RUNS), shared(past, MAX_ASKED_PAST), tuple(lives), now, report), report


def shared(entries: Sequence[tuple[str, Lesson]], most: int) -> tuple[Lesson, ...]:
    """Return the newest `most` of entries with their namespaces, oldest first, as the entries are.

    A namespace has at most a quarter of `most`, unless it is the only one.
    """
    alone = len({namespace for namespace, _ in entries}) <= 1
    counts = Counter[str]()
    kept: list[Lesson] = []
    for namespace, lesson in reversed(entries):
        if len(kept) < most and (alone or counts[namespace] < most // SHARES):
            counts[namespace] += 1
            kept.append(lesson)
    return tuple(reversed(kept))
