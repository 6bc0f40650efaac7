"""`hyperscale history`: finished runs with their predicted and measured epochs, and the corrections that follow."""

from __future__ import annotations

import argparse
import json
import os
from typing import Final

import msgspec

from hyperscale.cli.exit_codes import OK, InputError
from hyperscale.cli.history.calibration_view import calibration_lines, factor_lines
from hyperscale.cli.text_tables import print_answer, seconds_text, table
from hyperscale.control.history.calibration import heard_steps
from hyperscale.control.history.run_lessons import lessons_and_report
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.control.history.taught_speeds import Speeds
from hyperscale.control.history.workload_curves import shared_curve
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.model.api.job import Architecture
from hyperscale.model.api.measured import PairBytes, PhaseSeconds
from hyperscale.model.history.corrections import Corrections, shared_corrections
from hyperscale.model.history.step_curves import StepTime
from hyperscale.model.plan import Correction
from hyperscale.util.rfc3339 import shown_timestamp

VARIABLE: Final = "HYPERSCALE_HISTORY_URL"


class ShownRun(msgspec.Struct, frozen=True, rename="camel"):
    """A finished run, beside what was predicted; the schema of `-o json`."""

    job: str
    uid: str
    finished: str
    """RFC 3339."""
    state: str
    """Succeeded or Failed."""
    architecture: str
    products: str
    workers: int
    predicted_seconds: float
    """As it was shown, corrected."""
    measured_seconds: float | None
    ratio: float | None
    """Measured / predicted as it was shown."""
    correction: float
    by_curve: bool
    """True: the correction is the workload's step time curve; False: one factor."""
    accuracy: float | None
    plan_id: str
    generated: bool = False
    """True: accuracy is of a generated graph that stood in for a builtin one."""
    phases: tuple[PhaseSeconds, ...] = ()
    """Of a mean epoch, the slowest rank's."""
    rank_compute_seconds: tuple[float, ...] = ()
    """Of an epoch, by MPI rank."""
    busiest_pairs: tuple[PairBytes, ...] = ()
    """Of ranks, by what one sends the other in a mean epoch."""


class _Measured(msgspec.Struct, rename="camel"):
    generated: bool = False
    phases: tuple[PhaseSeconds, ...] = ()
    rank_compute_seconds: tuple[float, ...] = ()
    busiest_pairs: tuple[PairBytes, ...] = ()


class ShownCurve(msgspec.Struct, frozen=True, rename="camel"):
    """A workload whose runs are enough for a step time curve."""

    workload: dict[str, str | int | None]
    runs: int
    placements: int
    """Unlike ones, by GPUs on each node."""
    curve: StepTime | None
    """None: it does not foretell held out runs better than a factor, and is not used."""


class Shown(msgspec.Struct, frozen=True, rename="camel"):
    """All that is printed."""

    runs: tuple[ShownRun, ...]
    """Newest first."""
    calibrations: dict[str, tuple[Correction, ...]]
    """By architecture."""
    curves: tuple[ShownCurve, ...] = ()
    """Of workloads with enough runs, those that ran last first."""
    corrections: dict[str, Corrections] = {}
    """What the cost model is corrected by where placements are chosen, by architecture; "" for one without any run."""
    report: CalibrationReport | None = None
    """How well the newest runs were predicted; with --architecture of all architectures all the same."""


def run(arguments: argparse.Namespace) -> int:
    """Read and print."""
    if arguments.placements is not None:
        from hyperscale.cli.history.placements import run as judge_table

        return judge_table(arguments)
    if arguments.decisions:
        from hyperscale.cli.history.decisions_view import run as show_decisions

        return show_decisions(arguments, VARIABLE)
    shown = _read(arguments)
    print_answer(shown, lines(shown, arguments.min_runs), arguments.output)
    return OK


def lines(shown: Shown, min_runs: int) -> list[str]:
    """The tables."""
    if not shown.runs:
        return ["No run has finished yet."]
    header = ("JOB", "FINISHED", "STATE", "MODEL", "GPUS", "WORKERS", "PREDICTED", "MEASURED", "RATIO", "BY", "ACCURACY")
    text = table(header, map(_cells, shown.runs), right=frozenset({5, 6, 7, 8, 10}))
    text += calibration_lines(shown.report)
    text += factor_lines(shown.corrections)
    factors = [(name, each) for name, listed in sorted(shown.calibrations.items()) for each in listed]
    if not factors:
        few = f"no architecture has {min_runs} finished runs on one mix of GPUs, predicted by today's cost model"
        return [*text, "", f"Predictions are not corrected: {few}."]
    corrections = [
        (name, each.products or "unlabelled", f"{each.factor:.4g}", f"{each.spread:.3g}", str(each.runs)) for name, each in factors
    ]
    text += ["", *table(("MODEL", "GPUS", "FACTOR", "SPREAD", "RUNS"), corrections, right=frozenset({2, 3, 4}))]
    return [*text, "", *_curves(shown.curves)] if shown.curves else text


