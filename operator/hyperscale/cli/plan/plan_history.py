"""What finished runs teach plans, as the operator reads it from its database, for `hyperscale plan --history`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperscale.cli.exit_codes import InputError
from hyperscale.model.api.datasets import is_sized
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.history.step_curves import CurveKey, workload_of
from hyperscale.model.plan import Calibration
from hyperscale.model.planning import AskedSize, chosen_calibrations, chosen_corrections

if TYPE_CHECKING:
    import sqlalchemy as sql

    from hyperscale.control.history.runs_table import FinishedRun

MAX_SIZED_RUNS: Final = 10_000
"""Newest runs whose sizes are counted."""
MAX_SIZES: Final = 32
"""Different numbers of GPUs, as the operator states at most; those with the fewest GPUs asked for are left out."""


@dataclass(frozen=True)
class PlanLessons:
    """What runs teach, by what they were runs of."""

    shown: str
    """The number of runs that correct placements, for people."""
    calibrations: Mapping[str, tuple[Calibration, ...]]
    """By architecture."""
    curves: Mapping[CurveKey, Calibration]
    corrections: Mapping[str, Corrections]
    """By architecture; "" for every other one."""
    asked_sizes: tuple[AskedSize, ...]

    def calibration(self, job: JobSpec, namespace: str = "") -> tuple[Calibration, ...]:
        """What finished runs taught about a job of a namespace, as the operator picks it."""
        return chosen_calibrations(self.calibrations, self.curves, job, namespace)

    def placement_corrections(self, job: JobSpec, policy: PolicySpec, namespace: str = "") -> Corrections | None:
        """What finished runs taught the cost model about a job of a namespace, as the operator picks it."""
        return chosen_corrections(self.corrections, job, policy, namespace)


def read_lessons(source: str, min_runs: int, jobs: Iterable[JobSpec]) -> PlanLessons:
    """What the runs of a database teach about these jobs, read once. Raises InputError.

    source: its URL, or the file of a SQLite database
    """
    # SQLAlchemy and scipy: only this option pays for them.
    from hyperscale.control.history.run_store import HistoryError, RunStore
    from hyperscale.control.history.taught_speeds import Speeds
    from hyperscale.control.history.workload_curves import Curves

    wanted = {workload_of(job, "") for job in jobs if is_sized(job)}
    try:
        history = RunStore(database_url(source), make=False)
        try:
            corrections = Speeds().learn(history, min_runs)
            calibrations, curves = history.calibrations(min_runs), Curves().learn(history, min_runs, wanted)
            newest = [run for run, _ in history.brief_runs(MAX_SIZED_RUNS)]
        finally:
            history.close()
    except HistoryError as error:
        raise InputError(f"--history: {error}") from None
    return PlanLessons(_shown(len(newest), corrections, min_runs), calibrations, curves, corrections, sizes_of(newest))


def database_url(source: str) -> str | sql.URL:
    """A URL as it is; of a file the URL, whatever characters its name has. Raises InputError where neither is there."""
    import sqlalchemy as sql

    from hyperscale.control.history.database import masked_source

    try:
        is_file = Path(source).is_file()
    except OSError:  # such as a name that is too long
        is_file = False
    if is_file:
        return sql.URL.create("sqlite", database=str(Path(source).resolve()))
    if "://" in source:
        return source
    wanted = "write a SQLite file, sqlite:////FILE or postgresql://USER@HOST/DATABASE"
    raise InputError(f"--history: there is no file {masked_source(source)!r}; {wanted}")


def sizes_of(runs: Iterable[FinishedRun]) -> tuple[AskedSize, ...]:
    """Numbers of GPUs of the runs' pods, fewest first, each weighted by its pods; history keeps no cores and no memory of them."""
    pods = Counter[int]()
    for run in runs:
        if run.workers > 0 and run.gpus >= run.workers:
            pods[run.gpus // run.workers] += run.workers
    most = sorted(pods, key=lambda gpus: (-gpus * pods[gpus], gpus))[:MAX_SIZES]
    return tuple(AskedSize(gpus, 0.0, 0.0, float(pods[gpus])) for gpus in sorted(most))


def _shown(runs: int, corrections: Mapping[str, Corrections], min_runs: int) -> str:
    taught = max((one.all_runs for one in corrections.values()), default=0)
    count = f"{runs} or more" if runs == MAX_SIZED_RUNS else f"{runs}"
    if taught:
        return f"{count} finished runs, {taught} of them correct placements"
    return f"{count} finished runs, too few of which can correct placements: that takes {min_runs} that succeeded"
