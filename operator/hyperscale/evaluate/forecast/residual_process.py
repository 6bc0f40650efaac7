"""What finished runs teach about ln(measured / physical): a Gaussian process whose variances are fitted to them. Deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.conformal_interval import SpreadModel
from hyperscale.evaluate.forecast.disturbed_runs import Disturbance, undisturbed
from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.forecast.residual_kernel import Asked, Rows, Standard, covariance, diagonals, matrices, rows_of
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
    spread: SpreadModel | None = None
    """How noise depends on figures; None: not at all."""

    def noise(self, rows: Rows) -> FloatArray:
        """(n,) of each run."""
        noise = np.array([self.noises.get(group, self.other_noise) for group in rows.noise_groups])
        return noise if self.spread is None else noise * self.spread.spread(rows.figures) ** 2


@dataclass(frozen=True)
class LearnedResiduals:
    """The process after its runs."""

    runs: tuple[ForecastRun, ...]
    standard: Standard
    rows: Rows
    variances: Variances
    prior: FloatArray
    """(n, n) covariance of the runs, noise left out."""
    inverse: FloatArray
    """(n, n) of the covariance of the runs, noise included."""
    weights: FloatArray
    """(n,) inverse times what the runs teach."""
    residuals: FloatArray
    """(n,) ln(measured / physical)."""
    disturbance: Disturbance
    """What disturbed runs lost: it is taken off their residuals before they teach."""

    def predict(self, asked: Sequence[Asked]) -> tuple[FloatArray, FloatArray]:
        """(q,) mean and (q,) variance, noise included, of ln(seconds / physical)."""
        rows = rows_of(asked, self.standard)
        across = covariance(self.variances.factors, rows, self.rows)
        own = self.variances.factors @ diagonals(rows) + self.variances.noise(rows)
        explained = np.einsum("qn,nm,qm->q", across, self.inverse, across, optimize=True)
        return across @ self.weights, np.maximum(own - explained, MIN_NOISE)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """(n,) mean and variance at each run by all others (Rasmussen & Williams 2006, equation 5.12)."""
        precision = np.diag(self.inverse)
        taught = self.residuals - self.disturbance.offsets
        return taught - self.weights / precision, 1.0 / precision - self.disturbance.doubts

    def group_left_out(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """(k,) mean and variance at the runs `members` (k,) by all runs outside of them."""
        block = np.linalg.inv(self.inverse[np.ix_(members, members)])
        taught = self.residuals[members] - self.disturbance.offsets[members]
        return taught - block @ self.weights[members], np.diag(block) - self.disturbance.doubts[members]


def learn_residuals(
    runs: Sequence[ForecastRun], seed: int = 0, variances: Variances | None = None, disturbance: Disturbance | None = None
) -> LearnedResiduals:
    """The process after `runs`. ValueError without any run.

    variances:   those of an earlier fit; None fits them to at most `MAX_FITTED_RUNS`, drawn with `seed`.
    disturbance: of these runs; None: all are of one kind
    """
    if not runs:
        raise ValueError("no run to learn from; ask the physical model")
    standard = Standard.of(runs)
    rows = rows_of(runs, standard)
    residuals = np.log([run.measured_seconds / run.physical_seconds for run in runs])
    lost = disturbance or undisturbed(len(runs))
    taught = residuals - lost.offsets
    fitted = variances if variances is not None else _fitted_variances(runs, taught, standard, seed)
    prior = covariance(fitted.factors, rows, rows)
    inverse = np.linalg.inv(prior + np.diag(fitted.noise(rows) + lost.doubts))
    inverse = (inverse + inverse.T) / 2.0
    return LearnedResiduals(tuple(runs), standard, rows, fitted, prior, inverse, inverse @ taught, residuals, lost)


def _fitted_variances(runs: Sequence[ForecastRun], residuals: FloatArray, standard: Standard, seed: int) -> Variances:
    drawn = np.arange(len(runs))
    if len(drawn) > MAX_FITTED_RUNS:
        drawn = np.sort(np.random.default_rng(seed).choice(len(drawn), MAX_FITTED_RUNS, replace=False))
    rows = rows_of([runs[index] for index in drawn.tolist()], standard)
    groups = sorted(set(rows.noise_groups), key=str)
    member = np.array([groups.index(group) for group in rows.noise_groups])
    kernels = matrices(rows, rows)
    vector = _fit(kernels, residuals[drawn], member, len(groups))
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
        total = (factors @ flat).reshape(size, size)
        total[np.diag_indices(size)] += noise[member] + MIN_NOISE
        factor = cho_factor(total, lower=True)
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
