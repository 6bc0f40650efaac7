"""Rows of results pair by case and seed, are compared by metric, and end in one plain sentence each."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.evaluate.statistics.result_rows import ResultRow, align
from hyperscale.evaluate.statistics.row_comparison import compare_rows

CHANCE = np.random.default_rng(5)
CASES = [f"case {at}" for at in range(15)]


def rows(factor: float, seeds: int = 1, **changed: str) -> list[ResultRow]:
    """Seconds of 15 cases of very different size."""
    return [
        replace(
            ResultRow(factor * 10.0 ** (at % 5) * float(CHANCE.lognormal(0.0, 0.05)), "time", "s", "b", case, "ours", str(seed)), **changed
        )
        for at, case in enumerate(CASES)
        for seed in range(seeds)
    ]


def test_a_faster_group_is_named_with_its_gain_cases_p_and_effect() -> None:
    (one,) = compare_rows({"A": rows(0.8), "B": rows(1.0)}).comparisons
    assert one.shown
    assert one.result.scale == "ratio"
    assert one.sentence.startswith(("A is 1", "A is 2"))
    assert "% faster than B on 15 of 15 cases (p < 0.001, large effect)" in one.sentence


def test_rates_are_faster_when_higher_and_other_units_higher_or_lower() -> None:
    said = {
        unit: compare_rows({"A": rows(1.5, unit=unit), "B": rows(1.0, unit=unit)}).comparisons[0].sentence for unit in ("GB/s", "B", "s")
    }
    assert "% faster than B on 15 of 15" in said["GB/s"]
    assert "% higher than B on 15 of 15" in said["B"]
    assert "% slower than B on 15 of 15" in said["s"]
    assert "A is 3" in compare_rows({"A": rows(0.3), "B": rows(1.0)}).comparisons[0].sentence
    assert "times as long as B" in compare_rows({"A": rows(3.0), "B": rows(1.0)}).comparisons[0].sentence


def test_no_difference_is_said_with_what_the_figures_allow() -> None:
    (one,) = compare_rows({"A": rows(1.0), "B": rows(1.0)}).comparisons
    assert not one.shown
    assert one.sentence.startswith("no difference shown: A / B is ")
    assert "95 % interval" in one.sentence
    assert "15 pairs" in one.sentence
    same = rows(1.0)
    assert "A and B are equal in 15 pairs" in compare_rows({"A": same, "B": same}).comparisons[0].sentence


def test_values_below_zero_are_compared_by_difference() -> None:
    low, high = (
        [ResultRow(value, "gain", "points", case=str(at)) for at, value in enumerate(column)] for column in (range(-9, 1), range(-6, 4))
    )
    (one,) = compare_rows({"A": low, "B": high}).comparisons
    assert one.result.scale == "difference"
    assert one.sentence == "A is lower than B by 3 points on 10 of 10 cases (p = 0.002, large effect)"


def test_rows_pair_by_case_and_seed_else_by_case_else_not_at_all() -> None:
    pairs = align([rows(1.0, seeds=2), rows(1.0, seeds=2)])
    assert pairs is not None
    assert pairs.values.shape == (30, 2)
    by_case = align([rows(1.0, seeds=3), rows(1.0, seed="9")])
    assert by_case is not None
    assert by_case.values.shape == (15, 2)
    assert align([rows(1.0, case="one", seeds=2), rows(1.0, case="other")]) is None
    assert align([rows(1.0), rows(1.0)], "never") is None


def test_repeated_rows_of_few_cases_are_values_of_a_group() -> None:
    groups = {
        name: [ResultRow(float(value), "time", "s", case="only", seed="0") for value in range(at, at + 9)] for at, name in enumerate("AB")
    }
    (one,) = compare_rows(groups).comparisons
    assert not one.result.paired
    assert (one.result.first_count, one.result.second_count) == (9, 9)


def test_rows_left_without_a_partner_do_not_count() -> None:
    (one,) = compare_rows({"A": rows(0.5), "B": rows(1.0)[:9]}).comparisons
    assert one.result.first_count == 9


def test_plain_values_pair_by_place_only_when_asked() -> None:
    groups = {name: [ResultRow(float(value)) for value in CHANCE.normal(size=8)] for name in "AB"}
    assert not compare_rows(groups).comparisons[0].result.paired
    assert compare_rows(groups, "always").comparisons[0].result.paired
    with pytest.raises(ValueError, match="do not pair by place"):
        compare_rows({**groups, "B": groups["B"][:5]}, "always")


def test_different_units_and_no_common_metric_are_refused() -> None:
    with pytest.raises(ValueError, match="'ms' in B, 's' in A; convert them to one"):
        compare_rows({"A": rows(1.0), "B": rows(1.0, unit="ms")})
    with pytest.raises(ValueError, match="no metric in common"):
        compare_rows({"A": rows(1.0), "B": rows(1.0, metric="bytes")})
    notes = compare_rows({"A": [*rows(1.0), *rows(1.0, metric="bytes")], "B": rows(1.0)}).notes
    assert notes == ("b bytes: no rows in B",)


def test_methods_are_apart_where_a_group_has_several() -> None:
    group = [*rows(1.0, method="x"), *rows(2.0, method="y")]
    methods = [one.method for one in compare_rows({"A": group, "B": group}).comparisons]
    assert methods == ["x", "y"]


def test_more_than_two_groups_have_an_analysis_of_variance_and_each_two_a_test() -> None:
    answer = compare_rows({"A": rows(1.0), "B": rows(1.3), "C": rows(1.0)})
    assert [(one.first, one.second, one.shown) for one in answer.comparisons] == [("A", "B", True), ("A", "C", False), ("B", "C", True)]
    assert answer.overall[0].sentence.startswith("A, B and C differ (p < 0.001, eta squared 0.")
    raw = [one.result.p_value for one in answer.comparisons]
    corrected = [one.corrected_p_value for one in answer.comparisons]
    assert all(before is not None and after is not None and after >= before for before, after in zip(raw, corrected, strict=True))


def test_factors_are_columns_or_the_groups() -> None:
    def labelled(factor: float) -> list[ResultRow]:
        return [replace(row, columns={"size": "large" if at % 2 else "small"}) for at, row in enumerate(rows(factor))]

    answer = compare_rows({"A": labelled(1.0), "B": labelled(1.0)}, factor_names=("group", "size"))
    assert [one.factor for one in answer.overall] == ["group", "size"]
    assert answer.overall[0].sentence.startswith("no difference shown between the levels of group")
    with pytest.raises(ValueError, match="factor 'colour' is no column"):
        compare_rows({"A": labelled(1.0), "B": labelled(1.0)}, factor_names=("colour",))
