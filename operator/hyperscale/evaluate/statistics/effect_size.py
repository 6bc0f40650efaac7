"""How large a difference is, whatever the number of values: Cohen's d with Hedges' correction, Cliff's delta, eta squared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray

COHEN: Final = ((0.2, "negligible"), (0.5, "small"), (0.8, "medium"))
"""Bounds of |d| below which an effect is called so (Cohen 1988); above: large."""
CLIFF: Final = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
"""The same of |delta| (Romano et al. 2006)."""


def hedges_correction(freedom: float) -> float:
    """Return what takes the bias out of Cohen's d, gamma(f/2) / (sqrt(f/2) gamma((f-1)/2)) (Hedges 1981); 0 for f <= 1."""
    if freedom <= 1.0:
        return 0.0
    return math.exp(math.lgamma(freedom / 2.0) - math.lgamma((freedom - 1.0) / 2.0)) / math.sqrt(freedom / 2.0)


def hedges_g(first: FloatArray, second: FloatArray) -> float | None:
    """Return the difference of means over the pooled standard deviation, corrected; None without spread or below 3 values in all."""
    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return None
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in (first, second))
    return _corrected(float(first.mean() - second.mean()), squares / freedom, freedom)


def hedges_g_paired(differences: FloatArray) -> float | None:
    """Return the mean difference over the standard deviation of differences (Cohen's d_z), corrected; None without spread."""
    if len(differences) < 2:
        return None
    return _corrected(float(differences.mean()), float(np.var(differences, ddof=1)), len(differences) - 1)


def _corrected(difference: float, variance: float, freedom: int) -> float | None:
    if variance <= 0.0 or not math.isfinite(variance) or abs(difference) > 1e12 * math.sqrt(variance):
        return None
    return hedges_correction(freedom) * difference / math.sqrt(variance)


def cliffs_delta(first: FloatArray, second: FloatArray) -> float:
    """Return P(first > second) - P(first < second), from -1 to 1 (Cliff 1993)."""
    from scipy.stats import rankdata

    wins = float(rankdata(np.concatenate([first, second]))[: len(first)].sum()) - len(first) * (len(first) + 1) / 2.0
    return 2.0 * wins / (len(first) * len(second)) - 1.0


def cliffs_delta_paired(differences: FloatArray) -> float:
    """Return the share of pairs that `first` wins minus the share that it loses (Cliff's delta within pairs)."""
    return float(np.sign(differences).mean())


def eta_squared(groups: Sequence[FloatArray]) -> float | None:
    """Return the share of the values' variation that lies between groups, from 0 to 1; None where all values are equal."""
    values = np.concatenate(groups)
    total = float(((values - values.mean()) ** 2).sum())
    between = sum(len(each) * float(each.mean() - values.mean()) ** 2 for each in groups)
    return min(1.0, between / total) if total > 0.0 else None


def magnitude(g: float | None, delta: float) -> str:
    """Return the word for an effect: negligible, small, medium or large, by Hedges' g; by Cliff's delta where there is no g."""
    size, bounds = (abs(g), COHEN) if g is not None else (abs(delta), CLIFF)
    return next((word for bound, word in bounds if size < bound), "large")
