"""Intervals that hold as often as they say: quantiles of standardised errors at runs left out.

Jackknife conformal prediction (Vovk, Gammerman & Shafer 2005; Barber et al. 2021) on errors divided by a learned spread
(Lei et al. 2018, section 5.2): the process says where the forecast is unsure, the quantiles how far that is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray

LEVELS: Final = (0.68, 0.95)
NORMAL: Final = (0.9944578832097528, 1.959963984540054)
"""Half widths of a normal distribution for `LEVELS`, used where runs are too few for a quantile."""
MIN_SIGNED: Final = 200
"""Runs from which both ends have quantiles of their own; fewer share those of the absolute error."""
RIDGES: Final = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Penalties of the spread's slopes, in runs; generalised cross-validation chooses."""
MIN_SCALE_RUNS: Final = 40
MAX_SLOPE_EFFECT: Final = 1.5
"""Of ln(spread): figures change it by a factor of at most 4.5."""
SMALLEST_ERROR: Final = 0.05
"""Standardised errors below count as this: the logarithm of a lucky hit says nothing."""


@dataclass(frozen=True)
class SpreadModel:
    """How the size of standardised errors depends on a run's figures."""

    slopes: FloatArray
    """(f,) of ln(spread)."""

    def spread(self, figures: FloatArray) -> FloatArray:
        """(q,) factor of each row's standard deviation; `figures` is (q, f) standardised."""
        effect = figures @ self.slopes
        spread: FloatArray = np.exp(np.clip(effect, -MAX_SLOPE_EFFECT, MAX_SLOPE_EFFECT))
        return spread


def learn_spread(figures: FloatArray, errors: FloatArray) -> SpreadModel:
    """Ridge regression of ln|standardised error| on figures (n, f); no slopes where runs are few or they do not help.

    The penalty is the one of least generalised cross-validation (Golub, Heath & Wahba 1979); an infinite one is among them.
    """
    count, width = figures.shape
    none = SpreadModel(np.zeros(width))
    if count < MIN_SCALE_RUNS:
        return none
    sizes = np.log(np.maximum(np.abs(errors), SMALLEST_ERROR))
    centred, target = figures - figures.mean(axis=0), sizes - sizes.mean()
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    best, slopes = float(target @ target) / count / (1.0 - 1.0 / count) ** 2, np.zeros(width)
    for ridge in RIDGES:
        shrunk = values**2 / (values**2 + ridge)
        rest = target - left @ (shrunk * (left.T @ target))
        score = float(rest @ rest) / count / max(1e-9, 1.0 - (1.0 + shrunk.sum()) / count) ** 2
        if score < best:
            best, slopes = score, right.T @ (values / (values**2 + ridge) * (left.T @ target))
    return SpreadModel(slopes)


def quantile_pairs(errors: FloatArray) -> tuple[tuple[float, float], ...]:
    """Low and high end for each of `LEVELS` in units of the spread, so that a new error lies within as often as stated.

    errors: (n,) standardised, exchangeable with the new one
    """
    if len(errors) < MIN_SIGNED:
        halves = [_upper(np.sort(np.abs(errors)), level, normal) for level, normal in zip(LEVELS, NORMAL, strict=True)]
        return tuple((-half, half) for half in halves)
    ordered = np.sort(errors)
    pairs = []
    for level, normal in zip(LEVELS, NORMAL, strict=True):
        one_sided = 0.5 + level / 2.0
        pairs.append((-_upper(np.sort(-ordered), one_sided, normal), _upper(ordered, one_sided, normal)))
    return tuple(pairs)


def _upper(ordered: FloatArray, level: float, normal: float) -> float:
    """The ceil((n + 1) level)-th smallest error; with fewer runs than that the largest, or the normal quantile if that is wider."""
    rank = math.ceil((len(ordered) + 1) * level - 1e-9)
    if rank <= len(ordered):
        return float(ordered[rank - 1])
    return max(normal, float(ordered[-1]) if len(ordered) else normal)


def interval_score(low: FloatArray, high: FloatArray, truth: FloatArray, level: float) -> FloatArray:
    """(n,) width plus 2 / (1 - level) times the distance by which the truth is missed (Gneiting & Raftery 2007, equation 43)."""
    missed = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    score: FloatArray = high - low + 2.0 / (1.0 - level) * missed
    return score
