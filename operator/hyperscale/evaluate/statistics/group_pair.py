"""Two groups of values against each other: tests, effect sizes, interval, and one p value that both tests stand behind.

A difference counts as shown where the t-test and the rank test both show it, in one direction. The larger p is therefore valid where
either test is: of skewed, tied or discrete values the rank test, of unequal variances Welch's (an intersection-union test, Berger 1982).
"""

from __future__ import annotations

import math
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
_Form = Literal["difference", "log", "relative"]
"""What is tested of pairs."""
_SCALES: Final[dict[_Form, Scale]] = {"difference": "difference", "log": "ratio", "relative": "ratio"}


class TwoGroups(msgspec.Struct, frozen=True, rename="camel"):
    """What two groups show."""

    paired: bool
    scale: Scale
    """ratio: logarithms are tested, so that each pair counts by per cent; with values of 0 symmetric relative differences."""
    first_count: int
    second_count: int
    first_mean: float
    second_mean: float
    """Geometric means where the scale is ratio and no value is 0."""
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

    Both are of log ratios where `scale` is ratio, or of 2 (a - b) / (a + b) where a value is 0, so that sizes of pairs do not count.
    Raises ValueError as `_checked`, and for counts that differ.
    """
    first, second = _checked(first), _checked(second)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values: pairs need as many on both sides")
    least = float(min(first.min(), second.min()))
    if scale == "ratio" and least < 0.0:
        raise ValueError(f"value {least:g}: ratios need values of at least 0; compare differences")
    form: _Form = "difference" if scale == "difference" else "log" if least > 0.0 else "relative"
    # Rounded again: 0.3 - 0.1 and 0.4 - 0.2 are a tie.
    differences = significant(significant(first) - significant(second), DIGITS - 3)
    tested = _tested(first, second, differences, form)
    few = "1 pair is too few for a test; give at least 6" if len(first) == 1 else ""
    differing = int(np.count_nonzero(differences))
    if not few and differing > 0 and least_p_value(differing) > LEVEL:
        few = f"{differing} pairs that differ are too few; 6 is the least number that can show a difference"
    mean = None if len(first) == 1 else paired_t(tested)
    tests = () if mean is None else (mean.test, signed_rank(significant(tested, DIGITS - 3)))
    g, delta = effect_size.hedges_g_paired(tested), effect_size.cliffs_delta_paired(differences)
    signs = int((differences > 0).sum()), int((differences < 0).sum())
    return _result((first, second), True, form, tests, mean, (g, delta), signs, few)


def _tested(first: FloatArray, second: FloatArray, differences: FloatArray, form: _Form) -> FloatArray:
    """(n,) what is tested; 0 where values differ by rounding alone."""
    if form == "difference":
        return differences
    if form == "log":
        return np.where(differences == 0.0, 0.0, np.log(first) - np.log(second))
    total = first + second
    relative: FloatArray = np.where(differences == 0.0, 0.0, 2.0 * differences / np.where(total > 0.0, total, 1.0))
    return relative


def compare_groups(first: FloatArray, second: FloatArray, scale: Scale = "difference") -> TwoGroups:
    """Return what (m,) and (n,) values show: Welch's t-test and the Mann-Whitney test.

    Raises ValueError as `_checked`, and for values of 0 or less on the scale of ratios.
    """
    first, second = significant(_checked(first)), significant(_checked(second))
    least = float(min(first.min(), second.min()))
    if scale == "ratio" and least <= 0.0:
        raise ValueError(f"value {least:g}: ratios of groups need values above 0; compare differences")
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
    return _result((first, second), False, "log" if scale == "ratio" else scale, tests, mean, (g, delta), (0, 0), few)


def _checked(values: FloatArray) -> FloatArray:
    """Raise ValueError for no values, and for values that are not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError("no values: give at least one in each group")
    if not np.isfinite(array).all():
        raise ValueError("a value is NaN or infinite; leave it out")
    return array


def _result(
    groups: tuple[FloatArray, FloatArray],
    paired: bool,
    form: _Form,
    tests: tuple[NullTest, ...],
    mean: MeanTest | None,
    effect: tuple[float | None, float],
    signs: tuple[int, int],
    few: str,
) -> TwoGroups:
    first, second = (float(np.exp(np.log(each).mean())) if form == "log" else float(each.mean()) for each in groups)
    if mean is None:
        plain = first - second if form == "difference" else first / (second or math.inf)
        low = high = None
    else:
        plain, low, high = (_readable(each, form) for each in (mean.estimate, mean.low, mean.high))
    p_value, opposed = _joint(tests)
    reason = few or ("the means and the ranks point in opposite directions" if opposed else "")
    counts, scale = (len(groups[0]), len(groups[1])), _SCALES[form]
    return TwoGroups(paired, scale, *counts, first, second, plain, low, high, tests, p_value, *effect, *signs, reason)


def _joint(tests: tuple[NullTest, ...]) -> tuple[float | None, bool]:
    """The larger p value, and whether one test shows a difference whose direction another one contradicts."""
    if not tests:
        return None, False
    opposed = {test.direction for test in tests} >= {1, -1} and min(test.p_value for test in tests) <= LEVEL
    return (1.0 if opposed else max(test.p_value for test in tests)), opposed


def _readable(value: float, form: _Form) -> float:
    """A tested figure as a difference or a ratio: d = 2 (r - 1) / (r + 1) is turned into r = (2 + d) / (2 - d)."""
    if form == "difference":
        return value
    if form == "log":
        return math.exp(min(value, 700.0))
    return max(0.0, 2.0 + value) / max(1e-12, 2.0 - value)
