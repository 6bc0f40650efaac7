"""One plain sentence for a comparison: who is faster or higher, by how much, on how many cases, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hyperscale.evaluate.statistics.effect_size import magnitude
from hyperscale.evaluate.statistics.factor_analysis import Variance
from hyperscale.evaluate.statistics.group_pair import LEVEL, TwoGroups
from hyperscale.evaluate.statistics.result_rows import Averaged

TIMES: Final = frozenset({"s", "ms", "us", "µs", "ns", "min", "h", "seconds", "hours", "s/epoch", "s/step"})
"""Units of which less is faster."""
RATE: Final = "/s"
"""Ends a unit of which more is faster."""
SMALLEST_RATIO: Final = 1e-9
"""Of two means, below which the smaller one is taken for 0."""


def sentence(
    names: tuple[str, str], unit: str, two: TwoGroups, corrected: float | None, cases: tuple[int, int, int], averaged: Averaged
) -> str:
    """Return the verdict of one comparison.

    corrected: p value after correction; cases: with the first group lower, with it higher, all; all 0 where values do not pair.
    averaged: what a case's value is the mean of.
    """
    means = "" if averaged.most == 1 else f"; cases are means of {averaged_text(averaged)}"
    if corrected is None or corrected > LEVEL or two.reason:
        return f"no difference shown: {_open(names, two, corrected)}{means}"
    lower = two.estimate < (1.0 if two.scale == "ratio" else 0.0)
    agree, total = cases[0 if lower else 1], cases[2]
    where = f" on {agree} of {total} cases" if total > 1 else f" in {two.losses if lower else two.wins} of {two.first_count} pairs"
    size = f"{magnitude(two.hedges_g, two.cliffs_delta)} effect"
    return f"{_difference(names, unit, two, lower)}{where if two.paired else ''} ({p_text(corrected)}, {size}{means})"


def averaged_text(averaged: Averaged) -> str:
    """Return `5 seeds`, or `2 to 5 values`."""
    count = f"{averaged.most}" if averaged.fewest == averaged.most else f"{averaged.fewest} to {averaged.most}"
    return f"{count} {averaged.what}"


def overall_sentence(names: Sequence[str], variance: Variance, corrected: float | None) -> str:
    """Return whether several groups differ at all."""
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    if corrected is None:
        return f"no difference shown between {listed}: {variance.reason}"
    share = "" if variance.eta_squared is None else f", eta squared {variance.eta_squared:.2g}"
    differ = f"{listed} differ" if corrected <= LEVEL else f"no difference shown between {listed}"
    return f"{differ} ({p_text(corrected)}{share})"


def factor_sentence(name: str, variance: Variance, corrected: float | None) -> str:
    """Return what a factor explains."""
    share = "nothing" if variance.eta_squared is None else f"{100.0 * variance.eta_squared:.3g} % of what the other factors leave"
    if corrected is None or corrected > LEVEL:
        tail = variance.reason if corrected is None else p_text(corrected)
        return f"no difference shown between the levels of {name} ({tail})"
    return f"{name} explains {share} ({p_text(corrected)})"


def p_text(value: float) -> str:
    """Return `p = 0.003`, or `p < 0.001`."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _open(names: tuple[str, str], two: TwoGroups, corrected: float | None) -> str:
    """Why nothing is shown, with what the figures allow."""
    if two.paired and two.wins + two.losses == 0:
        return f"{names[0]} and {names[1]} are equal in {_counted(two)}"
    if two.low is None or two.high is None or corrected is None:
        return two.reason
    sign = "/" if two.scale == "ratio" else "-"
    interval = f"95 % interval {two.low:.3g} to {two.high:.3g}"
    text = f"{names[0]} {sign} {names[1]} is {two.estimate:.3g} ({interval}, {p_text(corrected)}, {_counted(two)})"
    reason = two.reason or _alone(two)
    return f"{text}; {reason}" if reason else text


def _counted(two: TwoGroups) -> str:
    """`12 pairs`, or `9 and 12 values`."""
    if not two.paired:
        return f"{two.first_count} and {two.second_count} values"
    return "1 pair" if two.first_count == 1 else f"{two.first_count} pairs"


def _alone(two: TwoGroups) -> str:
    """Which of two tests shows a difference that the other one does not."""
    shown = [test.name for test in two.tests if test.p_value <= LEVEL]
    return f"only the {shown[0]} shows one" if len(shown) == 1 and len(two.tests) > 1 else ""


def _difference(names: tuple[str, str], unit: str, two: TwoGroups, lower: bool) -> str:
    """The part of the sentence that says which way and by how much."""
    first, second = names
    means, way = (two.first_mean, two.second_mean), "lower" if lower else "higher"
    if two.scale == "difference" and min(means) <= 0.0:
        return f"{first} is {way} than {second} by {abs(two.estimate):.3g}{' ' if unit else ''}{unit}"
    ratio = two.estimate if two.scale == "ratio" else means[0] / means[1]
    if not SMALLEST_RATIO <= ratio <= 1.0 / SMALLEST_RATIO:
        return f"{first} is {way} than {second}, one of which is about 0"
    if unit in TIMES:
        return _pace(first, second, ratio, 1.0 / ratio)
    if unit.endswith(RATE):
        return _pace(first, second, ratio, ratio)
    return f"{first} is {ratio:.3g} times {second}" if ratio >= 2.0 else f"{first} is {_per_cent(ratio)} {way} than {second}"


def _pace(first: str, second: str, ratio: float, times: float) -> str:
    """times: how many times as fast the first one is."""
    if times >= 2.0:
        return f"{first} is {times:.3g} times as fast as {second}"
    if times <= 0.5:
        return f"{first} takes {1.0 / times:.3g} times as long as {second}"
    return f"{first} is {_per_cent(ratio)} {'faster' if times > 1.0 else 'slower'} than {second}"


def _per_cent(ratio: float) -> str:
    """Two digits of |ratio - 1|, e.g. `12 %`."""
    share = abs(ratio - 1.0) * 100.0
    return f"{share:.0f} %" if share >= 10.0 else f"{share:.2g} %"
