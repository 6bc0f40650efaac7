"""Runs of history as rows: epoch seconds, measured over predicted and accuracy, by workload, in groups by one column."""

from __future__ import annotations

from typing import Final

from hyperscale.cli.compare.result_files import Record
from hyperscale.cli.exit_codes import InputError
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import SUCCEEDED, FinishedRun
from hyperscale.evaluate.statistics.result_rows import ResultRow

WORKLOAD: Final = (
    "architecture",
    "layers",
    "hidden_size",
    "batch_size",
    "vertices",
    "edges",
    "feature_size",
    "method",
    "workers",
    "products",
)
"""Columns that make two runs the same case; the one that groups are made by is left out."""
RECORDED: Final = (*WORKLOAD, "planner", "gpus", "replans", "epochs", "finished_at", "predicted_seconds", "correction")
FIGURES: Final = {"measured_seconds": "s", "measured_over_predicted": "", "accuracy": ""}
"""Metrics with their units."""


def read_runs(url: str, limit: int) -> tuple[tuple[FinishedRun, ...], int]:
    """Return the newest runs that succeeded, and how many did not. Raises InputError."""
    try:
        history = RunStore(url, make=False)
        try:
            runs = history.runs(limit)
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from error
    succeeded = tuple(run for run in runs if run.phase == SUCCEEDED)
    return succeeded, len(runs) - len(succeeded)


def record_of(run: FinishedRun) -> Record:
    """Return the columns of a run as text; unknown ones are empty."""
    values = {name: getattr(run, name) for name in RECORDED} | _figures(run)
    return {name: "" if value is None else str(value) for name, value in values.items()}


def rows_of_run(run: FinishedRun, group_by: str) -> list[ResultRow]:
    """Return one row for each figure of a run that is known."""
    record = record_of(run)
    case = " ".join(f"{name}={record[name]}" for name in WORKLOAD if name != group_by)
    return [
        ResultRow(value, metric, FIGURES[metric], "history", case, "", "", record)
        for metric, value in _figures(run).items()
        if value is not None
    ]


def _figures(run: FinishedRun) -> dict[str, float | None]:
    ratio = run.ratio / run.correction if run.ratio is not None and run.correction > 0.0 else None
    return {"measured_seconds": run.measured_seconds, "measured_over_predicted": ratio, "accuracy": run.accuracy}
