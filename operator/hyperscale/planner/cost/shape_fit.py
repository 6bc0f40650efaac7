"""How far measured steps show that similar shapes err alike, and the weights by which shapes that were not measured are predicted.

A Gaussian process over shapes for each of arithmetic and allreduce (Rasmussen & Williams 2006, sections 2.2 and 5.4.1), with an effect
of each placement and chance of each row beside it:

    error_i = parts_i . (shape effect + placement effect) + chance

The five variances are those under which the rows are likeliest, with a wide prior. No figure of a row that is held out is in them.
Placements are summed up in two figures each, so that the work grows with the shapes and not with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.step_curves import LARGEST_EFFECT, MAX_SHAPES, ShapeWeight, Step
from hyperscale.planner.cost.shape_effects import Shape, similarity

MIN_SHAPES: Final = 8
"""Below this two variances over shapes say nothing."""

TYPICAL_VARIANCE: Final = 1e-3
"""Of ln(seconds), effects of 3 %: the middle of the prior of each variance."""

PRIOR_WIDTH: Final = 4.0
"""Standard deviation of the prior, of ln(variance): wide, so that the rows decide."""

VARIANCE_RANGE: Final = (1e-9, 1.0)
"""Of ln(seconds), squared: a variance outside it is none, or a table that contradicts itself."""

CHANCE_RANGE: Final = (np.exp(-3.0), np.exp(3.0))
"""Of the rows' chance, over the chance that rows of one placement show."""

MAX_ROUNDS: Final = 30
"""Of the search for the variances: later ones change the third digit of a variance."""

MORE_CHANCE: Final = 4.0
"""Times the chance, from one try for weights within bounds to the next."""

MIN_RELATIVE_CHANCE: Final = 0.2
"""Of a row, as a part of the median row's: fewer rows without visible chance must not decide alone."""


@dataclass(frozen=True)
class ShapeEvidence:
    """What p placements of m shapes say, each by sums over its rows divided by their chance."""

    shape: IntArray
    """(p,) index of the placement's shape."""
    squares: FloatArray
    """(p, 2, 2) sums of parts times parts."""
    products: FloatArray
    """(p, 2) sums of parts times error."""
    kernels: FloatArray
    """(2, m, m) similarity of the shapes."""
    rows: int
    error_square: float
    """Sum of the squared errors."""


def shape_weights(rows: Sequence[Step], parts: FloatArray, error: FloatArray, chance: FloatArray) -> tuple[ShapeWeight, ...]:
    """Return the weights of the measured shapes, those with the most rows; none with fewer than MIN_SHAPES shapes.

    parts: (n, 2) d ln(step) / d ln(arithmetic) and d ln(allreduce); error: (n,) ln(measured / the curve's)
    chance: (n,) standard deviation of chance in each row
    """
    shapes = _most_measured(rows)
    if len(shapes) < MIN_SHAPES:
        return ()
    kept = np.array([row.counts in shapes for row in rows])
    size = np.maximum(chance, MIN_RELATIVE_CHANCE * float(np.median(chance)))[kept]
    evidence = _summed([row for row, own in zip(rows, kept, strict=True) if own], shapes, parts[kept] / size[:, None], error[kept] / size)
    shares = _bounded_posterior(evidence, _variances(evidence)).round(6).tolist()
    return tuple(ShapeWeight(shape, compute, sync) for shape, compute, sync in zip(shapes, *shares, strict=True))


def _most_measured(rows: Sequence[Step]) -> list[Shape]:
    count: dict[Shape, int] = {}
    for row in rows:
        count[row.counts] = count.get(row.counts, 0) + 1
    return sorted(sorted(count, key=lambda shape: (-count[shape], shape))[:MAX_SHAPES])


