"""The forecast of one epoch: the physical model, what finished runs teach, and how far both may be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from hyperscale.evaluate.forecast.forecast_types import EpochForecast, ForecastQuestion, ForecastRun


def forecast(runs: Sequence[ForecastRun], question: ForecastQuestion) -> EpochForecast:
    """Return the epoch seconds of `question` with 68 and 95 % intervals, from finished `runs`."""
    raise NotImplementedError
