"""t-tests of means, for pairs and for two groups of unequal variance, with the interval of the difference.

Differences without any spread have no t; the limit is taken: p = 0 where they differ, 1 where they do not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hyperscale.evaluate.statistics.rank_tests import NullTest
from hyperscale.model.graph import FloatArray


class MeanTest(NamedTuple):
    """A t-test with the estimate that it is about."""

    test: NullTest
    estimate: float
    """Mean of `first` minus that of `second`, or mean difference of pairs."""
    low: float
    high: float
    """95 % interval of the estimate."""


def paired_t(differences: FloatArray) -> MeanTest:
    """Return Student's t-test of (n,) differences of pairs. Raises ValueError for n < 2."""
    count = len(differences)
    if count < 2:
        raise ValueError(f"{count} pairs: a paired t-test needs at least 2")
    scaled, size = _scaled(differences)
    error = math.sqrt(float(np.var(scaled, ddof=1)) / count)
    return _by_t("paired t-test", float(scaled.mean()), error, count - 1.0, size)


def welch_t(first: FloatArray, second: FloatArray) -> MeanTest:
    """Return Welch's t-test of (m,) and (n,) values (Welch 1947). Raises ValueError where m or n is below 2."""
    if min(len(first), len(second)) < 2:
        raise ValueError(f"{len(first)} and {len(second)} values: Welch's t-test needs at least 2 in each group")
    both, size = _scaled(np.concatenate([first, second]))
    one, other = both[: len(first)], both[len(first) :]
    parts = [float(np.var(each, ddof=1)) / len(each) for each in (one, other)]
    variance = sum(parts)
    below = sum(part * part / (len(each) - 1.0) for part, each in zip(parts, (one, other), strict=True))
    freedom = variance * variance / below if below > 0.0 else float(len(both) - 2)
    return _by_t("Welch's t-test", float(one.mean() - other.mean()), math.sqrt(variance), freedom, size)


def _scaled(values: FloatArray) -> tuple[FloatArray, float]:
    """Values over the largest magnitude, and that: squares of large and small ones neither overflow nor vanish."""
    size = float(np.abs(values).max()) or 1.0
    return values / size, size


def _by_t(name: str, estimate: float, error: float, freedom: float, size: float) -> MeanTest:
    from scipy.special import stdtr, stdtrit

    direction = int(np.sign(estimate))
    if error <= 1e-14:  # of values scaled to 1: rounding, no spread
        test = NullTest(name, None if direction and abs(estimate) > 1e-14 else 0.0, 0.0 if abs(estimate) > 1e-14 else 1.0, direction)
        return MeanTest(test, estimate * size, estimate * size, estimate * size)
    statistic = estimate / error
    margin = float(stdtrit(freedom, 0.975)) * error
    test = NullTest(name, statistic, float(2.0 * stdtr(freedom, -abs(statistic))), direction)
    return MeanTest(test, estimate * size, (estimate - margin) * size, (estimate + margin) * size)
