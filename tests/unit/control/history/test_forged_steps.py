"""Steps that one namespace makes up say nothing about shapes and placements to others, nor how well the curve of all predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.history.calibration import MeasuredStep
from hyperscale.control.history.workload_curves import shared_curve
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.step_curves import Step, StepTime, placed
from hyperscale.planner.cost.shared_effects import agreed_errors
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import learn

ERRORS = st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=6)
ALONE = (8, 8)
"""A shape that only forged runs have."""


def true_seconds(step: Step) -> float:
    return 0.05 + step.batch * 1e-6 + 0.01 * len(step.gpus) + 0.001 * sum(step.gpus)


def measured(uid: str, namespace: str, gpus: dict[str, int], factor: float, plain: float = 1.0) -> MeasuredStep:
    step, _ = placed(gpus, 100_000, None)
    seconds = true_seconds(step)
    return MeasuredStep(uid, replace(step, step_seconds=seconds * factor), seconds * plain, namespace)


def honest(namespaces: Sequence[str], runs: int, slow: float = 1.0, without: tuple[int, ...] = ALONE) -> list[MeasuredStep]:
    """slow: times longer on nodes 0 and 1 together, 4 GPUs each."""
    chance = np.random.default_rng(1)
    steps = []
    for number in range(runs):
        for namespace in namespaces:
            nodes = sorted(chance.choice(6, size=int(chance.integers(1, 5)), replace=False).tolist())
            gpus = {f"n{node}": int(chance.choice([2, 4, 8])) for node in nodes}
            if number % 5 == 0:
                gpus = {"n0": 4, "n1": 4}
            if tuple(sorted(gpus.values(), reverse=True)) == without:
                gpus = {"n0": 8}
            factor = math.exp(chance.normal(0.0, 0.04)) * (slow if gpus == {"n0": 4, "n1": 4} else 1.0)
            steps.append(measured(f"{namespace}-{number}", namespace, gpus, factor, math.exp(chance.normal(0.0, 0.3))))
    return steps


def curve_of(steps: list[MeasuredStep]) -> StepTime:
    curve = shared_curve(steps, 12)
    assert curve is not None
    return curve


def off(curve: StepTime, gpus: dict[str, int], *, remembered: bool = True) -> float:
    """Times longer than true."""
    step, _ = placed(gpus, 100_000, None)
    return float(predict(curve, [step], remembered=remembered)[0]) / true_seconds(step)


@pytest.mark.parametrize("factor", [15.0, 0.1])
def test_forged_runs_of_a_shape_and_placement_have_no_effect_there_for_others(factor: float) -> None:
    forged = [measured(f"forged-{number}", "other", {"n0": 8, "n1": 8}, factor * (1.0 + 0.01 * number)) for number in range(2)]
    curve = curve_of([*forged, *honest("abc", 16)])
    assert ALONE not in {weight.gpus for weight in curve.shapes}
    assert forged[0].step.name not in curve.effects
    for gpus in ({"n0": 8, "n1": 8}, {"n4": 8, "n5": 8}):
        assert off(curve, gpus) == pytest.approx(off(curve, gpus, remembered=False), rel=0.1)


@pytest.mark.parametrize("factor", [15.0, 0.1])
def test_where_others_ran_forged_runs_move_no_effect(factor: float) -> None:
    steps, gpus = honest("abc", 16, slow=1.5), {"n0": 4, "n1": 4}
    assert off(curve_of(steps), gpus) == pytest.approx(1.5, rel=0.08)
    forged = [measured(f"forged-{number}", "other", gpus, factor * (1.0 + 0.01 * number)) for number in range(12)]
    assert off(curve_of([*forged, *steps]), gpus) == pytest.approx(1.5, rel=0.15)


def test_a_namespace_alone_keeps_its_effects_with_and_without_its_name() -> None:
    steps = honest("a", 48, slow=1.5)
    rows, plain = [run.step for run in steps], [run.predicted_seconds for run in steps]
    curve = learn(rows, plain, ["a"] * len(rows))
    assert curve is not None
    assert curve.effects
    assert msgspec.json.encode(curve) == msgspec.json.encode(learn(rows, plain))


@pytest.mark.parametrize("error", [0.0, 0.3, 0.6])
def test_one_namespace_neither_widens_nor_narrows_the_curve_of_all(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def held_out(
        rows: Sequence[Step], _plain: FloatArray, _fold: IntArray, owners: Sequence[str]
    ) -> tuple[FloatArray, FloatArray, list[int]]:
        ours = np.array([error if owner == "other" else 0.04 for owner in owners])
        return ours, np.ones(len(rows)), list(range(len(rows)))

    monkeypatch.setattr("hyperscale.planner.cost.steptime_fit._held_out", held_out)
    steps = [*honest(["other"], 40), *honest("abc", 10)]
    curve = learn([run.step for run in steps], [run.predicted_seconds for run in steps], [run.namespace for run in steps])
    assert curve is not None
    assert curve.log_error == pytest.approx(1.4826 * 0.04)


@given(st.lists(ERRORS, min_size=1, max_size=4), ERRORS)
def test_whatever_one_namespace_measured_errors_are_between_those_of_others_and_the_curve(
    others: list[list[float]], forged: list[float]
) -> None:
    rows = [("forged", value) for value in forged] + [(str(place), value) for place, own in enumerate(others) for value in own]
    kept, agreed = agreed_errors([owner for owner, _ in rows], ["place"] * len(rows), np.array([value for _, value in rows]))
    medians = [float(np.median(own)) for own in others] + ([0.0] if len(others) == 1 else [])
    assert kept.all()
    assert min(medians) <= agreed.min()
    assert agreed.max() <= max(medians)


def test_places_of_a_single_namespace_count_for_itself_only() -> None:
    error = np.array([0.5, 0.25, 0.5, -0.5])
    kept, agreed = agreed_errors(["a", "b", "a", "a"], ["both", "both", "one", "one"], error)
    assert kept.tolist() == [True, True, False, False]
    assert agreed[:2].tolist() == [0.25, 0.25]
    kept, agreed = agreed_errors([], ["both", "both", "one", "one"], error)
    assert kept.all()
    assert agreed.tolist() == error.tolist()
