"""What a person's answers say they weigh time, cost and risk by: a logistic choice model within bounds (Bradley & Terry 1952).

An alternative's burden is w . x, the weighted sum of its log figures. One is preferred with probability
lapse / 2 + (1 - lapse) sigma(s (burden of the other - own burden)); a lapse is an answer at random. The posterior of weights w and
sharpness s is taken on a fixed grid, so that the same answers give the same bytes, in whatever order they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hyperscale.evaluate.preferences.alternatives import Alternative, Answer, log_figures
from hyperscale.model.graph import FloatArray

STEPS: Final = 24
"""The weights lie on a grid of 1 / STEPS."""
SHARPNESS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Of choices, by equal prior chances: at 4 a burden of 0.5 less is chosen in 88 of 100 cases."""
LAPSE: Final = 0.1
"""Share of answers at random."""
CONCENTRATION: Final = 1.5
"""Of the Dirichlet prior: without answers the weights are equal, as far as the bounds allow."""
ZOOMS: Final = 6
"""Halvings of the grid around the most probable weights."""


class WeightBounds(msgspec.Struct, frozen=True, rename="camel"):
    """What an administrator allows the weights of time, cost and risk to be; they sum to 1."""

    low: tuple[float, float, float] = (0.05, 0.05, 0.05)
    high: tuple[float, float, float] = (0.9, 0.9, 0.9)


class RevealedWeights(msgspec.Struct, frozen=True, rename="camel"):
    """Weights of time, cost and risk, of sum 1."""

    weights: tuple[float, float, float]
    """Most probable ones within the bounds."""
    mean: tuple[float, float, float]
    """Posterior mean."""
    deviation: tuple[float, float, float]
    """Posterior standard deviation of each."""
    answers: int


class Posterior(NamedTuple):
    """Points of the grid with their probability."""

    weights: FloatArray
    """(m, 3), each row of sum 1."""
    sharpness: FloatArray
    """(m,)."""
    masses: FloatArray
    """(m,) of sum 1."""


def reveal(answers: Sequence[Answer], bounds: WeightBounds | None = None) -> RevealedWeights:
    """Return the weights that answers reveal. Raises ValueError for bounds that no weights keep, and figures out of range."""
    allowed = bounds or WeightBounds()
    result = posterior(answers, allowed)
    mean = result.masses @ result.weights
    deviation = np.sqrt(np.maximum(result.masses @ (result.weights - mean) ** 2, 0.0))
    best = _most_probable(_log_ratios(answers), result, allowed)
    return RevealedWeights(_three(best), _three(mean), _three(deviation), len(answers))


def posterior(answers: Sequence[Answer], bounds: WeightBounds | None = None) -> Posterior:
    """Return the posterior of weights and sharpness. Raises ValueError as `reveal`."""
    weights, sharpness, prior = _grid(bounds or WeightBounds())
    logarithms = prior + _log_likelihood(_log_ratios(answers), weights, sharpness)
    masses = np.exp(logarithms - logarithms.max())
    return Posterior(weights, sharpness, masses / masses.sum())


def choice_probability(ratios: FloatArray, weights: FloatArray, sharpness: FloatArray) -> FloatArray:
    """Return the (n, m) probabilities that a first alternative is preferred.

    ratios: (n, 3) log figures of the second minus those of the first; weights: (m, 3); sharpness: (m,).
    """
    chances: FloatArray = 0.5 * (1.0 + (1.0 - LAPSE) * np.tanh(0.5 * sharpness * (ratios @ weights.T)))
    return chances


def best_alternative(alternatives: Sequence[Alternative], weights: Sequence[float]) -> int:
    """Return the index of the alternative with the least burden, the first of equal ones. Raises ValueError for none."""
    if not alternatives:
        raise ValueError("no alternatives: give at least one")
    return int(np.argmin(log_figures(alternatives) @ np.asarray(weights, dtype=np.float64)))


def _log_ratios(answers: Sequence[Answer]) -> FloatArray:
    """(n, 3) in an order of their own, so that sums do not depend on when an answer came."""
    ordered = sorted(answers)
    return log_figures([answer.other for answer in ordered]) - log_figures([answer.preferred for answer in ordered])


