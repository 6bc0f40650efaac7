"""Finished runs of a question as the forecast takes them."""

from __future__ import annotations

import math

from hyperscale.evaluate.forecast.forecast_types import ForecastRun, RunFeatures
from hyperscale.evaluate.service.lessons import ForecastRow


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
