"""Analysis of variance: whether several groups differ, and which factors of a table explain its values.

As for two groups, a difference needs two tests: one of means and one of ranks. The larger p value is the one that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from hyperscale.evaluate.statistics.effect_size import eta_squared
from hyperscale.evaluate.statistics.rank_tests import NullTest
from hyperscale.model.graph import FloatArray

MAX_LEVELS: Final = 200
"""Of one factor."""
MAX_TABLE: Final = 10_000_000
"""Values times levels of all factors: 80 MB for each of a few copies."""


class Variance(msgspec.Struct, frozen=True, rename="camel"):
    """Whether groups, or the levels of one factor, differ."""

    tests: tuple[NullTest, ...]
    p_value: float | None
    """The larger one of the tests; None where there is no test."""
    eta_squared: float | None
    """Share of the variation between groups; for pairs and factors partial, the other factors taken out."""
    levels: int
    count: int
    """Values."""
    reason: str = ""
    """Why there is no test."""


def one_way(groups: Sequence[FloatArray]) -> Variance:
    """Return Welch's ANOVA (Welch 1951) and Kruskal and Wallis's test of k groups with (n_i,) values each.

    Raises ValueError for fewer than two groups or an empty one.
    """
    from scipy.stats import kruskal

    if len(groups) < 2 or min(map(len, groups)) == 0:
        raise ValueError("an analysis of variance needs at least two groups with a value each")
    values, count = np.concatenate(groups), sum(map(len, groups))
    if min(map(len, groups)) < 2:
        return Variance((), None, eta_squared(groups), len(groups), count, "a group has 1 value; an ANOVA needs at least 2 in each")
    if np.ptp(values) == 0.0:
        return Variance((NullTest("Kruskal-Wallis test", 0.0, 1.0, 0),), 1.0, None, len(groups), count)
    rank = kruskal(*groups)
    tests = [NullTest("Kruskal-Wallis test", float(rank.statistic), float(rank.pvalue), 0)]
    if all(np.ptp(each) > 0.0 for each in groups):
        tests.insert(0, _welch(groups))
    return Variance(tuple(tests), max(test.p_value for test in tests), eta_squared(groups), len(groups), count)


def blocked(values: FloatArray) -> Variance:
    """Return the ANOVA of repeated measures and Friedman's test of (n, k) values: n cases, each with all k >= 3 groups."""
    from scipy.special import fdtrc
    from scipy.stats import friedmanchisquare

    cases, groups = values.shape
    if cases < 2:
        return Variance((), None, None, groups, values.size, "1 case is too few for a test; give at least 2")
    between = cases * float(((values.mean(axis=0) - values.mean()) ** 2).sum())
    rest = float(((values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    if between + rest <= 1e-24 * max(total, float(np.abs(values).max()) ** 2):
        return Variance((NullTest("Friedman test", 0.0, 1.0, 0),), 1.0, None, groups, values.size)
    rank = friedmanchisquare(*values.T)
    tests = [NullTest("Friedman test", float(rank.statistic), float(rank.pvalue), 0)]
    if rest > 1e-24 * between:
        freedom = groups - 1, (groups - 1) * (cases - 1)
        statistic = between / freedom[0] / (rest / freedom[1])
        tests.insert(0, NullTest("ANOVA of repeated measures", statistic, float(fdtrc(*freedom, statistic)), 0))
    return Variance(tuple(tests), max(test.p_value for test in tests), between / (between + rest), groups, values.size)


def factors(values: FloatArray, columns: Mapping[str, Sequence[str]]) -> dict[str, Variance]:
    """Return the main effect of every factor with the other factors taken out (type II sums of squares, no interactions).

    values: (n,); columns: by factor, the level of each value. One F test is of the values, one of their ranks (Conover & Iman 1981), one
    has errors that stay right where levels differ in variance (HC3, MacKinnon & White 1985).
    Raises ValueError for a factor of one level, one that others determine, or too few values.
    """
    from scipy.stats import rankdata

    _check_levels(len(values), columns)
    blocks = {name: _dummies(name, labels) for name, labels in columns.items()}
    both = np.stack([values, rankdata(values)], axis=1)
    residual, rank = _residual(list(blocks.values()), both)
    freedom = len(values) - rank
    if freedom < 1:
        raise ValueError(f"{len(values)} values are too few for {rank} levels; give more values or fewer factors")
    effects = {}
    for name, block in blocks.items():
        without, smaller = _residual([each for other, each in blocks.items() if other != name], both)
        if smaller == rank:
            raise ValueError(f"factor {name!r} follows from the other factors; leave one of them out")
        plain = _effect(without, residual, (rank - smaller, freedom), block.shape[1] + 1, len(values))
        robust = _robust(values, block, [each for other, each in blocks.items() if other != name])
        tests = plain.tests if robust is None else (*plain.tests, robust)
        effects[name] = msgspec.structs.replace(plain, tests=tests, p_value=max(test.p_value for test in tests))
    return effects


def _check_levels(count: int, columns: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError, before any table is made, for factors whose analysis takes too long or too much memory."""
    for name, labels in columns.items():
        if (levels := len(set(labels))) > MAX_LEVELS:
            raise ValueError(
                f"factor {name!r} has {levels:,} levels; at most {MAX_LEVELS} are analysed: write a column with fewer values, or --regress"
            )
    numbers = count * sum(len(set(labels)) for labels in columns.values())
    if numbers > MAX_TABLE:
        raise ValueError(f"{count:,} values by these factors are too many to analyse; give at most {count * MAX_TABLE // numbers:,} rows")


def _robust(values: FloatArray, block: FloatArray, others: Sequence[FloatArray]) -> NullTest | None:
    """Wald's F test of a factor's columns with HC3 errors; None where a level has a single value, or nothing is left unexplained."""
    from scipy.special import fdtrc

    design = np.concatenate([block, np.ones((len(values), 1)), *others], axis=1)
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ design.T @ values
    residual, leverage = values - design @ slopes, ((design @ inverse) * design).sum(axis=1)
    if float(leverage.max()) > 1.0 - 1e-9 or float(np.abs(residual).max()) <= 1e-12 * float(np.abs(values).max()):
        return None
    covariance = inverse @ (design * np.square(residual / (1.0 - leverage))[:, None]).T @ design @ inverse
    count = block.shape[1]
    statistic = float(slopes[:count] @ np.linalg.pinv(covariance[:count, :count]) @ slopes[:count]) / count
    freedom = len(values) - np.linalg.matrix_rank(design)
    return NullTest("F test, HC3", statistic, float(fdtrc(count, freedom, statistic)), 0)


def _effect(without: FloatArray, residual: FloatArray, freedom: tuple[int, int], levels: int, count: int) -> Variance:
    """Of squares (2,) left without and with a factor: of values, and of ranks."""
    from scipy.special import fdtrc

    tests = []
    for name, small, large in zip(("F test", "F test of ranks"), residual, without, strict=True):
        explained = max(0.0, float(large - small))
        if small <= 1e-20 * large:  # no residual: the factors explain everything
            tests.append(NullTest(name, None if explained > 0.0 else 0.0, 0.0 if explained > 0.0 else 1.0, 0))
        else:
            statistic = explained / freedom[0] / (float(small) / freedom[1])
            tests.append(NullTest(name, statistic, float(fdtrc(*freedom, statistic)), 0))
    share = float((without[0] - residual[0]) / without[0]) if without[0] > 0.0 else None
    return Variance(tuple(tests), max(test.p_value for test in tests), share, levels, count)


def _dummies(name: str, labels: Sequence[str]) -> FloatArray:
    """(n, levels - 1) columns of 0 and 1."""
    levels = sorted(set(labels))
    if len(levels) < 2:
        raise ValueError(f"factor {name!r} has one level, {levels[0] if levels else ''!r}; a factor needs at least two")
    place = {level: at for at, level in enumerate(levels)}
    rows = np.array([place[label] for label in labels])
    table: FloatArray = (rows[:, None] == np.arange(1, len(levels))[None, :]).astype(np.float64)
    return table


def _residual(blocks: Sequence[FloatArray], values: FloatArray) -> tuple[FloatArray, int]:
    """Squares (2,) that an intercept and these columns leave of (n, 2) values, and the rank of the columns."""
    design = np.concatenate([np.ones((len(values), 1)), *blocks], axis=1)
    solution, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    squares: FloatArray = ((values - design @ solution) ** 2).sum(axis=0)
    return squares, int(rank)


def _welch(groups: Sequence[FloatArray]) -> NullTest:
    """Welch's F, whose weights are n_i / variance_i: groups of unequal variance are no false alarm."""
    from scipy.special import fdtrc

    count = len(groups)
    sizes, means = np.array([len(each) for each in groups], dtype=np.float64), np.array([each.mean() for each in groups])
    weights = sizes / np.array([np.var(each, ddof=1) for each in groups])
    mean = float((weights * means).sum() / weights.sum())
    spread = float(((1.0 - weights / weights.sum()) ** 2 / (sizes - 1.0)).sum())
    above = float((weights * (means - mean) ** 2).sum()) / (count - 1)
    statistic = above / (1.0 + 2.0 * (count - 2) / (count * count - 1) * spread)
    return NullTest("Welch's ANOVA", statistic, float(fdtrc(count - 1, (count * count - 1) / (3.0 * spread), statistic)), 0)
