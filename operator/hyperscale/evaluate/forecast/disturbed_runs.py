"""Finished runs that something unseen slowed, such as a neighbour on the same node: they must not blur what the other runs teach.

Errors of runs forecast by all others then lie about two values. A mixture of two normal distributions with one spread finds them
(McLachlan & Peel 2000, section 3.2); what a run probably lost is taken off before it teaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray

MIN_RUNS: Final = 60
"""Finished runs below which two kinds are not told apart."""
MIN_SHARE: Final = 0.05
MAX_SHARE: Final = 0.5
"""Of disturbed runs. Fewer are a tail, more are the usual."""
MIN_SEPARATION: Final = 2.5
"""Least shift in units of the spread: nearer modes have no gap between them."""
MIN_GAIN: Final = 20.0
"""Least gain of the Bayesian information criterion over one normal distribution: very strong evidence is 10 (Kass & Raftery 1995)."""
ITERATIONS: Final = 200
PASSES: Final = 3
"""Each tells the two kinds apart by forecasts that the one before made sharper."""
FOLDS: Final = 10
"""Of the history, for errors at runs that did not help to tell the kinds apart."""


@dataclass(frozen=True)
class Disturbance:
    """What disturbed runs have in common."""

    share: float
    """Of all finished runs."""
    shift: float
    """In ln(seconds); positive: slower."""
    offsets: FloatArray
    """(n,) expected share of the shift in each finished run."""
    doubts: FloatArray
    """(n,) variance of that: large where a run may be of either kind."""


def undisturbed(count: int) -> Disturbance:
    """`count` runs of one kind."""
    return Disturbance(0.0, 0.0, np.zeros(count), np.zeros(count))


def find_disturbance(errors: FloatArray, process: FloatArray) -> Disturbance | None:
    """Return the two kinds of runs, or None where one explains the errors as well.

    errors:  (n,) of ln(seconds), each run forecast by the others
    process: (n,) variance of each forecast without the run's own noise
    """
    count = len(errors)
    if count < MIN_RUNS:
        return None
    usual, shift, share, variance = _start(errors)
    for _ in range(ITERATIONS):
        slowed = _posterior(errors, process + variance, usual, shift, share)
        before = (usual, shift, share, variance)
        weights = 1.0 / (process + variance)
        share = float(slowed.mean())
        if not 1e-3 < share < 1.0 - 1e-3:
            return None
        usual = float(np.average(errors, weights=weights * (1.0 - slowed)))
        shift = float(np.average(errors, weights=weights * slowed)) - usual
        squares = (1.0 - slowed) * (errors - usual) ** 2 + slowed * (errors - usual - shift) ** 2
        variance = max(1e-6, float((squares - process).mean()))
        if np.allclose(before, (usual, shift, share, variance), rtol=1e-6, atol=1e-9):
            break
    spread = math.sqrt(variance + float(np.median(process)))
    clear = MIN_SHARE <= share <= MAX_SHARE and shift >= MIN_SEPARATION * spread
    if not clear or _gain(errors, process, (usual, shift, share, variance)) < MIN_GAIN:
        return None
    return Disturbance(share, shift, shift * slowed, shift**2 * slowed * (1.0 - slowed))


def fold_errors(residuals: FloatArray, prior: FloatArray, noise: FloatArray, seed: int) -> FloatArray:
    """(n,) standardised errors of each run by the runs outside its fold, told apart without it.

    Errors by all others flatter a process that told those others apart with the help of the run itself.
    residuals: (n,) of ln(measured / physical)
    prior:     (n, n) covariance, noise left out
    noise:     (n,) variance of each run's own part
    """
    count = len(residuals)
    errors = np.zeros(count)
    for fold in np.array_split(np.random.default_rng(seed).permutation(count), min(FOLDS, count)):
        others = np.setdiff1d(np.arange(count), fold)
        inverse, weights = _told_apart(residuals[others], prior[np.ix_(others, others)], noise[others])
        across = prior[np.ix_(fold, others)]
        variance = np.diag(prior)[fold] + noise[fold] - ((across @ inverse) * across).sum(axis=1)
        errors[fold] = (residuals[fold] - across @ weights) / np.sqrt(np.maximum(variance, 1e-6))
    return errors


def _told_apart(residuals: FloatArray, prior: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, n) inverse of the covariance and (n,) weights of runs whose kinds they tell themselves."""
    lost = undisturbed(len(residuals))
    for left in reversed(range(PASSES + 1)):
        inverse = np.asarray(np.linalg.inv(prior + np.diag(noise + lost.doubts)), dtype=np.float64)
        weights = inverse @ (residuals - lost.offsets)
        precision = np.diag(inverse)
        errors = lost.offsets + weights / precision
        again = find_disturbance(errors, 1.0 / precision - lost.doubts - noise) if left else None
        if again is None:
            break
        lost = again
    return inverse, weights


def _start(errors: FloatArray) -> tuple[float, float, float, float]:
    """Usual error, shift, share and variance where the two halves of the widest split begin: the least squares of two groups."""
    ordered = np.sort(errors)
    count = len(ordered)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    left = np.arange(1, count)
    right = count - left
    within = squares[-1] - sums[:-1] ** 2 / left - (sums[-1] - sums[:-1]) ** 2 / right
    cut = int(np.argmin(within)) + 1
    usual, slow = float(ordered[:cut].mean()), float(ordered[cut:].mean())
    return usual, slow - usual, 1.0 - cut / count, max(1e-6, float(within[cut - 1]) / count)


def _densities(errors: FloatArray, variances: FloatArray, usual: float, shift: float, share: float) -> FloatArray:
    """(2, n) logarithms of the weighted densities of both kinds."""
    both = np.array([errors - usual, errors - usual - shift])
    logs: FloatArray = -0.5 * both**2 / variances - 0.5 * np.log(2.0 * math.pi * variances)
    return logs + np.log([[1.0 - share], [share]])


def _posterior(errors: FloatArray, variances: FloatArray, usual: float, shift: float, share: float) -> FloatArray:
    """(n,) probability that each run was disturbed."""
    quiet, slowed = _densities(errors, variances, usual, shift, share)
    probability: FloatArray = np.exp(slowed - np.logaddexp(quiet, slowed))
    return probability


def _gain(errors: FloatArray, process: FloatArray, mixture: tuple[float, float, float, float]) -> float:
    """Of the information criterion over one normal distribution; two more parameters are paid for."""
    usual, shift, share, variance = mixture
    two = float(np.logaddexp(*_densities(errors, process + variance, usual, shift, share)).sum())
    own = max(1e-6, float(errors.var()) - float(process.mean()))
    one = float((-0.5 * (errors - errors.mean()) ** 2 / (process + own) - 0.5 * np.log(2.0 * math.pi * (process + own))).sum())
    return 2.0 * (two - one) - 2.0 * math.log(len(errors))
