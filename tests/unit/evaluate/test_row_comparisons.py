"""Rows of results pair by case and seed, are compared by metric, and end in one plain sentence each."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.compare import count_clustered, count_clustered_factor
from hyperscale.evaluate.statistics.result_rows import Pairing, ResultRow, align
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


def test_cases_pair_by_the_means_of_their_seeds_and_one_case_by_seed() -> None:
    pairs = align([rows(1.0, seeds=2), rows(1.0, seeds=2)])
    assert pairs is not None
    assert (pairs.values.shape, pairs.averaged) == ((15, 2), (2, 2, "seeds"))
    by_case = align([rows(1.0, seeds=3), rows(1.0, seed="9")])
    assert by_case is not None
    assert (by_case.values.shape, by_case.averaged) == ((15, 2), (1, 3, "seeds"))
    one = [[ResultRow(float(at), case="one", seed=str(at)) for at in range(8)] for _ in "AB"]
    by_seed = align(one)
    assert by_seed is not None
    assert (by_seed.values.shape, by_seed.averaged.most) == ((8, 2), 1)
    assert align([rows(1.0, case="one", seeds=2), rows(1.0, case="other")]) is None
    assert align([rows(1.0), rows(1.0)], "never") is None


def of_cases(count: int, factor: float) -> list[ResultRow]:
    """Forty seeds of the first cases."""
    return [row for row in rows(factor, seeds=40) if row.case in CASES[:count]]


@pytest.mark.parametrize("pairing", ["auto", "always", "never"])
def test_many_seeds_of_few_cases_show_nothing(pairing: Pairing) -> None:
    (one,) = compare_rows({"A": of_cases(3, 0.5), "B": of_cases(3, 1.0)}, pairing).comparisons
    assert not one.shown
    assert one.result.first_count == 3
    assert "; cases are means of 40 seeds" in one.sentence


def test_many_seeds_of_few_cases_say_what_is_missing_and_of_one_case_they_show() -> None:
    assert "6 is the least number" in compare_rows({"A": of_cases(3, 0.5), "B": of_cases(3, 1.0)}).comparisons[0].sentence
    assert compare_rows({"A": of_cases(1, 0.5), "B": of_cases(1, 1.0)}).comparisons[0].shown


def test_the_sentence_says_cases_and_seeds() -> None:
    (one,) = compare_rows({"A": rows(0.8, seeds=4), "B": rows(1.0, seeds=4)}).comparisons
    assert "on 15 of 15 cases (p < 0.001, large effect; cases are means of 4 seeds)" in one.sentence
    repeated = [row for row in rows(1.0) for _ in range(2)]
    (other,) = compare_rows({"A": repeated, "B": [*rows(1.2), *rows(1.2)[:3]]}).comparisons
    assert "cases are means of 1 to 2 values" in other.sentence


def test_more_seeds_of_the_same_cases_do_not_make_a_difference_surer() -> None:
    few, many = (compare_rows({"A": repeat(rows_of(0.3, 1), count), "B": repeat(rows_of(0.0, 2), count)}) for count in (1, 50))
    assert few.comparisons[0].result.p_value == pytest.approx(many.comparisons[0].result.p_value)


def rows_of(shift: float, seed: int) -> list[ResultRow]:
    chance = np.random.default_rng(seed)
    return [ResultRow(float(value), "time", "s", case=str(at), seed="0") for at, value in enumerate(chance.lognormal(shift, 0.3, 8))]


def repeat(once: list[ResultRow], count: int) -> list[ResultRow]:
    return [replace(row, seed=str(seed)) for row in once for seed in range(count)]


@pytest.mark.parametrize("same_cases", [True, False])
def test_seeds_that_share_the_luck_of_their_case_are_no_evidence(same_cases: bool) -> None:
    counts = count_clustered(150, 3, same_cases=same_cases)
    assert counts["compare"] <= 12
    assert max(counts.values()) > 40, "taken for independent they state differences"


def test_a_factor_counts_cases_and_not_their_seeds() -> None:
    assert count_clustered_factor(100, 4) <= 9


def test_an_answer_in_no_known_form_is_refused_before_any_test() -> None:
    groups = {f"g{at}": [ResultRow(float(at))] for at in range(1000)}
    with pytest.raises(ValueError, match="1,000 groups; compare at most 50: name fewer files, or write --by"):
        compare_rows(groups)
    metrics = {name: [ResultRow(1.0, f"m{at}") for at in range(6000)] for name in "AB"}
    with pytest.raises(ValueError, match=r"6,000 comparisons of 6,000 metrics; .* write --metric"):
        compare_rows(metrics)


def test_a_factor_of_thousands_of_levels_is_refused() -> None:
    many = [ResultRow(float(at), columns={"row": str(at), "kind": str(at % 150)}) for at in range(100_000)]
    with pytest.raises(ValueError, match=r"factor 'row' has 100,000 levels; at most 200"):
        compare_rows({"all": many}, factor_names=("row",))
    with pytest.raises(ValueError, match=r"100,000 values by these factors .* at most 66,666 rows"):
        compare_rows({"all": many}, factor_names=("kind",))


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
