"""The runs of a cluster for `hyperscale learn queue --history`: from the operator's database, or from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperscale.cli.exit_codes import InputError

if TYPE_CHECKING:
    from hyperscale.control.history.runs_table import FinishedRun
    from hyperscale.learn.lesson import PastRun

MAX_RUNS: Final = 20_000
"""The newest that are read."""
COLUMNS: Final = ("arrival_seconds", "run_seconds", "workers")


def past_runs(source: str) -> tuple[PastRun, ...]:
    """Return the runs of a database URL or of a CSV file with COLUMNS. Raises InputError."""
    return tuple(_of_database(source) if "://" in source else _of_file(Path(source)))


def _of_database(url: str) -> Iterator[PastRun]:
    from hyperscale.control.history.database import HistoryError
    from hyperscale.control.history.run_store import RunStore

    try:
        store = RunStore(url, make=False)
        try:
            runs = store.runs(MAX_RUNS)
        finally:
            store.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from error
    yield from (past for run in runs if (past := _past(run)) is not None)


def _past(run: FinishedRun) -> PastRun | None:
    """None where the length of the run is unknown. The job arrived when it was created; in rows of earlier versions its start counts."""
    from hyperscale.learn.lesson import PastRun

    if run.run_seconds is None or run.run_seconds <= 0.0:
        return None
    began = run.finished_at - run.run_seconds
    arrived = began if run.created_at is None else run.created_at
    return PastRun(arrived, run.run_seconds, run.workers, began, run.gpus // run.workers or None if run.workers else None)


def _of_file(file: Path) -> Iterator[PastRun]:
    from hyperscale.learn.lesson import PastRun
    from hyperscale.learn.streams.history_streams import fault_of

    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines, skipinitialspace=True)
            try:
                missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
                if missing:
                    raise InputError(f"--history: {file} has no column {missing[0]}; write the columns {', '.join(COLUMNS)}")
                for row in reader:
                    run = PastRun(float(row["arrival_seconds"]), float(row["run_seconds"]), int(row["workers"]))
                    if fault := fault_of(run):
                        raise InputError(f"--history: {file} line {reader.line_num}: {fault}")
                    yield run
            except (TypeError, ValueError):
                raise InputError(f"--history: {file} line {reader.line_num}: write two numbers and a whole number of workers") from None
            except csv.Error as error:
                raise InputError(f"--history: {file} line {reader.line_num + 1}: {error}; write two numbers and a whole number") from None
    except (OSError, UnicodeDecodeError) as error:
        from hyperscale.control.history.database import masked_source  # SQLAlchemy, which a CSV file alone does without

        cause = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--history: cannot read {masked_source(str(file))!r}: {cause}; name a database URL or a CSV file") from None
