"""Two groups of values against each other: tests, effect sizes, interval, and one p value that both tests stand behind.

A difference counts as shown where the t-test and the rank test both show it, in one direction. The larger p is therefore valid where
either test is: of skewed, tied or discrete values the rank test, of unequal variances Welch's (an intersection-union test, Berger 1982).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np

from hyperscale.evaluate.statistics import effect_size
from hyperscale.evaluate.statistics.mean_tests import MeanTest, paired_t, welch_t
from hyperscale.evaluate.statistics.rank_tests import NullTest, least_p_value, rank_sum, signed_rank
from hyperscale.model.graph import FloatArray

LEVEL: Final = 0.05
"""Chance of a false statement that is accepted."""
DIGITS: Final = 12
"""Significant digits in which values are compared: what differs less differs by rounding."""
Scale = Literal["difference", "ratio"]


class TwoGroups(msgspec.Struct, frozen=True, rename="camel"):
    """What two groups show."""

    paired: bool
    scale: Scale
    """ratio: logarithms are tested, so that each pair counts by per cent."""
    first_count: int
    second_count: int
    first_mean: float
    second_mean: float
    """Geometric means where the scale is ratio."""
    estimate: float
    """Ratio first / second, or difference first - second."""
    low: float | None
    high: float | None
    """95 % interval of the estimate by the t-test; None where a group has fewer than 2 values."""
    tests: tuple[NullTest, ...]
    p_value: float | None
    """The larger one of the tests; 1 where they point in opposite directions; None where there is no test."""
    hedges_g: float | None
    cliffs_delta: float
    wins: int
    """Pairs in which `first` is higher."""
    losses: int
    reason: str = ""
    """Why no difference can be shown; empty where one can."""


def significant(values: FloatArray, digits: int = DIGITS) -> FloatArray:
    """Return the values rounded to some significant digits."""
    with np.errstate(divide="ignore"):
        exponent = np.where(values == 0.0, 0.0, np.floor(np.log10(np.abs(values))))
    # In two steps: 10 ** 312 overflows.
    shift = digits - 1 - exponent
    half = np.floor(shift / 2.0)
    rounded: FloatArray = np.rint(values * 10.0**half * 10.0 ** (shift - half)) / 10.0**half / 10.0 ** (shift - half)
    return rounded


def compare_pairs(first: FloatArray, second: FloatArray, scale: Scale = "difference") -> TwoGroups:
    """Return what (n,) pairs of values show: paired t-test and Wilcoxon's signed-rank test.

    The t-test is of log ratios where `scale` is ratio. The rank test is of differences in both. Raises ValueError as `_checked`.
    """
    first, second = _checked(first, scale), _checked(second, scale)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values: pairs need as many on both sides")
    # Rounded again: 0.3 - 0.1 and 0.4 - 0.2 are a tie.
    differences = significant(significant(first) - significant(second), DIGITS - 3)
    tested = np.where(differences == 0.0, 0.0, np.log(first) - np.log(second)) if scale == "ratio" else differences
    few = "1 pair is too few for a test; give at least 6" if len(first) == 1 else ""
    differing = int(np.count_nonzero(differences))
    if not few and differing > 0 and least_p_value(differing) > LEVEL:
        few = f"{differing} pairs that differ are too few; 6 is the least number that can show a difference"
    mean = None if len(first) == 1 else paired_t(tested)
    tests = () if mean is None else (mean.test, signed_rank(differences))
    g, delta = effect_size.hedges_g_paired(tested), effect_size.cliffs_delta_paired(differences)
    signs = int((differences > 0).sum()), int((differences < 0).sum())
    return _result((first, second), True, scale, tests, mean, (g, delta), signs, few)


def compare_groups(first: FloatArray, second: FloatArray, scale: Scale = "difference") -> TwoGroups:
    """Return what (m,) and (n,) values show: Welch's t-test and the Mann-Whitney test. Raises ValueError as `_checked`."""
    first, second = significant(_checked(first, scale)), significant(_checked(second, scale))
    one, other = (np.log(first), np.log(second)) if scale == "ratio" else (first, second)
    counts = f"{len(first)} and {len(second)} values are too few"
    few = ""
    if min(len(first), len(second)) < 2:
        few = f"{counts} for a test; give at least 4 in each group"
    elif least_p_value(len(first), len(second)) > LEVEL:
        few = f"{counts}; 4 in each group can show a difference"
    mean = None if min(len(first), len(second)) < 2 else welch_t(one, other)
    tests = () if mean is None else (mean.test, rank_sum(first, second))
    g, delta = effect_size.hedges_g(one, other), effect_size.cliffs_delta(first, second)
    return _result((first, second), False, scale, tests, mean, (g, delta), (0, 0), few)


def _checked(values: FloatArray, scale: Scale) -> FloatArray:
    """Raise ValueError for no values, values that are not finite, and values of 0 or less on the scale of ratios."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError("no values: give at least one in each group")
    if not np.isfinite(array).all():
        raise ValueError("a value is NaN or infinite; leave it out")
    if scale == "ratio" and float(array.min()) <= 0.0:
        raise ValueError(f"value {float(array.min()):g}: ratios need values above 0; compare differences")
    return array


def _result(
    groups: tuple[FloatArray, FloatArray],
    paired: bool,
    scale: Scale,
    tests: tuple[NullTest, ...],
    mean: MeanTest | None,
    effect: tuple[float | None, float],
    signs: tuple[int, int],
    few: str,
) -> TwoGroups:
    first, second = (float(np.exp(np.log(each).mean())) if scale == "ratio" else float(each.mean()) for each in groups)
    plain = first / second if scale == "ratio" else first - second
    low, high = _interval(mean, scale)
    opposed = {test.direction for test in tests} >= {1, -1}
    p_value = (1.0 if opposed else max(test.p_value for test in tests)) if tests else None
    reason = few or ("the means and the ranks point in opposite directions" if opposed else "")
    counts = len(groups[0]), len(groups[1])
    return TwoGroups(paired, scale, *counts, first, second, plain, low, high, tests, p_value, *effect, *signs, reason)


def _interval(mean: MeanTest | None, scale: Scale) -> tuple[float | None, float | None]:
    """95 % interval of a ratio or a difference."""
    if mean is None:
        return None, None
    return (mean.low, mean.high) if scale == "difference" else (float(np.exp(mean.low)), float(np.exp(min(mean.high, 700.0))))