def _summed(rows: Sequence[Step], shapes: Sequence[Shape], parts: FloatArray, error: FloatArray) -> ShapeEvidence:
    places = sorted({(row.counts, row.name) for row in rows})
    position = {place: index for index, place in enumerate(places)}
    own = np.array([position[row.counts, row.name] for row in rows])
    squares, products = np.zeros((len(places), 2, 2)), np.zeros((len(places), 2))
    np.add.at(squares, own, parts[:, :, None] * parts[:, None, :])
    np.add.at(products, own, parts * error[:, None])
    index = {shape: number for number, shape in enumerate(shapes)}
    shape = np.array([index[counts] for counts, _ in places])
    return ShapeEvidence(shape, squares, products, similarity(shapes, shapes), len(rows), float(error @ error))


def _variances(evidence: ShapeEvidence) -> FloatArray:
    """(5,) the likeliest variances of shapes and of placements, each for arithmetic and allreduce, and of chance."""
    from scipy.optimize import minimize  # as in steptime_fit.py

    middle = np.log(np.array([TYPICAL_VARIANCE] * 4 + [1.0]))
    bounds = [tuple(np.log(VARIANCE_RANGE))] * 4 + [tuple(np.log(CHANCE_RANGE))]

    def surprise(logarithms: FloatArray) -> float:
        return _surprise(evidence, np.exp(logarithms)) + 0.5 * float((((logarithms - middle)[:4] / PRIOR_WIDTH) ** 2).sum())

    solved = minimize(surprise, middle, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_ROUNDS})
    variances: FloatArray = np.exp(solved.x)
    return variances


def _by_shape(evidence: ShapeEvidence, variances: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """(2 m, 2 m) precision and (2 m,) products of the shapes, placement effects integrated out; and twice the surprise of the latter."""
    chance = variances[4]
    squares, products = evidence.squares / chance, evidence.products / chance
    spread = np.eye(2) + squares * variances[2:4]
    inner = np.linalg.inv(spread)
    precision, pulled = inner @ squares, np.einsum("pij,pj->pi", inner, products)
    count = evidence.kernels.shape[1]
    sums, totals = np.zeros((count, 2, 2)), np.zeros((count, 2))
    np.add.at(sums, evidence.shape, precision)
    np.add.at(totals, evidence.shape, pulled)
    whole = np.block([[np.diag(sums[:, row, column]) for column in range(2)] for row in range(2)])
    surprise = float(np.linalg.slogdet(spread)[1].sum() - (products * variances[2:4] * pulled).sum())
    return whole, totals.T.reshape(-1), surprise


def _covariance(evidence: ShapeEvidence, variances: FloatArray) -> FloatArray:
    """(2 m, 2 m) of the shapes' effects, arithmetic first."""
    compute, sync = evidence.kernels * variances[:2, None, None]
    nothing = np.zeros_like(compute)
    return np.block([[compute, nothing], [nothing, sync]])


def _surprise(evidence: ShapeEvidence, variances: FloatArray) -> float:
    """-ln of how likely the rows are under these variances, but for a constant."""
    precision, totals, placements = _by_shape(evidence, variances)
    covariance = _covariance(evidence, variances)
    system = np.eye(len(totals)) + precision @ covariance
    explained = totals @ covariance @ np.linalg.solve(system, totals)
    rest = evidence.rows * np.log(variances[4]) + evidence.error_square / variances[4]
    return 0.5 * float(np.linalg.slogdet(system)[1] + placements + rest - explained)


def _bounded_posterior(evidence: ShapeEvidence, variances: FloatArray) -> FloatArray:
    """(2, m) weights within LARGEST_EFFECT, with as much more chance as that takes.

    Rows that seem free of chance ask for large weights of both signs, which cancel out: each cut off alone, the rest would not.
    """
    while np.abs(shares := _posterior(evidence, variances)).max() > LARGEST_EFFECT:
        variances = variances * np.array([1.0, 1.0, 1.0, 1.0, MORE_CHANCE])
    return shares


def _posterior(evidence: ShapeEvidence, variances: FloatArray) -> FloatArray:
    """(2, m) weights of the shapes for arithmetic and for allreduce: the expected effect of a shape is similarity times weights."""
    precision, totals, _ = _by_shape(evidence, variances)
    system = np.eye(len(totals)) + precision @ _covariance(evidence, variances)
    shares: FloatArray = np.linalg.solve(system, totals).reshape(2, -1) * variances[:2, None]
    return shares
