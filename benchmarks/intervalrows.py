"""Coverage, exact bounds and interval score of forecasts, as rows of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from benchmarks.common import Row
from hyperscale.evaluate.forecast.conformal_interval import LEVELS, interval_score
from hyperscale.evaluate.forecast.epoch_forecast import Forecaster
from hyperscale.evaluate.forecast.forecast_types import EpochForecast, ForecastRun, question_of
from hyperscale.model.graph import FloatArray


@dataclass(frozen=True)
class Answer:
    """A forecast and what happened."""

    forecast: EpochForecast
    measured_seconds: float


def answer(forecaster: Forecaster, run: ForecastRun, *, widened: bool = True) -> Answer:
    """The forecast of `run`, and what it measured."""
    return answers_of(forecaster, [run], widened=widened)[0]


def answers_of(forecaster: Forecaster, runs: Sequence[ForecastRun], *, widened: bool = True) -> list[Answer]:
    """The forecasts of `runs`, and what they measured."""
    forecasts = forecaster.ask_all([question_of(run) for run in runs], widened=widened)
    return [Answer(one, run.measured_seconds) for one, run in zip(forecasts, runs, strict=True)]


def ends(answers: Sequence[Answer]) -> FloatArray:
    """(levels, 2, n) low and high ends in ln(seconds)."""
    lows = [[a.forecast.low_68 for a in answers], [a.forecast.low_95 for a in answers]]
    highs = [[a.forecast.high_68 for a in answers], [a.forecast.high_95 for a in answers]]
    limits: FloatArray = np.log(np.array([lows, highs])).transpose(1, 0, 2)
    return limits


def bounds(hits: int, trials: int) -> tuple[float, float]:
    """Exact 95 % bounds of a proportion (Clopper & Pearson 1934)."""
    low = float(scipy.stats.beta.ppf(0.025, hits, trials - hits + 1)) if hits else 0.0
    high = float(scipy.stats.beta.ppf(0.975, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def interval_rows(benchmark: str, case: str, method: str, answers: Sequence[Answer], seed: int = 0) -> list[Row]:
    """Coverage with exact bounds, and mean interval score of ln(seconds), for each level."""
    if not answers:
        return []
    truth = np.log([one.measured_seconds for one in answers])
    rows = []
    for level, (low, high) in zip(LEVELS, ends(answers), strict=True):
        hits = int(((low <= truth) & (truth <= high)).sum())
        least, most = bounds(hits, len(truth))
        name = f"{100 * level:.0f} %"
        rows.append(Row(benchmark, case, method, f"coverage of {name} ({len(truth)} rows)", 100.0 * hits / len(truth), "%", seed))
        rows.append(Row(benchmark, case, method, f"coverage of {name}, exact low", 100.0 * least, "%", seed))
        rows.append(Row(benchmark, case, method, f"coverage of {name}, exact high", 100.0 * most, "%", seed))
        score = float(interval_score(low, high, truth, level).mean())
        rows.append(Row(benchmark, case, method, f"interval score of {name}", score, "ln s", seed))
    return rows
