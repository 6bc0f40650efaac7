"""How nodes fail, from their own lives: exact bounds, the published rate as far as few failures leave it, a law from enough."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.evaluate.calibration.lessons import NodeLife
from hyperscale.evaluate.pipeline.evaluation_question import ASSUMED_FAILURES, ASSUMED_REPAIR_SECONDS, DAY_SECONDS, assumed_failures
from hyperscale.evaluate.pipeline.learned_failures import exact_rate, learned_failures, posterior_rate
from hyperscale.evaluate.twin.twin_types import LawFamily


def lives(count: int, failures: int, days: float = 100.0, cause: str = "NotReady") -> list[NodeLife]:
    """Nodes observed for this number of days each; the first ones fail half way and are back at once."""
    out = []
    for number in range(count):
        name = f"n{number}"
        if number < failures:
            half = days * DAY_SECONDS / 2.0
            out += [NodeLife(name, "H100", 0.0, half, cause), NodeLife(name, "H100", half)]
        else:
            out.append(NodeLife(name, "H100", 0.0))
    return out


def rate_of(assumption: object) -> float:
    (law,) = assumption.laws.values()  # type: ignore[attr-defined]
    return float(1_000.0 * DAY_SECONDS / law.scale_seconds)


def test_without_lives_the_published_rate_is_assumed() -> None:
    assert learned_failures((), 0.0) == assumed_failures()
    assert learned_failures([NodeLife("n", "H100", 5.0)], 5.0) == assumed_failures()


def test_the_rate_moves_from_the_published_one_to_the_counted_one() -> None:
    until = 100.0 * DAY_SECONDS
    rates = [rate_of(learned_failures(lives(count, 0), until)) for count in (1, 10, 100, 1000)]
    assert rates[0] < ASSUMED_FAILURES
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.01, rel=0.01)
    often = learned_failures(lives(10, 9), until)
    assert rate_of(often) == pytest.approx(1000.0 * 10.0 / (1000.0 + 1000.0 / 6.5))
    assert "9 failures in 1000 node-days of such nodes" in often.source
    assert "(4.1 to 17)" in often.source


def test_removals_by_people_are_time_without_a_failure() -> None:
    until = 100.0 * DAY_SECONDS
    assert rate_of(learned_failures(lives(100, 50, cause="planned"), until)) == rate_of(learned_failures(lives(100, 0), until))
    assert rate_of(learned_failures(lives(100, 50, cause="healthy"), until)) == rate_of(learned_failures(lives(100, 0), until))


def test_bounds_of_a_rate_are_garwoods() -> None:
    none, three = list(exact_rate(0, 1000.0)), list(exact_rate(3, 1000.0))
    assert none == pytest.approx([0.0, 0.0, 3.689], abs=1e-3)
    assert three == pytest.approx([3.0, 0.619, 8.767], abs=1e-3)
    with pytest.raises(ValueError, match="above 0"):
        exact_rate(1, 0.0)


def test_the_exact_bounds_hold_as_often_as_they_say() -> None:
    counts = np.random.default_rng(5).poisson(4.0, 2000)
    inside = [(bounds := exact_rate(int(count), 1000.0)).low <= 4.0 <= bounds.high for count in counts]
    assert np.mean(inside) >= 0.945


def test_the_posterior_without_any_node_day_is_the_prior() -> None:
    assert posterior_rate(0, 0.0).mean == ASSUMED_FAILURES


def test_enough_failures_fit_a_law_to_the_lives_until_now() -> None:
    chance = np.random.default_rng(2)
    rows, until = [], 400.0 * DAY_SECONDS
    for number in range(60):
        at = 0.0
        while True:
            life = float(chance.weibull(3.0)) * 150.0 * DAY_SECONDS
            if at + life >= until:
                rows.append(NodeLife(f"n{number}", "H100", at))
                break
            rows.append(NodeLife(f"n{number}", "H100", at, at + life, "NotReady"))
            at += life
    fitted = learned_failures(rows, until)
    (law,) = fitted.laws.values()
    assert law.family in (LawFamily.WEIBULL, LawFamily.GAMMA, LawFamily.LOGNORMAL)
    assert fitted.age_seconds > 0.0
    assert fitted.source.startswith("Learned: ")
    assert "Fitted to" in fitted.source
    if law.family is LawFamily.WEIBULL:
        assert law.shape == pytest.approx(3.0, rel=0.25)


def test_lives_from_the_future_are_left_out() -> None:
    late = [*lives(10, 0), NodeLife("odd", "H100", 500.0 * DAY_SECONDS), NodeLife("odd2", "H100", 0.0, 500.0 * DAY_SECONDS, "NotReady")]
    until = 100.0 * DAY_SECONDS
    assert learned_failures(late, until) == learned_failures(lives(10, 0), until)


def test_repairs_take_what_they_took_on_these_nodes() -> None:
    hour = 3600.0
    rows = []
    for number in range(7):
        rows += [NodeLife(f"n{number}", "H100", 0.0, 50 * hour, "NotReady"), NodeLife(f"n{number}", "H100", (51 + number) * hour)]
    rows.append(NodeLife("gone", "H100", 0.0, 60 * hour, "NotReady"))
    assert learned_failures(rows, 1_000 * hour).repair_seconds == 4 * hour
    assert learned_failures(rows[:6], 1_000 * hour).repair_seconds == ASSUMED_REPAIR_SECONDS
    planned = [NodeLife(life.node, "H100", life.insert_seconds, life.remove_seconds, "planned" if life.cause else "") for life in rows]
    assert learned_failures(planned, 1_000 * hour).repair_seconds == ASSUMED_REPAIR_SECONDS
