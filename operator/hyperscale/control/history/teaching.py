"""Everything that history teaches, read in one go. Blocking: call it in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from hyperscale.control.history.taught_speeds import Speeds
from hyperscale.control.history.workload_curves import Curves
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.lessons import Lessons
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.history.step_curves import CurveKey
from hyperscale.model.plan import Calibration

if TYPE_CHECKING:
    from hyperscale.control.history.run_store import RunStore


class Taught(NamedTuple):
    """The lessons of history, for planners, evaluations and people."""

    calibrations: Mapping[str, tuple[Calibration, ...]]
    corrections: Mapping[str, Corrections]
    """What the cost model is corrected by, by architecture; "" for every other one."""
    curves: Mapping[CurveKey, Calibration]
    lessons: Lessons
    report: CalibrationReport


class Teacher:
    """Keeps what need not be computed again."""

    def __init__(self, min_runs: int) -> None:
        """min_runs: finished runs that a correction needs."""
        self._min_runs = min_runs
        self._curves = Curves()
        self._speeds = Speeds()

    def teach(self, history: RunStore, cluster: str, now: float) -> Taught:
        """Return what history teaches now; cluster: whose nodes, "" for none. Raises HistoryError."""
        from hyperscale.control.history.run_lessons import lessons_and_report  # SQLAlchemy, as where the store is opened

        lives = history.node_lives(cluster) if cluster else ()
        lessons, report = lessons_and_report(history, lives, now)
        corrections = self._speeds.learn(history, self._min_runs)
        return Taught(history.calibrations(self._min_runs), corrections, self._curves.learn(history, self._min_runs), lessons, report)
