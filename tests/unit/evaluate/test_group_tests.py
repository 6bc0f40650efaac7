"""Tests of two and more groups give scipy's figures where scipy has them, and stay right where it has none."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from hyperscale.evaluate.statistics import effect_size
from hyperscale.evaluate.statistics.factor_analysis import blocked, factors, one_way
from hyperscale.evaluate.statistics.group_pair import compare_groups, compare_pairs, significant
from hyperscale.evaluate.statistics.holm import holm
from hyperscale.evaluate.statistics.linear_fit import fit
from hyperscale.evaluate.statistics.rank_tests import rank_sum, signed_rank

CHANCE = np.random.default_rng(3)
A, B = CHANCE.normal(5.0, 1.0, 12), CHANCE.normal(6.0, 2.0, 12)
C = CHANCE.normal(5.5, 1.0, 12)


def test_pairs_give_scipys_paired_t_and_wilcoxon() -> None:
    two = compare_pairs(A, B)
    t, wilcoxon = stats.ttest_rel(A, B), stats.wilcoxon(A, B, method="exact")
    assert two.tests[0].statistic == pytest.approx(t.statistic)
    assert two.tests[0].p_value == pytest.approx(t.pvalue)
    assert two.tests[1].p_value == pytest.approx(wilcoxon.pvalue)
    assert two.p_value == max(two.tests[0].p_value, two.tests[1].p_value)
    assert (two.low, two.high) == pytest.approx(tuple(t.confidence_interval(0.95)))


def test_groups_give_scipys_welch_and_mann_whitney() -> None:
    two = compare_groups(A, B[:9])
    t, ranks = stats.ttest_ind(A, B[:9], equal_var=False), stats.mannwhitneyu(A, B[:9], method="exact")
    assert two.tests[0].statistic == pytest.approx(t.statistic)
    assert two.tests[0].p_value == pytest.approx(t.pvalue)
    assert (two.tests[1].statistic, two.tests[1].p_value) == pytest.approx((ranks.statistic, ranks.pvalue))
    assert (two.low, two.high) == pytest.approx(tuple(t.confidence_interval(0.95)))


def test_ratios_are_tested_on_logarithms() -> None:
    two = compare_pairs(A, 1.5 * A * np.exp(0.01 * C), "ratio")
    assert two.estimate == pytest.approx(1.0 / 1.5 / np.exp(0.01 * C.mean()))
    assert two.low is not None
    assert two.high is not None
    assert two.low < two.estimate < two.high
    assert two.tests[0].p_value == pytest.approx(stats.ttest_rel(np.log(A), np.log(1.5 * A) + 0.01 * C).pvalue)


@pytest.mark.parametrize("sizes", [[1.0] * 11, [0.001] * 9 + [100.0, 100.0]])
def test_a_small_case_counts_as_much_as_a_large_one(sizes: list[float]) -> None:
    ratios = np.array([0.80, 0.82, 0.78, 0.81, 0.79, 0.83, 0.77, 0.80, 0.82, 1.10, 1.12])
    two = compare_pairs(np.array(sizes) * ratios, np.array(sizes), "ratio")
    assert two.tests[1].p_value == pytest.approx(enumerated_signs(np.log(ratios).round(9).tolist()))
    assert two.tests[0].p_value == pytest.approx(stats.ttest_1samp(np.log(ratios), 0.0).pvalue)
    assert two.tests[1].direction == -1


def test_ranks_of_relative_differences_take_a_value_of_zero() -> None:
    first, second = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 300.0]), np.array([0.1, 2.0, 2.0, 2.0, 2.0, 2.0, 200.0])
    assert compare_pairs(first, second, "ratio").tests[1].statistic == 1.0


def enumerated_signs(values: list[float]) -> float:
    """Two-sided p of the signed ranks, by all 2 ** n signs."""
    ranks = stats.rankdata(np.abs(values))
    sums = np.array([sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=len(ranks))])
    at = ranks[np.array(values) > 0].sum()
    return float(min(1.0, 2.0 * min((sums <= at).mean(), (sums >= at).mean())))


@pytest.mark.parametrize("values", [[1.0, 1.0, 2.0, -1.0, 3.0, 3.0, 2.0, 2.0], [1.0, 2.0, 2.0, 2.0, 2.0, 2.0], [-1.0, 1.0, 1.0]])
def test_signed_ranks_with_ties_are_exact(values: list[float]) -> None:
    assert signed_rank(np.array([*values, 0.0, 0.0])).p_value == pytest.approx(enumerated_signs(values))


@pytest.mark.parametrize(("first", "second"), [([1, 1, 2, 3], [2, 2, 3, 3, 4]), ([0, 0, 0], [0, 1, 1, 1]), ([5, 5], [5, 5, 5])])
def test_rank_sums_with_ties_are_exact(first: list[float], second: list[float]) -> None:
    ranks = stats.rankdata([*first, *second])
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(len(ranks)), len(first))])
    at = ranks[: len(first)].sum()
    expected = min(1.0, 2.0 * min((sums <= at).mean(), (sums >= at).mean()))
    assert rank_sum(np.array(first, dtype=float), np.array(second, dtype=float)).p_value == pytest.approx(expected)


def test_many_values_take_the_normal_approximation() -> None:
    first, second = CHANCE.normal(0.0, 1.0, 400), CHANCE.normal(0.1, 1.0, 400)
    assert rank_sum(first, second).p_value == pytest.approx(stats.mannwhitneyu(first, second, method="asymptotic").pvalue)
    expected = stats.wilcoxon(first - second, correction=True, method="asymptotic").pvalue
    assert signed_rank(first - second).p_value == pytest.approx(expected)


def test_equal_pairs_and_equal_groups_show_nothing() -> None:
    for two in (compare_pairs(A, A), compare_groups(np.ones(9), np.ones(7))):
        assert two.p_value == 1.0
        assert two.hedges_g is None
        assert two.cliffs_delta == 0.0


def test_a_constant_difference_is_judged_by_its_ranks() -> None:
    two = compare_pairs(A, A + 1.0)
    assert two.tests[0].statistic is None
    assert two.p_value == pytest.approx(2.0**-11)
    assert compare_groups(np.full(5, 1.0), np.full(5, 2.0)).p_value == pytest.approx(2.0 / 252.0)


def test_differences_of_rounding_are_none() -> None:
    two = compare_pairs(A * 3.0 / 3.0 * (1.0 + 2e-16), A)
    assert two.p_value == 1.0
    ties = compare_pairs(np.array([0.3, 0.4, 0.5, 0.7]), np.array([0.1, 0.2, 0.3, 0.9]))
    assert ties.tests[1].statistic == 7.5
    assert significant(np.array([1e300, -3e-300, 0.0])).tolist() == pytest.approx([1e300, -3e-300, 0.0], rel=1e-11)


def test_few_values_say_how_many_are_needed() -> None:
    assert compare_pairs(np.array([1.0]), np.array([2.0])).reason == "1 pair is too few for a test; give at least 6"
    assert "6 is the least number" in compare_pairs(A[:5], A[:5] + np.arange(1.0, 6.0)).reason
    assert "at least 4 in each group" in compare_groups(A[:1], B).reason
    assert "4 in each group can show" in compare_groups(A[:3], B[:3]).reason
    assert compare_groups(A[:1], B).p_value is None


def test_means_and_ranks_that_contradict_show_nothing() -> None:
    first, second = np.array([1.0] * 12), np.array([0.9] * 11 + [5.0])
    assert compare_pairs(first, second).p_value == 1.0


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [([], [1.0], "no values"), ([float("nan")], [1.0], "NaN or infinite"), ([1.0], [float("inf")], "NaN or infinite")],
)
def test_values_that_are_unknown_are_refused(first: list[float], second: list[float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compare_groups(np.array(first), np.array(second))
    with pytest.raises(ValueError, match="ratios of groups need values above 0"):
        compare_groups(np.array([0.0, 1.0]), np.array([1.0]), "ratio")


def test_effect_sizes_are_those_of_their_definitions() -> None:
    pooled = np.sqrt((np.var(A, ddof=1) + np.var(B, ddof=1)) / 2.0)
    assert effect_size.hedges_g(A, B) == pytest.approx((A.mean() - B.mean()) / pooled * effect_size.hedges_correction(22.0))
    assert effect_size.hedges_correction(22.0) == pytest.approx(1.0 - 3.0 / (4.0 * 22.0 - 1.0), rel=1e-4)
    assert effect_size.cliffs_delta(A, B) == pytest.approx(np.sign(A[:, None] - B[None, :]).mean())
    assert effect_size.cliffs_delta_paired(A - B) == np.sign(A - B).mean()
    groups = [A, B, C]
    f = stats.f_oneway(*groups).statistic
    assert effect_size.eta_squared(groups) == pytest.approx(f * 2.0 / (f * 2.0 + 33.0))
    assert [effect_size.magnitude(g, 0.0) for g in (0.1, -0.3, 0.6, 2.0)] == ["negligible", "small", "medium", "large"]
    assert effect_size.magnitude(None, -1.0) == "large"


def test_several_groups_give_scipys_welch_anova_and_kruskal() -> None:
    ours, kruskal = one_way([A, B, C]), stats.kruskal(A, B, C)
    welch = stats.f_oneway(A, B, C, equal_var=False)
    assert ours.tests[0].p_value == pytest.approx(welch.pvalue)
    assert ours.tests[0].statistic == pytest.approx(welch.statistic)
    assert ours.tests[1].p_value == pytest.approx(kruskal.pvalue)
    assert one_way([np.ones(4)] * 3).p_value == 1.0
    assert one_way([A, B, C[:1]]).p_value is None
    assert len(one_way([A, np.ones(4), C]).tests) == 1
    with pytest.raises(ValueError, match="at least two groups"):
        one_way([A])


def test_repeated_measures_give_friedman_and_the_paired_f() -> None:
    table = np.stack([A, B, C], axis=1)
    ours = blocked(table)
    assert ours.tests[1].p_value == pytest.approx(stats.friedmanchisquare(A, B, C).pvalue)
    # With two groups the F of repeated measures is the square of the paired t.
    pair = factors(np.concatenate([A, B]), {"group": ["a"] * 12 + ["b"] * 12, "case": [str(at % 12) for at in range(24)]})
    assert pair["group"].tests[0].p_value == pytest.approx(stats.ttest_rel(A, B).pvalue)
    assert blocked(np.tile(A[:, None], (1, 3))).p_value == 1.0
    assert blocked(np.stack([A, A + 1.0, A + 2.0], axis=1)).p_value == pytest.approx(stats.friedmanchisquare(A, A + 1.0, A + 2.0).pvalue)
    assert blocked(table[:1]).reason.startswith("1 case")


def test_one_factor_is_the_classical_anova() -> None:
    effect = factors(np.concatenate([A, B, C]), {"model": ["a"] * 12 + ["b"] * 12 + ["c"] * 12})["model"]
    assert effect.tests[0].p_value == pytest.approx(stats.f_oneway(A, B, C).pvalue)
    assert effect.eta_squared == pytest.approx(effect_size.eta_squared([A, B, C]))
    assert effect.levels == 3
    assert [test.name for test in effect.tests] == ["F test", "F test of ranks", "F test, HC3"]
    single = factors(np.concatenate([A, B[:1]]), {"model": ["a"] * 12 + ["b"]})["model"]
    assert len(single.tests) == 2


def test_errors_of_hc3_are_those_of_their_formula() -> None:
    values, labels = np.concatenate([A, B[:7]]), ["a"] * 12 + ["b"] * 7
    variance = sum(float((np.square(each - each.mean()) / (1.0 - 1.0 / len(each)) ** 2).sum()) / len(each) ** 2 for each in (A, B[:7]))
    expected = (A.mean() - B[:7].mean()) ** 2 / variance
    assert factors(values, {"model": labels})["model"].tests[2].statistic == pytest.approx(expected)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": ["x"] * 12}, "one level"),
        ({"a": ["x", "y"] * 6, "b": ["1", "2"] * 6}, "follows from the other factors"),
        ({"a": [str(at) for at in range(12)]}, "too few"),
    ],
)
def test_factors_that_cannot_be_told_apart_are_refused(columns: dict[str, list[str]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        factors(A, columns)


def test_regression_gives_scipys_line() -> None:
    line = stats.linregress(C, A)
    ours = fit("a", A, {"c": C})
    assert (ours.slopes[1].estimate, ours.slopes[1].error) == pytest.approx((line.slope, line.stderr))
    assert (ours.slopes[0].estimate, ours.slopes[0].error) == pytest.approx((line.intercept, line.intercept_stderr))
    assert (ours.slopes[1].p_value, ours.r_squared) == pytest.approx((line.pvalue, line.rvalue**2))
    exact = fit("a", 2.0 + 3.0 * C - B, {"c": C, "b": B})
    assert [slope.estimate for slope in exact.slopes] == pytest.approx([2.0, 3.0, -1.0])


@pytest.mark.parametrize(
    ("values", "columns", "says"),
    [
        (A[:2], {"c": C[:2]}, "give at least 3"),
        (np.ones(12), {"c": C}, "nothing to explain"),
        (A, {"c": np.ones(12)}, "is constant; leave it out"),
        (A, {"c": C, "d": 2.0 * C}, "depend on each other"),
    ],
)
def test_columns_without_a_line_are_refused(values: np.ndarray, columns: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit("a", values, columns)


def test_holm_multiplies_the_smallest_by_the_most() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx((0.03, None, 0.06, 0.06))
    assert holm([]) == ()
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([float("nan")])
