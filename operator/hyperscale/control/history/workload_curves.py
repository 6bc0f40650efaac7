"""Step time curves of the workloads in history."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hyperscale.model.history.step_curves import StepTime, Workload
from hyperscale.model.plan import Calibration

if TYPE_CHECKING:
    from hyperscale.control.history.calibration import MeasuredStep
    from hyperscale.control.history.run_store import RunStore


class Curves:
    """Step time curves of the workloads in history; one is fitted again only where its runs have changed. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._known: dict[Workload, tuple[tuple[MeasuredStep, ...], StepTime | None]] = {}

    def learn(self, history: RunStore, least: int, wanted: Collection[Workload] | None = None) -> dict[Workload, Calibration]:
        """Of those that taught a curve which can be trusted, with the factor of their own runs for what it does not reach.

        wanted: as in `RunStore.steps`. Raises HistoryError.
        """
        from hyperscale.control.history.calibration import calibrate
        from hyperscale.planner.cost.steptime_fit import (
            LEAST_ROWS,
            learn,
        )  # numpy, in an operator whose planners have a process of their own

        fitted = {}
        for workload, runs in history.steps(max(least, LEAST_ROWS), wanted).items():
            last_fit = self._known.get(workload)
            if last_fit is None or last_fit[0] != runs:
                last_fit = runs, learn([run.step for run in runs], [run.predicted_seconds for run in runs])
            fitted[workload] = last_fit
        self._known = fitted
        return {
            workload: replace(calibrate(workload.products, [run.ratio for run in reversed(runs)]), curve=curve)
            for workload, (runs, curve) in fitted.items()
            if curve is not None
        }