def _cells(one: ShownRun) -> tuple[str, ...]:
    """One run as a row of the table."""
    return (
        one.job,
        one.finished,
        one.state,
        one.architecture,
        one.products or "unlabelled",
        str(one.workers),
        seconds_text(one.predicted_seconds),
        seconds_text(one.measured_seconds),
        "-" if one.ratio is None else f"{one.ratio:.3g}",
        "curve" if one.by_curve else "factor" if one.correction != 1.0 else "model",
        "-" if one.accuracy is None else f"{one.accuracy:.2%}{' (generated graph)' if one.generated else ''}",
    )


def _curves(curves: tuple[ShownCurve, ...]) -> list[str]:
    header = ("MODEL", "LAYERS", "HIDDEN", "BATCH", "VERTICES", "GPUS", "RUNS", "PLACEMENTS", "STEP TIME CURVE")
    rows = []
    for one in curves:
        figures = [one.workload[name] for name in ("architecture", "layers", "hidden_size", "batch_size", "vertices", "products")]
        said = "not used: one factor does as well" if one.curve is None else f"error of runs held out {one.curve.log_error:.1%}"
        cells = ["full graph" if figure is None else str(figure) or "unlabelled" for figure in figures]
        rows.append((*cells, str(one.runs), str(one.placements), said))
    return table(header, rows, right=frozenset({1, 2, 3, 4, 6, 7}))


def _read(arguments: argparse.Namespace) -> Shown:
    url, architecture = arguments.url or os.environ.get(VARIABLE, ""), arguments.architecture
    if not url:
        raise InputError(f"--url: no database is named; write one such as sqlite:////FILE, or set ${VARIABLE}")
    if architecture is not None and architecture not in tuple(Architecture):
        raise InputError(f"--architecture: {architecture!r} is none; write one of {', '.join(Architecture)}")
    try:
        history = RunStore(url, make=False)
        try:
            runs = history.runs(arguments.limit, architecture)
            calibrations = history.calibrations(arguments.min_runs)
            curves = _taught(history, arguments.min_runs, architecture)
            speeds = shared_corrections(Speeds().learn(history, arguments.min_runs))
            report = _report(history)
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--url: {error}") from error
    kept = {
        name: tuple(Correction(one.products, one.factor, one.spread, one.runs) for one in factors)
        for name, factors in calibrations.items()
        if architecture in (None, name)
    }
    return Shown(
        tuple(map(_shown, runs)), kept, curves, {name: each for name, each in speeds.items() if architecture in (None, name)}, report
    )


def _report(history: RunStore) -> CalibrationReport | None:
    """How well the newest runs were predicted; None without scipy, which another extra brings."""
    try:
        return lessons_and_report(history, (), 0.0)[1]
    except ImportError:
        return None


def _taught(history: RunStore, min_runs: int, architecture: str | None) -> tuple[ShownCurve, ...]:
    """Curves as the operator fits them."""
    from hyperscale.planner.cost.steptime_fit import LEAST_ROWS  # numpy, which the tables alone do without

    shown, least = [], max(min_runs, LEAST_ROWS)
    for workload, runs in history.steps(least).items():
        if architecture in (None, workload.architecture):
            steps = [run.step for run in heard_steps(runs, least)]
            curve = shared_curve(runs, least)
            shown.append(ShownCurve(workload._asdict(), len(steps), len({step.counts for step in steps}), curve))
    return tuple(shown)


def _by_curve(plan: str) -> bool:
    """Whether the prediction in a plan's JSON was a curve's; plans of earlier versions know none."""
    try:
        return json.loads(plan)["predicted"]["calibration"]["byCurve"] is True
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _measured(measured: str) -> _Measured:
    """A run's own words, as JSON or none."""
    try:
        return msgspec.json.decode(measured, type=_Measured)
    except (msgspec.DecodeError, RecursionError):
        return _Measured()


def _shown(one: FinishedRun) -> ShownRun:
    predicted, measured = one.predicted_seconds * one.correction, _measured(one.measured)
    return ShownRun(
        job=f"{one.namespace}/{one.name}",
        uid=one.uid,
        finished=shown_timestamp(one.finished_at),
        state=one.phase,
        architecture=one.architecture,
        products=one.products,
        workers=one.workers,
        predicted_seconds=predicted,
        measured_seconds=one.measured_seconds,
        ratio=one.measured_seconds / predicted if one.measured_seconds and predicted > 0 else None,
        correction=one.correction,
        by_curve=_by_curve(one.plan),
        accuracy=one.accuracy,
        plan_id=one.plan_id,
        generated=measured.generated,
        phases=measured.phases,
        rank_compute_seconds=measured.rank_compute_seconds,
        busiest_pairs=measured.busiest_pairs,
    )
