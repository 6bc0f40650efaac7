"""AHP weights are the published ones, contradictions are refused with their fix, HyperScore is its formula."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from msgspec.structs import replace

from benchmarks.score import PUBLISHED, exact_hyperscore
from hyperscale.evaluate.score.hyperscore import HyperScoreSettings, highest, hyperscore
from hyperscale.evaluate.score.shapley import shapley
from hyperscale.util import ahp


def matrix(text: str) -> list[list[float]]:
    return [[float(Fraction(entry)) for entry in row.split()] for row in text.split(";")]


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_and_ratios_are_those_that_saaty_prints(name: str) -> None:
    published = PUBLISHED[name]
    result = ahp.priorities(published.names(), published.entries())
    assert max(abs(ours - theirs) for ours, theirs in zip(result.weights, published.weights, strict=True)) <= 1e-3
    assert published.eigenvalue is None or result.eigenvalue == pytest.approx(published.eigenvalue, abs=5e-3)
    assert published.consistency_ratio is None or result.consistency_ratio == pytest.approx(published.consistency_ratio, abs=1e-3)
    assert math.fsum(result.weights) == pytest.approx(1.0, abs=1e-12)


def test_a_contradiction_is_refused_with_its_triple_and_the_entry_to_change() -> None:
    names, table = ("proof", "forecast", "risk"), matrix("1 3 1/5; 1/3 1 3; 5 1/3 1")
    with pytest.raises(ahp.InconsistentComparisonsError, match=r"is not below 0\.1: proof to forecast to risk makes 45 times") as refused:
        ahp.weights(names, table)
    contradiction = refused.value.contradiction
    row, column = (names.index(name) for name in contradiction.entry)
    table[row][column], table[column][row] = contradiction.suggestion, 1.0 / contradiction.suggestion
    assert ahp.weights(names, table).consistency_ratio == pytest.approx(contradiction.ratio)
    assert contradiction.ratio < ahp.MAX_RATIO


def test_one_wrong_entry_of_many_is_the_one_that_is_named() -> None:
    true = [0.4, 0.25, 0.2, 0.1, 0.05]
    table = [[left / right for right in true] for left in true]
    table[1][3], table[3][1] = 1.0 / 7.0, 7.0
    named = ahp.contradiction("abcde", table)
    assert set(named.entry) == {"b", "d"}
    assert named.ratio < 0.01


def test_saatys_house_is_refused_and_his_jobs_are_not() -> None:
    with pytest.raises(ahp.InconsistentComparisonsError, match=r"ratio 0\.169 is not below"):
        ahp.weights("abcdefgh", PUBLISHED["house"].entries())
    assert ahp.weights("abcde", PUBLISHED["job"].entries()).consistency_ratio < 0.1


def test_two_components_and_rounded_entries_are_accepted() -> None:
    assert ahp.weights(("a", "b"), [[1.0, 3.0], [0.33, 1.0]]).weights == pytest.approx((0.75, 0.25), abs=1e-2)
    assert ahp.weights(("a",), [[1.0]]).weights == (1.0,)
    with pytest.raises(ValueError, match="cannot contradict"):
        ahp.contradiction(("a", "b"), [[1.0, 3.0], [1.0 / 3.0, 1.0]])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([[1.0, 2.0]], "is not 2 x 2"),
        ([[1.0, 2.0], [2.0, 1.0]], r"a to b: is 2; write 1/2, as b to a is 2"),
        ([[1.0, -2.0], [-0.5, 1.0]], r"a to b: -2 is no comparison; write a number above 0"),
        ([[1.0, math.nan], [1.0, 1.0]], "is no comparison"),
        ([[3.0, 2.0], [0.5, 1.0]], "a to a: is 3; write 1"),
    ],
)
def test_matrices_that_compare_nothing_are_refused_with_the_entry(table: list[list[float]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ahp.weights(("a", "b"), table)


def test_names_must_be_few_and_distinct() -> None:
    for names in ((), ("a", "a"), tuple("abcdefghijklmnop")):
        with pytest.raises(ValueError, match="each once"):
            ahp.weights(names, [[1.0] * len(names)] * len(names))


@pytest.mark.parametrize("value", [0.001, 0.1, 0.5, 0.8, 0.95, 0.999999, 1.0])
@pytest.mark.parametrize(("beta", "sign", "kappa"), [(5.0, -1.0, 2.0), (5.0, 1.0, 2.0), (0.5, -1.0, 1.5), (12.0, 1.0, 3.0)])
def test_the_score_is_the_formula_to_twelve_digits(value: float, beta: float, sign: float, kappa: float) -> None:
    settings = HyperScoreSettings(beta, sign * math.log(2.0), kappa)
    assert abs(Decimal(hyperscore(value, settings)) / exact_hyperscore(value, settings) - 1) <= Decimal("1e-12")


def test_the_papers_example_is_107_8_by_its_formula_and_136_9_with_the_other_sign() -> None:
    printed = HyperScoreSettings()
    assert round(hyperscore(0.95), 1) == 107.8
    assert round(hyperscore(0.95, replace(printed, gamma=math.log(2.0))), 1) == 136.9
    assert round(highest(), 1) == 111.1
    assert hyperscore(0.0) == 100.0


@pytest.mark.parametrize(
    ("value", "settings"),
    [(math.nan, {}), (1.01, {}), (-0.1, {}), (0.5, {"beta": 0.0}), (0.5, {"kappa": -1.0}), (0.5, {"gamma": math.inf})],
)
def test_values_and_settings_out_of_range_are_refused(value: float, settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"give a number from 0 to 1|all are finite"):
        hyperscore(value, HyperScoreSettings(**settings))


def test_shares_of_a_game_of_gloves_are_the_known_ones() -> None:
    shares = shapley(("left", "right 1", "right 2"), lambda members: float("left" in members and len(members) > 1))
    assert [float(share) for share in shares.exact] == pytest.approx([2 / 3, 1 / 6, 1 / 6], abs=1e-15)
    assert math.fsum(shares.shares) == shares.value == 1.0


def test_too_many_components_and_values_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 10, each once"):
        shapley("abcdefghijk", lambda _: 0.0)
    with pytest.raises(ValueError, match=r"the value of \{a\} is nan"):
        shapley("ab", lambda members: math.nan if members == {"a"} else 0.0)
