"""Invariants of corrections: bounded whatever runs report, and a plan's parts are what it was predicted by."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.calibration.speed_fit import corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun, usable
from hyperscale.model.history.corrections import MAX_FACTOR, Corrections, Factor, PartKind, PredictedPart
from hyperscale.planner.check.artifact import to_json
from tests.builders.clusters import PRODUCTS, planned, random_cluster, training

LEVEL = "topology.kubernetes.io/zone"
ANY_FIGURE = st.floats(allow_nan=True, allow_infinity=True) | st.floats(1e-3, 1e3)
SECONDS = st.floats(1e-3, 1e3)
RATES = st.sampled_from([0.0, 1e9, 1e13, 1e17])
NAMES = st.sampled_from(["A", "B", "C"])
PARTS = st.lists(st.builds(PredictedPart, st.sampled_from([*PartKind]), ANY_FIGURE, NAMES, RATES | ANY_FIGURE, ANY_FIGURE), max_size=5).map(
    tuple
)
FORGED = st.builds(TaughtRun, NAMES, NAMES, PARTS, ANY_FIGURE, ANY_FIGURE, st.none() | ANY_FIGURE)


@st.composite
def sound_runs(draw: st.DrawFn) -> TaughtRun:
    """A run whose parts are its prediction's, measured anyhow."""
    compute, link = draw(SECONDS), draw(st.just(0.0) | SECONDS)
    parts = (PredictedPart(PartKind.COMPUTE, compute, draw(NAMES), draw(RATES), link), PredictedPart(PartKind.LINK, link, draw(NAMES)))
    return TaughtRun(draw(NAMES), draw(NAMES), parts, compute + link, draw(SECONDS), draw(st.none() | SECONDS))


def factors_of(corrections: Corrections) -> tuple[Factor, ...]:
    return (corrections.untried, *corrections.products, *corrections.tiers, *corrections.insides, *corrections.cards)


@settings(max_examples=40, deadline=None)
@given(st.lists(FORGED | sound_runs(), max_size=20))
def test_factors_are_bounded_whatever_runs_report(runs: list[TaughtRun]) -> None:
    taught = corrections_of(runs)
    assert taught == corrections_of(runs)
    assert ("" in taught) == any(map(usable, runs))
    for corrections in taught.values():
        assert corrections.finite
        for factor in factors_of(corrections):
            assert 1.0 / MAX_FACTOR * (1.0 - 1e-5) <= factor.factor <= MAX_FACTOR * (1.0 + 1e-5)
            assert 0.0 <= factor.error < 2.0
            assert factor.runs <= len(runs)
        assert 0.0 <= corrections.spread <= 1.0


@given(ANY_FIGURE, ANY_FIGURE, st.floats(0.0, 0.7))
def test_hope_has_a_limit(figure: float, error: float, limit: float) -> None:
    factor = Factor("A", figure, error, 1)
    assert 1.0 / MAX_FACTOR <= factor.bounded <= MAX_FACTOR
    assert factor.bounded * math.exp(-limit) * (1.0 - 1e-12) <= factor.hopeful(limit) <= factor.bounded


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0.25, 4.0), min_size=6, max_size=6), st.sampled_from([1, 2]), st.floats(0.0, 1.0))
def test_parts_are_the_prediction_without_corrections(seed: int, figures: list[float], gpus: int, error: float) -> None:
    seen = random_cluster(seed, 8, gpus=gpus)
    corrections = Corrections(
        untried=Factor("", figures[0], error, 3),
        products=tuple(Factor(name, figure, error, 3) for name, figure in zip(sorted(PRODUCTS), figures, strict=False)),
        tiers=(Factor(LEVEL, figures[4], error, 3),),
        insides=(Factor(PRODUCTS[0], figures[5], error, 3),),
        runs=6,
        all_runs=6,
        spread=0.1,
    )
    plan = planned(seen, training(workers={"minReplicas": 2, "maxReplicas": 4}), corrections=corrections)
    correction = plan.predicted.calibration
    assert correction is not None
    predicted = plan.predicted.epoch_seconds / correction.factor
    assert TaughtRun("a", "b", plan.predicted.parts, predicted, 1.0).parts_seconds == pytest.approx(predicted, rel=1e-5)
    assert correction.search_factor <= correction.factor * (1.0 + 1e-6)
    assert correction.factor <= correction.search_factor * 1.36
    assert (plan.predicted.low_seconds or 0.0) < plan.predicted.epoch_seconds < (plan.predicted.high_seconds or 0.0)
    assert to_json(plan) == to_json(planned(seen, training(workers={"minReplicas": 2, "maxReplicas": 4}), corrections=corrections))
