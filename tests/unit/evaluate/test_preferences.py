"""Answers reveal weights within bounds, in any order, and can be taken back; the next question is the one that teaches most."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from hyperscale.evaluate.preferences import revealed_weights as revealed
from hyperscale.evaluate.preferences.alternatives import Alternative, Answer, is_trade_off, log_figures, without
from hyperscale.evaluate.preferences.next_question import information_bits, next_question
from hyperscale.evaluate.preferences.revealed_weights import WeightBounds, best_alternative, posterior, reveal

FAST = Alternative(1800.0, 200.0, 0.05)
CHEAP = Alternative(7200.0, 50.0, 0.05)
SAFE = Alternative(7200.0, 200.0, 0.0125)


def answers_of(weights: tuple[float, float, float], count: int, seed: int = 0) -> list[Answer]:
    """Consistent answers of a person with these weights."""
    chance = np.random.default_rng(seed)
    given: list[Answer] = []
    while len(given) < count:
        pair = [Alternative(*map(float, figures)) for figures in np.exp(chance.normal(0.0, 0.7, (2, 3))) * (3600.0, 100.0, 0.05)]
        if is_trade_off(*pair):
            better = best_alternative(pair, weights)
            given.append(Answer(pair[better], pair[1 - better], str(len(given))))
    return given


def test_without_answers_the_weights_are_equal_as_far_as_bounds_allow() -> None:
    assert reveal(()).weights == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-6)
    bound = reveal((), WeightBounds((0.5, 0.0, 0.0), (0.8, 0.5, 0.5)))
    assert bound.weights == pytest.approx((0.5, 0.25, 0.25), abs=1e-3)


@pytest.mark.parametrize("weights", [(0.6, 0.3, 0.1), (0.1, 0.2, 0.7), (0.34, 0.33, 0.33)])
def test_consistent_answers_reveal_the_weights(weights: tuple[float, float, float]) -> None:
    result = reveal(answers_of(weights, 60))
    assert max(abs(ours - true) for ours, true in zip(result.weights, weights, strict=True)) < 0.08
    assert math.fsum(result.weights) == pytest.approx(1.0)
    assert max(result.deviation) < 0.1
    assert max(reveal(answers_of(weights, 3)).deviation) > max(result.deviation)


def test_the_most_probable_weights_are_those_of_a_general_optimiser() -> None:
    given = answers_of((0.5, 0.3, 0.2), 12, seed=3)
    given[0] = Answer(given[0].other, given[0].preferred, "0")
    ratios = log_figures([one.other for one in given]) - log_figures([one.preferred for one in given])

    def loss(point: np.ndarray) -> float:
        weights = np.array([[point[0], point[1], 1.0 - point[0] - point[1]]])
        if weights.min() < 0.05 or weights.max() > 0.9:
            return 1e6
        likely = np.log(revealed.choice_probability(ratios, weights, np.array([math.exp(point[2])]))).sum()
        return -float(likely + 0.5 * np.log(weights).sum())

    starts = [(a, b, c) for a in (0.2, 0.5) for b in (0.2, 0.4) for c in (0.7, 2.0)]
    bounds = [(0.05, 0.9), (0.05, 0.9), (0.0, math.log(16.0))]
    best = min((minimize(loss, start, method="Nelder-Mead", bounds=bounds) for start in starts), key=lambda each: each.fun)
    ours = reveal(given).weights
    assert ours[:2] == pytest.approx(best.x[:2], abs=0.02)


def test_the_order_of_answers_changes_no_byte_and_an_answer_can_be_taken_back() -> None:
    given = answers_of((0.6, 0.3, 0.1), 9)
    assert reveal(given) == reveal(given[::-1])
    wrong = Answer(given[0].other, given[0].preferred, "slip")
    assert reveal((*given, wrong)) != reveal(given)
    assert reveal(without((*given, wrong), "slip")) == reveal(given)
    with pytest.raises(ValueError, match="no answer 'x'; write one of 0, 1"):
        without(given, "x")


def test_bounds_hold_whatever_is_answered() -> None:
    bounds = WeightBounds((0.2, 0.1, 0.1), (0.5, 0.6, 0.4))
    for weights in ((0.98, 0.01, 0.01), (0.01, 0.98, 0.01), (0.01, 0.01, 0.98)):
        result = reveal(answers_of(weights, 30), bounds)
        for low, high, each, mean in zip(bounds.low, bounds.high, result.weights, result.mean, strict=True):
            assert low - 1e-9 <= each <= high + 1e-9
            assert low - 1e-9 <= mean <= high + 1e-9
        favourite = int(np.argmax(weights))
        assert result.weights[favourite] == pytest.approx(bounds.high[favourite], abs=0.02)


def test_bounds_of_one_point_leave_only_that() -> None:
    assert reveal(answers_of((0.9, 0.05, 0.05), 5), WeightBounds((0.2, 0.3, 0.5), (0.2, 0.3, 0.5))).weights == (0.2, 0.3, 0.5)


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        ((0.5, 0.5, 0.5), (0.9, 0.9, 0.9), "no weights of sum 1 keep them"),
        ((0.0, 0.0, 0.0), (0.3, 0.3, 0.3), "no weights of sum 1 keep them"),
        ((0.5, 0.0, 0.0), (0.4, 1.0, 1.0), "each low is at most its high"),
        ((math.nan, 0.0, 0.0), (1.0, 1.0, 1.0), "each low is at most its high"),
    ],
)
def test_bounds_that_no_weights_keep_are_refused(low: tuple[float, float, float], high: tuple[float, float, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        reveal((), WeightBounds(low, high))


@pytest.mark.parametrize(
    "wrong", [Alternative(0.0, 1.0, 0.1), Alternative(1.0, math.inf, 0.1), Alternative(1.0, math.nan, 0.1), Alternative(1.0, 1.0, 1.5)]
)
def test_figures_out_of_range_are_refused(wrong: Alternative) -> None:
    with pytest.raises(ValueError, match=r"give finite figures above 0|give a probability from 0 to 1"):
        reveal((Answer(FAST, wrong),))


def test_an_answer_moves_the_weights_its_way_whatever_the_units() -> None:
    faster = reveal((Answer(FAST, CHEAP),))
    assert faster.weights[0] > 1 / 3 > faster.weights[1]
    in_cents = Answer(in_units(FAST, 60.0, 0.01), in_units(CHEAP, 60.0, 0.01))
    assert reveal((in_cents,)).weights == pytest.approx(faster.weights, abs=1e-9)


def in_units(one: Alternative, time: float, cost: float) -> Alternative:
    return Alternative(one.time_seconds * time, one.cost * cost, one.risk)


def test_weights_choose_the_alternative_of_the_least_burden() -> None:
    assert [best_alternative((FAST, CHEAP, SAFE), weights) for weights in ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))] == [0, 1, 2]
    with pytest.raises(ValueError, match="at least one"):
        best_alternative((), (1.0, 0.0, 0.0))


def test_the_next_question_has_the_most_information_of_all_pairs() -> None:
    pool = [FAST, CHEAP, SAFE, Alternative(3600.0, 100.0, 0.05), Alternative(9000.0, 300.0, 0.2)]
    belief = posterior(answers_of((0.6, 0.3, 0.1), 6))
    chosen = next_question(pool, belief)
    assert chosen is not None
    pairs = [pair for pair in combinations(range(len(pool)), 2) if is_trade_off(pool[pair[0]], pool[pair[1]])]
    figures = log_figures(pool)
    bits = {pair: float(information_bits((figures[pair[1]] - figures[pair[0]])[None, :], belief)[0]) for pair in pairs}
    assert bits[chosen.first, chosen.second] == pytest.approx(max(bits.values()))
    assert 0.0 < chosen.information_bits <= 1.0


def test_expected_information_is_the_mean_fall_of_entropy_over_both_answers() -> None:
    given = answers_of((0.6, 0.3, 0.1), 4)
    before = posterior(given)
    ratios = log_figures([CHEAP]) - log_figures([FAST])
    chance = float((revealed.choice_probability(ratios, before.weights, before.sharpness) @ before.masses)[0])
    after = [entropy_bits(posterior([*given, Answer(*pair)]).masses) for pair in ((FAST, CHEAP), (CHEAP, FAST))]
    fall = entropy_bits(before.masses) - chance * after[0] - (1.0 - chance) * after[1]
    assert float(information_bits(ratios, before)[0]) == pytest.approx(fall, abs=1e-9)


def entropy_bits(masses: np.ndarray) -> float:
    kept = masses[masses > 0.0]
    return -float((kept * np.log2(kept)).sum())


def test_where_nothing_is_traded_there_is_no_question() -> None:
    better = Alternative(1000.0, 10.0, 0.01)
    assert next_question([FAST, better], posterior(())) is None
    assert next_question([FAST], posterior(())) is None
    assert not is_trade_off(FAST, FAST)


def test_active_questions_leave_less_doubt_than_random_ones() -> None:
    from benchmarks import preferences

    doubt = dict.fromkeys(("active", "random"), 0.0)
    for strategy in doubt:
        for number in range(8):
            chance = np.random.default_rng(number)
            who, given = preferences.person(chance, "flipped"), list[Answer]()
            for at in range(12):
                given.append(preferences.answer(chance, who, preferences.question(chance, strategy, given), at)[0])
            doubt[strategy] += sum(reveal(given).deviation)
    assert doubt["active"] < 0.9 * doubt["random"]
