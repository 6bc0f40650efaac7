"""What holds for comparisons of any figures: order, units and shifts do not change what they show."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.statistics.group_pair import compare_groups, compare_pairs
from hyperscale.evaluate.statistics.holm import holm
from hyperscale.evaluate.statistics.result_rows import ResultRow
from hyperscale.evaluate.statistics.row_comparison import compare_rows

figures = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
groups = st.lists(figures, min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(groups, groups)
def test_swapping_groups_turns_signs_and_nothing_else(first: list[float], second: list[float]) -> None:
    one, other = (compare_groups(np.array(a), np.array(b)) for a, b in ((first, second), (second, first)))
    assert one.p_value == other.p_value or math.isclose(one.p_value or 0.0, other.p_value or 0.0, rel_tol=1e-9)
    assert math.isclose(one.cliffs_delta, -other.cliffs_delta, abs_tol=1e-12)
    assert math.isclose(one.estimate, -other.estimate, abs_tol=1e-9)
    assert one.reason.split(" ")[-1] == other.reason.split(" ")[-1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(figures, figures), min_size=2, max_size=12), st.sampled_from([1e-3, 7.0, 1e9]), st.permutations(range(12)))
def test_units_and_order_of_pairs_change_no_p_value(pairs: list[tuple[float, float]], factor: float, order: list[int]) -> None:
    table = np.array(pairs)
    mixed = factor * table[[at for at in order if at < len(table)]]
    one, other = compare_pairs(table[:, 0], table[:, 1]), compare_pairs(mixed[:, 0], mixed[:, 1])
    assert one.p_value is not None
    assert other.p_value is not None
    assert 0.0 <= one.p_value <= 1.0
    assert math.isclose(one.p_value, other.p_value, rel_tol=1e-6, abs_tol=1e-9)
    assert (one.wins, one.losses) == (other.wins, other.losses)


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_corrected_p_values_keep_the_order_and_are_never_smaller(p_values: list[float]) -> None:
    corrected = [value for value in holm(p_values) if value is not None]
    assert all(before <= after <= 1.0 for before, after in zip(p_values, corrected, strict=True))
    ranked = [after for _, after in sorted(zip(p_values, corrected, strict=True))]
    assert ranked == sorted(ranked)


@settings(max_examples=60, deadline=None)
@given(st.lists(groups, min_size=2, max_size=4), st.sampled_from(["auto", "never"]))
def test_any_groups_of_figures_end_in_sentences(columns: list[list[float]], pairing: str) -> None:
    rows = {
        f"g{at}": [ResultRow(value, "m", "s", case=f"c{place % 7}", seed=str(place // 7)) for place, value in enumerate(column)]
        for at, column in enumerate(columns)
    }
    answer = compare_rows(rows, "never" if pairing == "never" else "auto")
    sentences = [each.sentence for each in answer.comparisons] + [each.sentence for each in answer.overall]
    assert all(text and "nan" not in text and "None" not in text for text in sentences)
