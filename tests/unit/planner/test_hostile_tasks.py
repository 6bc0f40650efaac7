"""The compiled kernel of several tasks takes what fits its memory and refuses the rest in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperscale.planner.assign.assign import PipeSearch, SumSearch
from hyperscale.planner.assign.pipeline import Pipeline

SUM: dict[str, Any] = {
    "cost": np.zeros((4, 4)),
    "memory": np.ones(4),
    "need": np.zeros(2),
    "penalty": 1.0,
    "weight": np.ones(2),
    "low": np.zeros(2, dtype=np.int64),
    "high": np.full(2, 4),
    "group": np.array([0, 0, 1, 1]),
}
WRONG_SUMS: tuple[dict[str, Any], ...] = (
    {"group": np.array([0, 0, 1, 2])},
    {"group": np.array([0, 0, 1, -1])},
    {"group": np.array([0, 1])},
    {"cost": np.zeros((4, 3))},
    {"memory": np.ones(3)},
    {"need": np.zeros(1)},
    {"low": np.zeros(1, dtype=np.int64)},
    {"high": np.full(1, 4)},
)


def pipe(devices: int, groups: int, **other: Any) -> PipeSearch:
    """Equal costs everywhere."""
    given: dict[str, Any] = {
        "gradient": np.zeros((devices, devices)),
        "rank": np.zeros((devices, devices), dtype=np.int64),
        "level": np.ones(1),
        "kind": np.arange(devices),
        "group": np.arange(devices) % max(groups, 1),
    }
    return PipeSearch(**given | other, groups=groups)


@pytest.mark.parametrize("wrong", WRONG_SUMS)
def test_sums_refuse_shapes_that_do_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        SumSearch(*(SUM | wrong).values())


def test_no_machines_anneal_to_nothing() -> None:
    empty = {"cost": np.zeros((0, 0)), "memory": np.zeros(0), "group": np.zeros(0, dtype=np.int64)}
    assert SumSearch(*(SUM | empty).values()).anneal(10, 1.0, 0.1, 1) == 0.0


@pytest.mark.parametrize(("devices", "groups"), [(130, 2), (26, 13), (0, 2), (4, 0), (5, 2)])
def test_pipelines_refuse_sizes_beyond_their_masks(devices: int, groups: int) -> None:
    with pytest.raises(ValueError, match=r"cannot form|do not fit"):
        pipe(devices, groups)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": np.array([0, 0, 0, 1])},
        {"group": np.array([0, 0, 1, 2])},
        {"rank": np.full((4, 4), 1)},
        {"rank": np.full((4, 4), -1)},
        {"kind": np.arange(3)},
        {"gradient": np.zeros((4, 5))},
    ],
)
def test_pipelines_refuse_shapes_that_do_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        pipe(4, 2, **wrong)


def test_a_pipeline_has_devices() -> None:
    with pytest.raises(ValueError, match="0 devices"):
        Pipeline(np.zeros((0, 0)), np.zeros((0, 0)), 2)
    with pytest.raises(ValueError, match="groups"):
        Pipeline(np.zeros((4, 4)), np.zeros((4, 4)), 0)
    assert pipe(128, 2).score() == 2.0


@pytest.mark.parametrize("scale", [1e-18, 1.0, 1e18, 1e300])
def test_a_descent_ends_whatever_the_unit_of_the_costs(scale: float) -> None:
    costs = np.random.default_rng(4).integers(0, 4, (12, 12)).astype(np.float64)
    costs = (np.triu(costs, 1) + np.triu(costs, 1).T) * scale
    pipeline = Pipeline(costs, costs, 4)
    values, rank = pipeline.levels()
    search = PipeSearch(pipeline.gradient, rank, values, pipeline.kinds(), np.arange(12) % 4, pipeline.groups)
    before = search.score()
    search.descend()
    assert search.score() <= before
    sums = SumSearch(**SUM | {"cost": costs, "memory": np.ones(12), "group": np.arange(12) % 2, "high": np.full(2, 12)})
    sums.descend(True)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_costs_of_a_pipeline_are_finite(value: float) -> None:
    with pytest.raises(ValueError, match=r"finite|symmetric"):
        Pipeline(np.full((4, 4), value), np.zeros((4, 4)), 2)
