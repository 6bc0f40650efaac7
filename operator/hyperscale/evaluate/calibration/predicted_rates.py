"""Rates of GPU products that runs were predicted with: what a product's factor refers to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import PartKind


def middle_rates(runs: Sequence[TaughtRun], counts: Sequence[float]) -> dict[str, float]:
    """FLOP/s that runs of each product were predicted with: the weighted median, which no single run moves."""
    counted: dict[str, list[tuple[float, float]]] = {}
    for run, count in zip(runs, counts, strict=True):
        for part in run.parts:
            if part.kind is PartKind.COMPUTE and part.rate > 0.0:
                counted.setdefault(part.name, []).append((part.rate, count))
    return {name: _middle(sorted(rates)) for name, rates in counted.items()}


def _middle(counted: Sequence[tuple[float, float]]) -> float:
    """The first figure, in ascending order, up to which half of the counts lie."""
    reached = np.cumsum([count for _, count in counted])
    return counted[int(np.searchsorted(reached, 0.5 * reached[-1] * (1.0 - 1e-12)))][0]


def rate_ratio(rate: float, middle: float) -> float:
    """What turns seconds predicted with one rate into those with another."""
    return rate / middle if rate > 0.0 and middle > 0.0 else 1.0
