"""The fit of speeds to finished runs: what it finds, what it shrinks, and which runs count how much."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hyperscale.evaluate.calibration import speed_fit
from hyperscale.evaluate.calibration.speed_fit import ANY, corrections_of
from hyperscale.evaluate.calibration.taught_run import (
    LEAST_CAPPED,
    MOST_TIMED_PRODUCTS,
    SAME_NAMESPACE,
    TaughtRun,
    measured_computes,
    usable,
    weights,
)
from hyperscale.model.history.corrections import MAX_FACTOR, Corrections, PartKind, PredictedPart

RACK = "rack"


def run(
    seconds: dict[str, float],
    ratio: float = 1.0,
    *,
    link: float = 0.0,
    architecture: str = "GCN",
    namespace: str = "team",
    truth: dict[str, float] | None = None,
    compute: bool = False,
) -> TaughtRun:
    """A run with compute seconds by product and link seconds that measures `ratio` x its prediction; `truth` has factors by name."""
    factors = truth or {}
    parts = [PredictedPart(PartKind.COMPUTE, each, name, 1e13, link) for name, each in seconds.items()]
    parts += [PredictedPart(PartKind.LINK, link, RACK)] if link else []
    slowest = max(each * factors.get(name, 1.0) for name, each in seconds.items())
    measured = ratio * (slowest + link * factors.get(RACK, 1.0))
    return TaughtRun(namespace, architecture, tuple(parts), max(seconds.values()) + link, measured, ratio * slowest if compute else None)


def product(corrections: Corrections, name: str) -> float:
    return next(factor.factor for factor in corrections.products if factor.name == name)


def test_products_and_tiers_are_told_apart() -> None:
    truth = {"A": 1.8, "B": 0.6, RACK: 1.6}
    chance = np.random.default_rng(3)
    runs = [
        run({name: float(chance.uniform(0.5, 2.0))}, math.exp(chance.normal(0.0, 0.03)), link=link, truth=truth)
        for name, link in [("A", 0.1), ("B", 0.1), ("A", 1.0), ("B", 1.0)] * 6
    ]
    found = corrections_of(runs)["GCN"]
    assert product(found, "A") == pytest.approx(1.8, rel=0.08)
    assert product(found, "B") == pytest.approx(0.6, rel=0.08)
    assert found.tiers[0].factor == pytest.approx(1.6, rel=0.12)
    assert found.tiers[0].name == RACK
    assert found.runs == found.all_runs == 24


def test_measured_compute_seconds_tell_arithmetic_from_links() -> None:
    truth = {"A": 1.8}
    whole = corrections_of([run({"A": 1.0}, link=1.0, truth=truth)] * 8)["GCN"]
    split = corrections_of([run({"A": 1.0}, link=1.0, truth=truth, compute=True)] * 8)["GCN"]
    assert abs(product(split, "A") - 1.8) < 0.5 * abs(product(whole, "A") - 1.8)


def test_seconds_of_a_shared_uplink_are_not_blamed_on_links_or_arithmetic() -> None:
    """Nine tenths of the exchange hang on an uplink; links take twice as long as stated."""
    parts = (PredictedPart(PartKind.COMPUTE, 1.0, "A", 1e13, 10.0), PredictedPart(PartKind.LINK, 1.0, RACK))
    whole = (*parts, PredictedPart(PartKind.UNCORRECTED, 9.0))
    found = corrections_of([TaughtRun("team", "GCN", whole, 11.0, 12.0, 1.0)] * 40)["GCN"]
    assert found.tiers[0].factor == pytest.approx(2.0, rel=0.1)
    assert product(found, "A") == pytest.approx(1.0, abs=0.03)


def test_few_runs_move_a_factor_less_than_many() -> None:
    few, many = (product(corrections_of([run({"A": 1.0}, 2.0)] * count)[ANY], "A") for count in (1, 20))
    assert 1.0 < few < many < 2.0


def test_a_product_that_only_kept_pace_may_be_faster() -> None:
    """B waited for A, or nearly so: its runs are a bound. C ran alone as often."""
    runs = [run({"A": 1.0}), run({"A": 1.0, "B": 1.0}), run({"C": 1.0})] * 8
    errors = {factor.name: factor.error for factor in corrections_of(runs)["GCN"].products}
    assert errors["B"] > 0.2 > 2.0 * errors["C"]
    assert errors["A"] < 0.1


def test_a_product_may_be_faster_where_others_that_are_hardly_slower_would_set_the_pace() -> None:
    """B takes half of its stated seconds and never sets the pace; A and C, which never ran without it, explain the runs as well."""
    chance = np.random.default_rng(3)
    runs = []
    for number in range(15):
        names = (("A", "B"), ("C", "B"), ("A", "C", "B"))[number % 3]
        seconds = {name: float(chance.uniform(0.95, 1.1) if name == "B" else chance.uniform(0.97, 1.03)) for name in names}
        runs.append(run(seconds, math.exp(chance.normal(0.0, 0.1)), truth={"B": 0.5}))
    factor = next(factor for factor in corrections_of(runs)["GCN"].products if factor.name == "B")
    assert factor.error > 0.28
    assert math.log(factor.factor) - math.log(0.5) < 2.5 * factor.error


def test_a_disturbed_run_is_no_more_proof_for_measuring_compute_too() -> None:
    steady = [run({"A": 1.0}, link=0.2, compute=True)] * 3
    disturbed = run({"A": 1.0}, 4.0, link=0.2, compute=True)
    assert product(corrections_of([*steady, disturbed])["GCN"], "A") < 1.1


def test_a_disturbed_run_moves_little() -> None:
    steady = [run({"A": 1.0}, 1.0 + 0.01 * (number % 3)) for number in range(9)]
    assert product(corrections_of([*steady, run({"A": 1.0}, 8.0)])["GCN"], "A") < 1.05


def test_one_disturbed_run_does_not_settle_a_tier_that_no_other_run_had() -> None:
    """It fits itself, so that its residual is small; left out of the fit it would be far off."""
    steady = [run({"A": 1.0}, 1.0 + 0.01 * (number % 3)) for number in range(12)]
    tier = corrections_of([*steady, run({"A": 1.0}, 4.0, link=1.0)])["GCN"].tiers[0]
    assert tier.factor < 2.0
    assert tier.error > 0.3


@pytest.mark.parametrize("ratio", [math.nan, math.inf, 0.0, -1.0, 1e-3, 1e3])
def test_what_can_be_no_run_teaches_nothing(ratio: float) -> None:
    sound = [run({"A": 1.0}, 1.5)] * 6
    assert corrections_of([*sound, run({"A": 1.0}, ratio)]) == corrections_of(sound)
    assert not usable(run({"A": 1.0}, ratio))


def test_parts_that_are_not_those_of_the_prediction_teach_nothing() -> None:
    forged = run({"A": 1.0})._replace(predicted_seconds=2.0, measured_seconds=2.0)
    assert not usable(forged)
    assert not usable(forged._replace(parts=()))


def test_a_product_that_only_waited_is_taught_where_ranks_were_told_apart() -> None:
    truth = {"A": 1.0, "B": 0.4}
    waited = run({"A": 1.0, "B": 1.0}, truth=truth, compute=True)
    timed = waited._replace(product_seconds=(("A", 1.0), ("B", 0.4)))
    blind, found = (corrections_of([each] * 8)["GCN"] for each in (waited, timed))
    assert product(blind, "B") > 0.8
    assert product(found, "B") == pytest.approx(0.4, rel=0.1)
    assert product(found, "A") == pytest.approx(1.0, rel=0.1)
    errors = [next(factor.error for factor in each.products if factor.name == "B") for each in (blind, found)]
    assert errors[1] < 0.5 * errors[0]


def test_seconds_of_a_product_that_the_plan_does_not_have_or_that_cannot_be_are_left_out() -> None:
    both = run({"A": 1.0, "B": 1.0}, compute=True)
    assert measured_computes(both._replace(product_seconds=(("A", 1.0), ("C", 1.0)))) == [("A", 1.0)]
    assert measured_computes(both._replace(product_seconds=(("A", 0.9), ("B", 1.5)))) == [("A", 0.9)]
    many = run({f"P{number}": 1.0 for number in range(20)})
    assert len(measured_computes(many._replace(product_seconds=tuple((name, 1.0) for name in many.products)))) == MOST_TIMED_PRODUCTS
    assert measured_computes(both._replace(product_seconds=(("B", math.nan), ("A", 1e-6)))) == [("", 1.0)]


def test_compute_seconds_beyond_the_epoch_are_no_measurement() -> None:
    assert measured_computes(run({"A": 1.0}, compute=True)) == [("", 1.0)]
    rounded = run({"A": 1.0, "B": 1.0})._replace(measured_seconds=1.2345, product_seconds=(("A", 1.235), ("B", 0.6)))
    assert measured_computes(rounded) == [("A", 1.235), ("B", 0.6)]
    assert measured_computes(rounded._replace(product_seconds=(("A", 1.237),))) == []
    assert measured_computes(run({"A": 1.0})._replace(compute_seconds=1.5)) == []
    assert measured_computes(run({"A": 1.0})._replace(compute_seconds=math.nan)) == []


def test_an_unlike_architecture_is_not_corrected_by_what_slowed_another() -> None:
    runs = [run({name: 1.0}, 2.0, architecture="GAT") for name in ("A", "B", "C")] * 8
    found = corrections_of(runs)
    assert product(found["GAT"], "A") == pytest.approx(2.0, rel=0.03)
    assert all(0.97 < factor.factor < 1.15 for factor in found[ANY].products)
    assert found[ANY].untried.factor == 1.0
    assert found[ANY].runs == 0


def test_how_products_compare_is_taught_across_architectures() -> None:
    runs = [run({"A": 1.0}, 2.0, architecture="GAT"), run({"B": 1.0}, 1.0, architecture="GAT")] * 8
    found = corrections_of(runs)[ANY]
    assert product(found, "A") / product(found, "B") > 1.8


def test_runs_of_one_architecture_know_it_better_than_another() -> None:
    found = corrections_of([run({"A": 1.0}, 1.3)] * 10)
    errors = {name: each.products[0].error for name, each in found.items()}
    assert errors["GCN"] < 0.1 < 0.5 < errors[ANY]
    assert found["GCN"].untried.error > 0.3


def test_fewer_runs_than_asked_for_teach_nothing() -> None:
    runs = [run({"A": 1.0}, 2.0)] * 4
    assert corrections_of(runs, 5) == {}
    assert corrections_of([], 0) == {}
    assert corrections_of([*runs, *runs], 5) != {}


def test_the_spread_is_that_of_runs_left_out() -> None:
    chance = np.random.default_rng(7)
    runs = [run({"A": 1.0}, math.exp(chance.normal(0.0, 0.2))) for _ in range(60)]
    assert corrections_of(runs)["GCN"].spread == pytest.approx(0.2, rel=0.3)


def test_runs_of_one_namespace_count_for_no_more_than_a_few() -> None:
    flood = [run({"A": 1.0}, namespace="loud")] * 300
    counted = weights([*flood, run({"A": 1.0}, namespace="quiet")])
    assert sum(counted[:-1]) < 1.0 / SAME_NAMESPACE
    assert counted[-1] == 1.0
    assert weights(flood) == [1.0] * 300


def test_a_namespace_counts_for_no_more_than_all_others_in_however_many_mixes() -> None:
    honest = [run({"A": 1.0}, namespace="a")] * 40
    mixes = [run({"A": 1.0, f"X{number % 8}": 0.5}, 19.0, namespace="liar") for number in range(96)]
    apart = [run({f"X{number % 8}": 1.0}, 19.0, namespace="liar") for number in range(96)]
    for lies in (mixes, apart):
        counted = weights([*honest, *lies])
        assert sum(counted[40:]) <= max(sum(counted[:40]), LEAST_CAPPED) * (1.0 + 1e-9)
        assert product(corrections_of([*honest, *lies])["GCN"], "A") < 1.5


def test_mixes_with_one_product_are_no_independent_proof_of_it() -> None:
    others = [run({"B": 1.0}, namespace=f"team-{number}") for number in range(100)]
    counted = weights([*others, *(run({"A": 1.0, f"X{number % 8}": 0.5}, namespace="liar") for number in range(96))])
    assert sum(counted[100:]) < 1.0 / SAME_NAMESPACE


def test_one_run_of_another_namespace_does_not_silence_a_lone_tenant() -> None:
    own = [run({"A": 1.0}, 2.0, namespace="a")] * 40
    assert sum(weights([*own, run({"B": 1.0}, namespace="other")])[:40]) > 0.9 * LEAST_CAPPED
    assert product(corrections_of([*own, run({"B": 1.0}, namespace="other")])["GCN"], "A") > 1.7


def test_a_flood_of_lies_does_not_outvote_three_namespaces() -> None:
    honest = [run({"A": 1.0}, 1.0, namespace=name) for name in ("a", "b", "c")] * 8
    lies = [run({"A": 1.0}, 15.0, namespace="liar")] * 300
    assert product(corrections_of([*honest, *lies])["GCN"], "A") < 1.2


def test_a_lie_without_other_runs_is_bounded() -> None:
    honest = [run({"A": 1.0}, 1.0, namespace="a")] * 8
    lies = [run({"B": 1.0}, 19.0, namespace="liar")] * 90
    found = corrections_of([*honest, *lies])["GCN"]
    assert product(found, "B") <= MAX_FACTOR
    assert product(found, "A") == pytest.approx(1.0, abs=0.35)


def test_the_same_runs_give_the_same_factors() -> None:
    runs = [run({"A": 1.0, "B": 0.7}, 1.4, link=0.3)] * 7
    assert corrections_of(runs) == corrections_of(list(runs))


@pytest.mark.parametrize("rate", [1e-300, 1e8, 1e18, math.nan, math.inf, -1.0])
def test_a_rate_that_no_gpu_has_teaches_nothing(rate: float) -> None:
    sound = [run({"A": 1.0}, 1.5)] * 6
    forged = run({"A": 1.0})._replace(parts=(PredictedPart(PartKind.COMPUTE, 1.0, "A", rate),))
    assert not usable(forged)
    assert corrections_of([*sound, forged]) == corrections_of(sound)


def test_seconds_too_small_for_ratios_teach_nothing() -> None:
    parts = (PredictedPart(PartKind.COMPUTE, 1.0, "A", 1e13, 1.0), PredictedPart(PartKind.LINK, 1e-320, RACK))
    forged = TaughtRun("team", "GCN", parts, 2.0, 2.0)
    assert not usable(forged)


@pytest.mark.parametrize("field", ["mean", "covariance", "left_out"])
def test_a_fit_with_a_figure_that_is_no_number_corrects_nothing(
    field: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [run({"A": 1.0}, 1.5)] * 6
    whole = speed_fit.fitted(runs)
    broken = dataclasses.replace(whole, **{field: np.full_like(getattr(whole, field), math.nan)})
    monkeypatch.setattr(speed_fit, "fitted", lambda _: broken)
    assert corrections_of(runs) == {}
    assert "correct no plan" in caplog.text


@pytest.mark.parametrize("rate", [1e9, 1e12, 3.12e14, 1e17])
def test_the_newest_run_does_not_move_the_rate_that_all_runs_refer_to(rate: float) -> None:
    sound = [run({"A": 1.0})] * 40
    other = run({"A": 1.0})._replace(parts=(PredictedPart(PartKind.COMPUTE, 1.0, "A", rate),), namespace="other")
    found = corrections_of([*sound, other])["GCN"].products[0]
    assert found.rate == 1e13
    assert found.factor == pytest.approx(1.0, abs=0.06)


def test_runs_that_were_predicted_with_another_speed_agree_about_the_product() -> None:
    """Another policy states a tenth of the speed: ten times the seconds are predicted, and the measured ones are the same."""
    other = run({"A": 10.0}, 0.1)._replace(parts=(PredictedPart(PartKind.COMPUTE, 10.0, "A", 1e12),))
    found = corrections_of([*[run({"A": 1.0})] * 5, *[other] * 4])["GCN"].products[0]
    assert found.rate == 1e13
    assert found.factor == pytest.approx(1.0, abs=0.01)
