"""What shapes and single placements teach beyond the form of a step time curve. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.step_curves import LARGEST_EFFECT, PlaceEffect, ShapeWeight, Step
from hyperscale.planner.cost.shape_effects import shape_effects
from hyperscale.planner.cost.shape_fit import shape_weights
from hyperscale.planner.cost.shared_effects import agreed_errors

EFFECT_ROUNDS: Final = 60
"""Rounds that separate the effects of single placements from chance; more change the fourth digit."""

LEAST_VARIANCE: Final = 1e-10
"""So that rows without any error divide by something."""

LEAST_PART: Final = 1e-6
"""Of a step, below which it says nothing of the chance there: the regression divides by its square."""


def learnt_effects(
    rows: Sequence[Step], parts: FloatArray, error: FloatArray, owners: Sequence[str]
) -> tuple[tuple[ShapeWeight, ...], dict[str, PlaceEffect]]:
    """What shapes and single placements teach beyond the curve. Nothing where no placement has two rows: chance would pass for effects.

    parts: (n, 2) of `_sensitivity`; error: (n,) ln(measured / the curve's); owners: as in `agreed_errors`
    """
    names = [row.name for row in rows]
    distinct, own = np.unique(names, return_inverse=True)
    if len(distinct) == len(rows):
        return (), {}
    chance = _chance(parts, error, own)
    kept, agreed = agreed_errors(owners, [row.counts for row in rows], error)
    shapes = shape_weights([rows[index] for index in np.flatnonzero(kept).tolist()], parts[kept], agreed[kept], chance[kept])
    rest = error - (parts * shape_effects(shapes, [row.counts for row in rows])).sum(axis=1)
    kept, agreed = agreed_errors(owners, names, rest)
    return shapes, _effects([names[index] for index in np.flatnonzero(kept).tolist()], parts[kept], agreed[kept], chance[kept])


def _effects(names: Sequence[str], plain: FloatArray, error: FloatArray, size: FloatArray) -> dict[str, PlaceEffect]:
    """How much slower each placement's arithmetic and allreduce were than curve and shape say, as far as its rows can be believed.

    Random effects by expectation maximisation (Laird & Ware 1982): error_i = parts_i . effects_placement + chance, where parts_i say
    how much of the step is arithmetic and how much allreduce. A placement measured once is believed little, one measured ten times
    almost fully, and none where placements differ by no more than chance.
    """
    if not names:
        return {}
    distinct = sorted(set(names))
    place = {name: index for index, name in enumerate(distinct)}
    own = np.array([place[name] for name in names])
    between = np.full(2, float(np.mean(error * error)) + LEAST_VARIANCE)
    parts, error = plain / size[:, None], error / size
    squares, products = np.zeros((len(distinct), 2, 2)), np.zeros((len(distinct), 2))
    np.add.at(squares, own, parts[:, :, None] * parts[:, None, :])
    np.add.at(products, own, parts * error[:, None])
    chance = float(np.mean(error * error)) + LEAST_VARIANCE
    effects = np.zeros((len(distinct), 2))
    for _ in range(EFFECT_ROUNDS):
        covariance = np.linalg.inv(squares / chance + np.diag(1.0 / between))
        effects = np.einsum("pij,pj->pi", covariance, products / chance)
        off = error - np.einsum("ni,ni->n", parts, effects[own])
        chance = float(off @ off + np.einsum("pij,pji->", squares, covariance)) / len(names) + LEAST_VARIANCE
        between = (effects * effects + np.diagonal(covariance, axis1=1, axis2=2)).mean(axis=0) + LEAST_VARIANCE
    kept = np.clip(effects, -LARGEST_EFFECT, LARGEST_EFFECT).round(6).tolist()
    return {name: PlaceEffect(*kept[index]) for name, index in place.items()}


def _chance(parts: FloatArray, error: FloatArray, own: IntArray) -> FloatArray:
    """(n,) standard deviation of chance in each row, which is larger in the network than in the arithmetic.

    Rows of one placement (`own`, (n,)) are compared with each other: what they have in common is no chance, however far it is off.
    """
    from scipy.optimize import nnls

    count = np.bincount(own)
    several = count[own] > 1
    freedom = np.sqrt(count / np.maximum(count - 1, 1))[own]
    apart = ((error - (np.bincount(own, error) / count)[own]) * freedom)[several]
    squares = np.where(parts > LEAST_PART, parts, 0.0) ** 2
    deviation: FloatArray = np.sqrt(np.maximum(squares @ nnls(squares[several], apart * apart)[0], LEAST_VARIANCE))
    return deviation
