"""Rank tests that stay exact with ties: Wilcoxon's signed ranks for pairs, Mann and Whitney's rank sum for two groups.

scipy's exact methods know no ties. Here the exact distribution is that of the ranks at hand, midranks of ties included.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray

MAX_EXACT_PAIRS: Final = 200
"""Pairs with a difference; scipy's normal approximation takes more."""
MAX_EXACT_VALUES: Final = 80
"""Values of both groups together; scipy's normal approximation takes more."""


class NullTest(msgspec.Struct, frozen=True, rename="camel"):
    """One test of no difference."""

    name: str
    statistic: float | None
    """None: it is infinite, as of groups that differ without any spread."""
    p_value: float
    """Two-sided."""
    direction: int
    """1: the first group is higher, -1: lower, 0: neither."""


def signed_rank(differences: FloatArray) -> NullTest:
    """Return Wilcoxon's signed-rank test of (n,) differences of pairs; differences of 0 are left out (Wilcoxon 1945).

    Statistic: sum of the ranks of positive differences.
    """
    from scipy.stats import rankdata, wilcoxon

    name, differing = "Wilcoxon signed-rank test", differences[differences != 0.0]
    if len(differing) == 0:
        return NullTest(name, 0.0, 1.0, 0)
    doubled = np.rint(2.0 * rankdata(np.abs(differing))).astype(np.int64)
    positive, total = int(doubled[differing > 0.0].sum()), int(doubled.sum())
    direction = int(np.sign(2 * positive - total))
    if len(differing) > MAX_EXACT_PAIRS:
        p_value = float(wilcoxon(differing, correction=True, method="asymptotic").pvalue)
    else:
        p_value = _two_sided(_sign_distribution(doubled), positive)
    return NullTest(name, positive / 2.0, p_value, direction)


def rank_sum(first: FloatArray, second: FloatArray) -> NullTest:
    """Return Mann and Whitney's test of (m,) and (n,) values. Statistic: U, how many pairs `first` wins, ties as halves."""
    from scipy.stats import mannwhitneyu, rankdata

    count, name = len(first), "Mann-Whitney U test"
    ranks = rankdata(np.concatenate([first, second]))
    statistic = float(ranks[:count].sum()) - count * (count + 1) / 2.0
    direction = int(np.sign(2.0 * statistic - count * len(second)))
    if np.ptp(ranks) == 0.0:
        return NullTest(name, statistic, 1.0, 0)
    if len(ranks) > MAX_EXACT_VALUES:
        p_value = float(mannwhitneyu(first, second, use_continuity=True, method="asymptotic").pvalue)
    else:
        doubled = np.rint(2.0 * ranks).astype(np.int64)
        p_value = _two_sided(_subset_distribution(doubled, count), int(doubled[:count].sum()))
    return NullTest(name, statistic, min(1.0, p_value), direction)


def least_p_value(first: int, second: int | None = None) -> float:
    """Return the smallest p value that a rank test of so few values can have; `second` None: `first` pairs."""
    from scipy.special import comb

    return min(1.0, 2.0 / float(comb(first + second, first)) if second is not None else 2.0 ** (1 - first))


def _sign_distribution(doubled: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """Probability of each sum of the ranks with a plus, where each sign is a fair coin; index: twice the sum."""
    chances = np.zeros(int(doubled.sum()) + 1)
    chances[0] = 1.0
    for rank in doubled:
        taken = np.zeros_like(chances)
        taken[rank:] = chances[: len(chances) - rank]
        chances = 0.5 * (chances + taken)
    return chances


def _subset_distribution(doubled: np.ndarray[tuple[int], np.dtype[np.int64]], count: int) -> FloatArray:
    """Probability of each sum of `count` of the ranks, where each choice of `count` is as likely; index: twice the sum."""
    ways = np.zeros((count + 1, int(np.sort(doubled)[-count:].sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    chances: FloatArray = ways[count] / ways[count].sum()
    return chances


def _two_sided(chances: FloatArray, at: int) -> float:
    """Twice the smaller tail, with what was observed in it."""
    return float(min(1.0, 2.0 * min(chances[: at + 1].sum(), chances[at:].sum())))
