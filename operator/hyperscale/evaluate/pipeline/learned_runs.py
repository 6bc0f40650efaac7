"""Finished runs of a question as the forecast takes them."""

from __future__ import annotations

import math
from typing import NamedTuple

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.lessons import ForecastRow
from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.forecast.forecast_types import ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.run_facts import RunFacts


class PastRuns(NamedTuple):
    """Finished runs, oldest first."""

    runs: tuple[ForecastRun, ...] = ()
    """Those that teach: ended well on the plan that they began with."""
    past: tuple[PastRun, ...] = ()
    """Those that were evaluated before they began."""
    facts: tuple[RunFacts, ...] = ()
    """Of all, failed ones too."""
    report: CalibrationReport | None = None
    """What they say of the stages."""


def forecast_run(row: ForecastRow) -> ForecastRun:
    """Return the run; unknown figures are NaN there."""
    features = RunFeatures(
        architecture=row.architecture,
        gpu_product=row.products,
        vertices=float(row.vertices),
        edges=float(row.edges),
        feature_size=float(row.feature_size),
        hidden_size=float(row.hidden_size),
        layers=float(row.layers),
        batch_size=math.nan if row.batch_size is None else float(row.batch_size),
    )
    return ForecastRun(row.run, features, row.ranks, row.hosts, row.measured_seconds, row.physical_seconds)