def _log_likelihood(ratios: FloatArray, weights: FloatArray, sharpness: FloatArray) -> FloatArray:
    likely: FloatArray = np.log(choice_probability(ratios, weights, sharpness)).sum(axis=0)
    return likely


def _log_prior(weights: FloatArray) -> FloatArray:
    prior: FloatArray = (CONCENTRATION - 1.0) * np.log(np.maximum(weights, 1e-9)).sum(axis=1)
    return prior


@lru_cache(maxsize=64)
def _grid(bounds: WeightBounds) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points (m, 3), sharpness (m,) and log prior (m,): convex combinations of the corners that bounds leave of the simplex."""
    corners = _corners(bounds)
    steps = np.arange(STEPS + 1) / STEPS
    time, cost = (each.ravel() for each in np.meshgrid(steps, steps, indexing="ij"))
    low, high = np.array(bounds.low), np.array(bounds.high)
    span = np.minimum(high, 1.0 - (low.sum() - low)) - low
    first, second = low[0] + span[0] * time, low[1] + span[1] * cost
    points = np.stack([first, second, 1.0 - first - second], axis=1)
    inside = (points[:, 2] >= low[2] - 1e-12) & (points[:, 2] <= high[2] + 1e-12)
    points = np.unique(np.round(np.concatenate([corners, corners.mean(axis=0)[None, :], points[inside]]), 12), axis=0)
    weights = np.repeat(points, len(SHARPNESS), axis=0)
    return weights, np.tile(np.array(SHARPNESS), len(points)), _log_prior(weights)


def _corners(bounds: WeightBounds) -> FloatArray:
    """(c, 3) corners of the allowed weights: two of them at a bound, the third the rest. Raises ValueError where there are none."""
    corners = []
    limits = [(low, high) for low, high in zip(bounds.low, bounds.high, strict=True)]
    if not all(0.0 <= low <= high <= 1.0 for low, high in limits):  # NaN fails as well
        raise ValueError(f"bounds {bounds.low} to {bounds.high}: each low is at most its high, both from 0 to 1")
    for rest in range(3):
        first, second = (at for at in range(3) if at != rest)
        for one in limits[first]:
            for other in limits[second]:
                left = 1.0 - one - other
                if limits[rest][0] - 1e-12 <= left <= limits[rest][1] + 1e-12:
                    corner = [0.0, 0.0, 0.0]
                    corner[first], corner[second], corner[rest] = one, other, left
                    corners.append(corner)
    if not corners:
        raise ValueError(f"bounds {bounds.low} to {bounds.high}: no weights of sum 1 keep them; lower a low or raise a high")
    return np.array(corners)


def _most_probable(ratios: FloatArray, result: Posterior, bounds: WeightBounds) -> FloatArray:
    """The largest posterior of weights and sharpness together, refined around the best point of the grid."""
    logarithms = _log_prior(result.weights) + _log_likelihood(ratios, result.weights, result.sharpness)
    start = int(np.argmax(logarithms))
    best, sharpness, value = result.weights[start], float(result.sharpness[start]), float(logarithms[start])
    low, high, size = np.array(bounds.low), np.array(bounds.high), 1.0 / STEPS
    moves = np.array([(one, other, -one - other) for one in (-1.0, 0.0, 1.0) for other in (-1.0, 0.0, 1.0)])
    factors = np.repeat([0.5, 0.8, 1.0, 1.25, 2.0], len(moves))
    for _ in range(8 * ZOOMS):
        near = np.clip(np.tile(best + size * moves, (5, 1)), low, high)
        allowed = np.abs(near.sum(axis=1) - 1.0) <= 1e-9
        sharp = np.clip(sharpness * factors, SHARPNESS[0], SHARPNESS[-1])
        values = np.where(allowed, _log_prior(near) + _log_likelihood(ratios, near, sharp), -np.inf)
        at = int(np.argmax(values))
        if values[at] > value + 1e-12:
            best, sharpness, value = near[at], float(sharp[at]), float(values[at])
        else:
            size *= 0.5
    chosen: FloatArray = best
    return chosen


def _three(values: FloatArray) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])
