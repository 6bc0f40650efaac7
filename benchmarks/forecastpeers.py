"""What the forecast is compared with: curves through two epochs, additive logarithms, the nearest dataset, physics alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.forecast.novelty import vectors


def inverse(one: float, two: float, ranks: int) -> float:
    """Return a / p + b through the times on 1 and 2 GPUs."""
    slope = 2.0 * (one - two)
    return slope / ranks + one - slope


def amdahl(one: float, two: float, ranks: int) -> float:
    """Amdahl's law: the serial part, from 0 to 1, that explains the time on 2 GPUs."""
    serial = min(1.0, max(0.0, 2.0 * two / one - 1.0))
    return one * (serial + (1.0 - serial) / ranks)


def power(one: float, two: float, ranks: int) -> float:
    """A straight line in logarithms."""
    return one * math.pow(ranks, math.log2(two / one))


def nearest_count(_: float, two: float, ranks: int) -> float:
    """The time on 2 GPUs, whatever is asked."""
    del ranks
    return two


CURVES: Final[Mapping[str, Callable[[float, float, int], float]]] = {
    "a/p + b": inverse,
    "Amdahl": amdahl,
    "power law": power,
    "nearest count": nearest_count,
}


def scaling_of_others(others: Sequence[ForecastRun], two: float, ranks: int) -> float:
    """The time on 2 GPUs times the mean scaling (of logarithms) from 2 GPUs of all other curves."""
    by_curve: dict[Curve, dict[int, float]] = {}
    for run in others:
        by_curve.setdefault(curve(run), {})[run.ranks] = math.log(run.measured_seconds)
    scalings = [times[ranks] - times[2] for times in by_curve.values() if 2 in times and ranks in times]
    return two * math.exp(float(np.mean(scalings))) if scalings else two


Curve = tuple[str, str, str, float]


def curve(run: ForecastRun) -> Curve:
    """Runs that differ in ranks and hosts only."""
    return run.features.architecture, run.features.system, run.features.dataset, run.features.hidden_size


Level = Callable[[ForecastRun], tuple[str, ...]]
"""What shares one level of the held-out dataset: its model, or its model and system."""


def additive(training: Sequence[ForecastRun], given: Sequence[ForecastRun], asked: ForecastRun, level: Level) -> float:
    """Seconds by ln t = effect of (model, system, GPUs) + level of the dataset.

    The level is that of `given` rows, else the mean of the other datasets'.
    """
    levels: dict[tuple[str, str], list[float]] = {}
    for run in training:
        levels.setdefault((run.features.architecture, run.features.dataset), []).append(math.log(run.measured_seconds))
    means = {key: float(np.mean(values)) for key, values in levels.items()}

    def effect(run: ForecastRun) -> float:
        alike = [
            math.log(one.measured_seconds) - means[one.features.architecture, one.features.dataset]
            for one in training
            if (one.features.architecture, one.features.system, one.ranks) == (run.features.architecture, run.features.system, run.ranks)
        ]
        return float(np.mean(alike)) if alike else 0.0

    own = [math.log(run.measured_seconds) - effect(run) for run in given if level(run) == level(asked)]
    others = [value for (architecture, _), value in means.items() if architecture == asked.features.architecture]
    return math.exp(effect(asked) + float(np.mean(own or others or list(means.values()))))


def nearest_dataset(training: Sequence[ForecastRun], given: Sequence[ForecastRun], asked: ForecastRun, level: Level) -> float:
    """Seconds of the same row of the nearest dataset by size, degree and feature size, times measured / its own on `given` rows."""
    figures, _ = vectors([asked, *training])
    gaps = np.nan_to_num(np.abs(figures[1:, :3] - figures[0, :3]).sum(axis=1), nan=math.inf).tolist()

    def its(run: ForecastRun) -> float:
        """Of the run most like it: its model, system and GPUs as far as there are such runs, then the nearest dataset."""

        def unlike(pair: tuple[ForecastRun, float]) -> tuple[bool, bool, int, float]:
            one, gap = pair
            other_model, other_system = (getattr(one.features, name) != getattr(run.features, name) for name in ("architecture", "system"))
            return other_model, other_system, abs(one.ranks - run.ranks), gap

        return min(zip(training, gaps, strict=True), key=unlike)[0].measured_seconds

    ratios = [math.log(run.measured_seconds / its(run)) for run in given if level(run) == level(asked)]
    return its(asked) * math.exp(float(np.mean(ratios)) if ratios else 0.0)


def physical(_: Sequence[ForecastRun], given: Sequence[ForecastRun], asked: ForecastRun, level: Level) -> float:
    """Physical seconds, times measured / physical on `given` rows."""
    ratios = [math.log(run.measured_seconds / run.physical_seconds) for run in given if level(run) == level(asked)]
    return asked.physical_seconds * math.exp(float(np.mean(ratios)) if ratios else 0.0)


DATASETS: Final = {"log-additive": additive, "nearest dataset": nearest_dataset, "physical alone": physical}
