"""`hyperscale history`: finished runs with their predicted and measured epochs, and the corrections that follow."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from typing import Final

import msgspec

from hyperscale.cli.errors import OK, InputError
from hyperscale.cli.tables import seconds_text, table
from hyperscale.history import FinishedRun, History, HistoryError
from hyperscale.model.job import Architecture
from hyperscale.model.plan import Calibration

VARIABLE: Final = "HYPERSCALE_HISTORY_URL"


class ShownRun(msgspec.Struct, frozen=True, rename="camel"):
    """A finished run, beside what was predicted; the schema of `-o json`."""

    job: str
    uid: str
    finished: str
    """RFC 3339."""
    phase: str
    architecture: str
    products: str
    workers: int
    predicted_seconds: float
    """As it was shown, corrected."""
    measured_seconds: float | None
    ratio: float | None
    """Measured / predicted as it was shown."""
    correction: float
    accuracy: float | None
    plan_id: str


class Shown(msgspec.Struct, frozen=True, rename="camel"):
    """All that is printed."""

    runs: tuple[ShownRun, ...]
    """Newest first."""
    calibrations: dict[str, tuple[Calibration, ...]]
    """By architecture."""


def run(arguments: argparse.Namespace) -> int:
    """Read and print."""
    shown = _read(arguments)
    if arguments.output == "json":
        print(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    else:
        print("\n".join(lines(shown, arguments.min_runs)))
    return OK


def lines(shown: Shown, min_runs: int) -> list[str]:
    """The tables."""
    if not shown.runs:
        return ["No run has finished yet."]
    header = ("JOB", "FINISHED", "PHASE", "MODEL", "GPUS", "WORKERS", "PREDICTED", "MEASURED", "RATIO", "ACCURACY")
    rows = [
        (
            one.job,
            one.finished,
            one.phase,
            one.architecture,
            one.products or "unlabelled",
            str(one.workers),
            seconds_text(one.predicted_seconds),
            seconds_text(one.measured_seconds),
            "-" if one.ratio is None else f"{one.ratio:.3g}",
            "-" if one.accuracy is None else f"{one.accuracy:.2%}",
        )
        for one in shown.runs
    ]
    text = table(header, rows, right=frozenset({5, 6, 7, 8, 9}))
    known = [(name, each) for name, found in sorted(shown.calibrations.items()) for each in found]
    if not known:
        return [*text, "", f"Predictions are not corrected: no architecture has {min_runs} finished runs on one mix of GPUs."]
    corrections = [
        (name, each.products or "unlabelled", f"{each.factor:.4g}", f"{each.spread:.3g}", str(each.runs)) for name, each in known
    ]
    return [*text, "", *table(("MODEL", "GPUS", "FACTOR", "SPREAD", "RUNS"), corrections, right=frozenset({2, 3, 4}))]


def _read(arguments: argparse.Namespace) -> Shown:
    url, architecture = arguments.url or os.environ.get(VARIABLE, ""), arguments.architecture
    if not url:
        raise InputError(f"--url: no database is named; write one such as sqlite:////FILE, or set ${VARIABLE}")
    if architecture is not None and architecture not in tuple(Architecture):
        raise InputError(f"--architecture: {architecture!r} is none; write one of {', '.join(Architecture)}")
    try:
        history = History(url, make=False)
        try:
            runs = history.runs(arguments.limit, architecture)
            found = history.calibrations(arguments.min_runs)
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--url: {error}") from error
    kept = {name: known for name, known in found.items() if architecture in (None, name)}
    return Shown(tuple(map(_shown, runs)), kept)


def _shown(one: FinishedRun) -> ShownRun:
    predicted = one.predicted_seconds * one.correction
    return ShownRun(
        job=f"{one.namespace}/{one.name}",
        uid=one.uid,
        finished=datetime.fromtimestamp(one.finished_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        phase=one.phase,
        architecture=one.architecture,
        products=one.products,
        workers=one.workers,
        predicted_seconds=predicted,
        measured_seconds=one.measured_seconds,
        ratio=one.measured_seconds / predicted if one.measured_seconds and predicted > 0 else None,
        correction=one.correction,
        accuracy=one.accuracy,
        plan_id=one.plan_id,
    )
