"""What measured placements say about placements of similar shape."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from hyperscale.model.history.step_curves import LARGEST_EFFECT, MAX_SHAPES, ShapeWeight, Step
from hyperscale.planner.cost.shape_effects import shape_effects, similarity
from hyperscale.planner.cost.shape_fit import shape_weights
from hyperscale.planner.cost.steptime import predict
from hyperscale.planner.cost.steptime_fit import fit
from tests.builders.steps import PLACEMENTS, TRUE

BATCHES = (8.0, 32.0, 128.0, 512.0)
ASKED = [Step(gpus, batch) for gpus in PLACEMENTS for batch in BATCHES]


def crowded(steps: list[Step]) -> np.ndarray:
    """ln of what arithmetic takes longer: a fifth more on nodes that lend two or three GPUs each, which no figure of the curve says."""
    density = np.array([sum(step.gpus) / len(step.gpus) for step in steps])
    return np.where((density >= 2.0) & (density < 3.5), 0.2, 0.0)


def measured(noise: float, seed: int, *, effect: bool = True) -> list[Step]:
    rng = np.random.default_rng(seed)
    seconds = predict(TRUE, ASKED) * np.exp(rng.normal(0.0, noise, len(ASKED)) + (crowded(ASKED) if effect else 0.0))
    return [Step(step.gpus, step.batch, float(time)) for step, time in zip(ASKED, seconds, strict=True)]


def halves(rows: list[Step], seed: int) -> tuple[list[Step], list[Step]]:
    known = {PLACEMENTS[index] for index in np.random.default_rng(seed).permutation(len(PLACEMENTS))[: len(PLACEMENTS) // 2]}
    return [row for row in rows if row.gpus in known], [row for row in rows if row.gpus not in known]


def error(predicted: np.ndarray, rows: list[Step]) -> float:
    return float(np.abs(np.log(predicted / [row.step_seconds for row in rows])).mean())


@pytest.mark.parametrize("seed", range(3))
def test_an_effect_that_similar_shapes_share_is_predicted_for_a_shape_that_was_never_measured(seed: int) -> None:
    known, asked = halves(measured(0.02, seed), seed)
    curve = fit(known)
    assert error(predict(curve, asked), asked) < 0.8 * error(predict(curve, asked, remembered=False), asked)


@pytest.mark.parametrize("seed", range(3))
def test_where_shapes_differ_by_no_more_than_chance_they_change_next_to_nothing(seed: int) -> None:
    known, asked = halves(measured(0.05, seed, effect=False), seed)
    curve = fit(known)
    ratio = predict(curve, asked) / predict(curve, asked, remembered=False)
    assert np.abs(np.log(ratio)).max() < 0.03


def test_permutations_of_a_shape_are_predicted_alike() -> None:
    curve = fit(measured(0.02, 0))
    first, second = predict(curve, [Step((1, 3, 4), 32.0, hosts="new"), Step((4, 1, 3), 32.0, hosts="new too")])
    assert curve.shapes
    assert first == second


def test_few_shapes_and_placements_measured_once_teach_no_effect_of_the_shape() -> None:
    rows = measured(0.02, 0)
    few = [row for row in rows if row.gpus in PLACEMENTS[:7]]
    once = [row for row in rows if row.batch == BATCHES[0]]
    assert fit(few).shapes == ()
    assert fit(once).shapes == ()


def test_a_curve_carries_no_more_shapes_than_it_may() -> None:
    assert len(PLACEMENTS) > MAX_SHAPES
    assert len(fit(measured(0.02, 0)).shapes) == MAX_SHAPES


def test_without_weights_and_far_from_all_measured_shapes_there_is_no_effect() -> None:
    weights = [ShapeWeight((1,), 0.1, 0.2), ShapeWeight((2, 1), 0.1, 0.2)]
    assert shape_effects([], [(4, 4)]).tolist() == [[0.0, 0.0]]
    assert np.abs(shape_effects(weights, [(64,) * 64])).max() < 1e-6


def test_a_shape_is_most_similar_to_itself_and_similarity_has_no_direction() -> None:
    alike = similarity(PLACEMENTS, PLACEMENTS)
    assert np.allclose(alike, alike.transpose(0, 2, 1))
    assert np.allclose(alike.diagonal(axis1=1, axis2=2), 1.0)
    assert (alike <= 1.0).all()


def test_nodes_twice_as_large_are_compared_by_lengths_twice_as_large() -> None:
    twice = [tuple(2 * count for count in shape) for shape in PLACEMENTS]
    assert np.allclose(similarity(PLACEMENTS, PLACEMENTS), similarity(twice, twice))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [0.03, 0.1, 0.3])
def test_shapes_whose_rows_agree_to_a_hair_are_predicted_as_they_were_measured(size: float, seed: int) -> None:
    """Rows without chance ask for large weights of both signs, which must not be cut off one by one."""
    chance = np.random.default_rng(seed)
    shapes = [shape for nodes in (1, 2, 3, 4) for shape in combinations_with_replacement((8, 4, 2), nodes)]
    errors = {shape: size * np.sin(3.0 * sum(shape) / 32.0 + len(shape)) + chance.normal(0.0, 0.01) for shape in shapes}
    rows = [Step(shape, 1.0, 1.0, hosts=f"{shape} {number % 2}") for shape in shapes for number in range(4)]
    off = np.array([errors[row.counts] for row in rows])
    weights = shape_weights(rows, np.full((len(rows), 2), 0.5), off, np.full(len(rows), 0.01))
    predicted = shape_effects(weights, shapes).mean(axis=1)
    assert max(np.abs([[weight.compute, weight.sync] for weight in weights]).ravel()) <= LARGEST_EFFECT
    assert np.abs(predicted - list(errors.values())).max() <= max(0.03, 0.6 * size)
