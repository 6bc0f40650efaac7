"""What the fit of speeds computes for each product, and that it is the work of the runs with it only."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hyperscale.evaluate.calibration import speed_fit
from hyperscale.evaluate.calibration.speed_design import Design, design_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun, usable
from hyperscale.model.history.corrections import MAX_PARTS, PartKind, PredictedPart
from tests.unit.evaluate.test_speed_fit import run

STEP = 0.3


def mixed_runs(products: int, count: int = 60) -> list[TaughtRun]:
    chance = np.random.default_rng(products)
    runs = []
    for number in range(count):
        chosen = chance.choice(products, size=min(products, 3), replace=False).tolist()
        seconds = {f"P{each}": float(chance.uniform(0.9, 1.1)) for each in chosen}
        runs.append(run(seconds, math.exp(chance.normal(0.0, 0.1)), link=0.3, architecture=f"A{number % 3}", compute=number % 2 == 0))
    return runs


def test_slopes_beside_a_faster_product_are_those_of_the_whole_design() -> None:
    design = design_of(mixed_runs(6))
    mean = np.random.default_rng(1).normal(0.0, 0.2, len(design.keys))
    residual, slopes = design.residuals(mean)
    places = [at for _, at in design.places(PartKind.COMPUTE)]
    for at, beside in zip(places, design.slopes_beside(mean, STEP), strict=True):
        faster = mean.copy()
        faster[at] -= STEP
        waiting, whole = design.residuals(faster)
        whole[:, at] = (waiting - residual) / STEP
        assert beside.at == at
        assert np.allclose(beside.slopes, whole[beside.observations], rtol=1e-12, atol=1e-14)
        others = np.setdiff1d(np.arange(len(residual)), beside.observations)
        assert len(others) > 0
        assert np.allclose(whole[others], slopes[others], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("products", [4, 40])
def test_the_number_of_looks_at_all_runs_does_not_grow_with_the_products(products: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    residuals = Design.residuals

    def counted(design: Design, mean: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> object:
        looks.append(design.runs)
        return residuals(design, mean)

    monkeypatch.setattr(Design, "residuals", counted)
    speed_fit.fitted(mixed_runs(products))
    assert looks == [60] * (speed_fit.STEPS + 1)


def test_more_parts_than_a_plan_states_are_those_of_no_run() -> None:
    cards = tuple(PredictedPart(PartKind.CARD, 0.1, f"node-{number}") for number in range(MAX_PARTS))
    whole = run({"A": 1.0}, link=0.5)
    assert usable(whole._replace(parts=(*whole.parts, *cards[2:])))
    assert not usable(whole._replace(parts=(*whole.parts, *cards[1:])))


def test_the_runs_of_some_rows_have_the_residuals_that_they_have_in_the_whole_design() -> None:
    design = design_of(mixed_runs(6))
    mean = np.random.default_rng(2).normal(0.0, 0.2, len(design.keys))
    residual, slopes = design.residuals(mean)
    part, observations = design.with_runs(np.array([3, 4, 17, 59]))
    own, own_slopes = part.residuals(mean)
    assert np.allclose(own, residual[observations], rtol=1e-12)
    assert np.allclose(own_slopes, slopes[observations], rtol=1e-12)
