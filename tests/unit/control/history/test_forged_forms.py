"""Steps that one namespace makes up bend no curve of others: neither where they ran, nor beyond it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import pytest

from hyperscale.control.history.calibration import MeasuredStep
from hyperscale.control.history.workload_curves import _calibrations, _own_curves, shared_curve
from hyperscale.model.history.step_curves import StepTime, placed, workload_of
from hyperscale.planner.cost.steptime import predict
from tests.builders.clusters import training
from tests.unit.control.history.test_forged_steps import honest, measured, true_seconds

GRID = [{f"m{node}": gpus for node in range(nodes)} for nodes in range(1, 9) for gpus in (1, 2, 4, 8)]
LARGE = [(3, 4), (3, 8), (4, 4)]
"""Nodes, and GPUs of each."""
SPREAD = [(nodes, gpus) for nodes in (1, 2, 3, 4) for gpus in (2, 4, 8)]
BOUND = 0.3
"""Of ln(predicted / true): 0.2 for what one namespace may do, and the rest for chance."""


def ran(namespaces: Sequence[str], runs: int, most_nodes: int = 4, most_gpus: int = 8) -> list[MeasuredStep]:
    steps = honest(namespaces, runs)
    return [run for run in steps if len(run.step.gpus) <= most_nodes and max(run.step.gpus) <= most_gpus]


def forged(cells: Sequence[tuple[int, int]], factor: float, count: int) -> list[MeasuredStep]:
    drawn = islice(cycle(cells), count)
    return [
        measured(f"forged-{place}", "other", {f"n{node}": gpus for node in range(nodes)}, factor)
        for place, (nodes, gpus) in enumerate(drawn)
    ]


def errors(curve: StepTime) -> Iterator[float]:
    """ln(predicted / true) of all placements of the grid that it reaches."""
    for gpus in GRID:
        step, _ = placed(gpus, 100_000, None)
        if curve.reaches(step.gpus):
            yield math.log(float(predict(curve, [step])[0]) / true_seconds(step))


def worst(curve: StepTime | None) -> float:
    return max(map(abs, errors(curve)), default=0.0) if curve is not None else 0.0


FACTORS = pytest.mark.parametrize("factor", [15.0, 3.0, 1.5, 0.1])


@FACTORS
@pytest.mark.parametrize(
    ("cells", "most_nodes", "most_gpus"),
    [(LARGE, 2, 8), ([(8, 8), (3, 8)], 4, 4), ([(8, 1), (6, 2)], 3, 8)],
    ids=["of more nodes", "with more GPUs", "on many nodes"],
)
def test_placements_that_one_namespace_alone_measured_are_reached_by_no_curve_of_others(
    cells: list[tuple[int, int]], most_nodes: int, most_gpus: int, factor: float
) -> None:
    steps = ran("abc", 24, most_nodes, most_gpus)
    curve, before = shared_curve([*forged(cells, factor, 24), *steps], 12), shared_curve(steps, 12)
    assert worst(curve) <= BOUND
    assert (curve is None) == (before is None)
    if curve is not None:
        for nodes, gpus in cells:
            assert not curve.reaches((gpus,) * nodes)


@FACTORS
@pytest.mark.parametrize("count", [12, 40])
def test_many_forged_runs_of_the_largest_placement_bend_no_curve_of_others(factor: float, count: int) -> None:
    curve = shared_curve([*forged([(4, 8)], factor, count), *honest("abc", 16)], 12)
    assert curve is not None
    assert worst(curve) <= BOUND


@FACTORS
def test_where_one_of_two_namespaces_is_forged_a_third_gets_no_curve_of_either(factor: float) -> None:
    large = [run for run in honest("c", 40) if len(run.step.gpus) >= 3][:16]
    curve = shared_curve([*forged(LARGE, factor, 24), *ran("ab", 20, 2), *large], 12)
    assert curve is not None
    assert worst(curve) <= max(BOUND, 2.0 * curve.log_error)
    assert curve.reaches((4, 4))


@FACTORS
def test_forged_runs_everywhere_take_no_reach_from_three_that_agree(factor: float) -> None:
    steps = honest("abc", 16)
    curve, before = shared_curve([*forged(SPREAD, factor, 60), *steps], 12), shared_curve(steps, 12)
    assert curve is not None
    assert before is not None
    assert worst(curve) <= BOUND
    assert [(link.least_gpus, link.most_gpus) for link in curve.links] == [(link.least_gpus, link.most_gpus) for link in before.links]


def test_a_curve_that_one_namespace_alone_taught_is_for_its_own_jobs() -> None:
    calibrations = _calibrations(workload_of(training(), "A100"), honest("a", 48), 12, _own_curves(honest("a", 48), 12, {}))
    assert list(calibrations) == ["a"]
    assert calibrations["a"].curve == shared_curve(honest("a", 48), 12)


def test_a_namespace_goes_by_its_own_curve_beyond_what_others_measured() -> None:
    steps = [*honest("a", 48), *ran("bc", 16, 2)]
    calibrations = _calibrations(workload_of(training(), "A100"), steps, 12, _own_curves(steps, 12, {}))
    for namespace, reached in (("a", True), ("", False)):
        curve = calibrations[namespace].curve
        assert curve is not None
        assert curve.reaches((8, 8, 8)) == reached
