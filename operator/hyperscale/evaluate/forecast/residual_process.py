"""What finished runs teach about ln(measured / physical): a Gaussian process whose variances are fitted to them. Deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.forecast.residual_kernel import Asked, Rows, Standard, diagonals, matrices, rows_of
from hyperscale.model.graph import FloatArray, IntArray

NOISE: Final = 0.002
"""Prior variance of what no reason explains: runs repeat within 4.5 %."""
MIN_NOISE: Final = 1e-5
FACTOR_SPREAD: Final = 1.0
"""Standard deviation of ln(variance / prior variance): a fitted variance is within e of its prior in 68 %."""
MAX_ITERATIONS: Final = 60
MAX_FITTED_RUNS: Final = 240
"""Runs that the variances are fitted to; the mean is then learnt from all."""


@dataclass(frozen=True)
class Variances:
    """What the runs say of how much each reason matters."""

    factors: FloatArray
    """(c,) fitted / prior variance of each component."""
    noises: dict[tuple[object, ...], float]
    """By group, variance of what no reason explains."""
    other_noise: float
    """Of a group without runs."""

    def noise(self, rows: Rows) -> FloatArray:
        """(n,) of each run."""
        return np.array([self.noises.get(group, self.other_noise) for group in rows.noise_groups])


@dataclass(frozen=True)
class Learned:
    """The process after its runs."""

    runs: tuple[ForecastRun, ...]
    standard: Standard
    rows: Rows
    variances: Variances
    inverse: FloatArray
    """(n, n) of the covariance of the runs, noise included."""
    weights: FloatArray
    """(n,) inverse times residuals."""
    residuals: FloatArray
    """(n,) ln(measured / physical)."""

    def predict(self, asked: Sequence[Asked]) -> tuple[FloatArray, FloatArray]:
        """(q,) mean and (q,) variance, noise included, of ln(seconds / physical)."""
        rows = rows_of(asked, self.standard)
        across = np.tensordot(self.variances.factors, matrices(rows, self.rows), axes=1)
        own = self.variances.factors @ diagonals(rows) + self.variances.noise(rows)
        explained = np.einsum("qn,nm,qm->q", across, self.inverse, across, optimize=True)
        return across @ self.weights, np.maximum(own - explained, MIN_NOISE)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """(n,) mean and variance at each run by all others (Rasmussen & Williams 2006, equation 5.12)."""
        precision = np.diag(self.inverse)
        return self.residuals - self.weights / precision, 1.0 / precision

    def group_left_out(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """(k,) mean and variance at the runs `members` (k,) by all runs outside of them."""
        block = np.linalg.inv(self.inverse[np.ix_(members, members)])
        return self.residuals[members] - block @ self.weights[members], np.diag(block)


def learn_residuals(runs: Sequence[ForecastRun], seed: int = 0, variances: Variances | None = None) -> Learned:
    """The process after `runs`. ValueError without any run.

    variances: those of an earlier fit; None fits them to at most `MAX_FITTED_RUNS`, drawn with `seed`.
    """
    if not runs:
        raise ValueError("no run to learn from; ask the physical model")
    standard = Standard.of(runs)
    rows = rows_of(runs, standard)
    residuals = np.log([run.measured_seconds / run.physical_seconds for run in runs])
    kernels = matrices(rows, rows)
    fitted = variances if variances is not None else _variances(kernels, residuals, rows, seed)
    covariance = np.tensordot(fitted.factors, kernels, axes=1) + np.diag(fitted.noise(rows))
    inverse = np.linalg.inv(covariance)
    inverse = (inverse + inverse.T) / 2.0
    return Learned(tuple(runs), standard, rows, fitted, inverse, inverse @ residuals, residuals)


def _variances(kernels: FloatArray, residuals: FloatArray, rows: Rows, seed: int) -> Variances:
    groups = sorted(set(rows.noise_groups), key=str)
    member = np.array([groups.index(group) for group in rows.noise_groups])
    drawn = np.arange(len(residuals))
    if len(drawn) > MAX_FITTED_RUNS:
        drawn = np.sort(np.random.default_rng(seed).choice(len(drawn), MAX_FITTED_RUNS, replace=False))
    vector = _fit(kernels[:, drawn[:, None], drawn[None, :]], residuals[drawn], member[drawn], len(groups))
    noise = NOISE * np.exp(vector[len(kernels) :]) + MIN_NOISE
    noises = {group: float(noise[index]) for index, group in enumerate(groups)}
    return Variances(np.exp(vector[: len(kernels)]), noises, float(np.median(noise)))


def _fit(kernels: FloatArray, residuals: FloatArray, member: IntArray, groups: int) -> FloatArray:
    """(c + g,) logarithms of fitted / prior variances: the most probable ones (type II MAP)."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    count, size = len(kernels), len(residuals)
    flat = kernels.reshape(count, -1)
    identity = np.eye(size)

    def loss(vector: FloatArray) -> tuple[float, FloatArray]:
        factors, noise = np.exp(vector[:count]), NOISE * np.exp(vector[count:])
        covariance = (factors @ flat).reshape(size, size)
        covariance[np.diag_indices(size)] += noise[member] + MIN_NOISE
        factor = cho_factor(covariance, lower=True)
        weights = cho_solve(factor, residuals)
        slope = cho_solve(factor, identity) - np.outer(weights, weights)
        value = 0.5 * residuals @ weights + np.log(np.diag(factor[0])).sum() + 0.5 * (vector @ vector) / FACTOR_SPREAD**2
        by_noise = np.bincount(member, weights=np.diag(slope), minlength=groups)
        gradient = 0.5 * np.concatenate([factors * (flat @ slope.ravel()), noise * by_noise])
        return float(value), gradient + vector / FACTOR_SPREAD**2

    fitted = minimize(
        loss,
        np.zeros(count + groups),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-9.0, 9.0)] * (count + groups),
        options={"maxiter": MAX_ITERATIONS},
    )
    vector: FloatArray = fitted.x
    return vector
