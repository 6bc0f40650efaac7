"""Finished runs that something unseen slowed, such as a neighbour on the same node: they must not blur what the other runs teach.

Errors of runs forecast by all others then lie about two values. A mixture of two normal distributions with one spread finds them
(McLachlan & Peel 2000, section 3.2); what a run probably lost is taken off before it teaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray

MIN_RUNS: Final = 240
"""Finished runs below which two kinds are not told apart: each end of the interval needs a quantile of its own."""
TRIMMED: Final = 0.02
"""Share of the errors at each end that do not shape the mixture: one wild run must not hide a quarter of slow ones."""
MIN_SHARE: Final = 0.05
MAX_SHARE: Final = 0.5
"""Of disturbed runs. Fewer are a tail, more are the usual."""
MIN_SEPARATION: Final = 2.5
"""Least shift in units of the spread: nearer modes have no gap between them."""
MIN_GAIN: Final = 20.0
"""Least gain of the Bayesian information criterion over one normal distribution: very strong evidence is 10 (Kass & Raftery 1995)."""
LARGEST_WALK: Final = 1.95
"""Of the sum of kinds over time, in standard deviations of all: by chance it is beyond in 0.1 % (Kolmogorov's distribution)."""
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


class _Mixture(NamedTuple):
    """Two normal distributions with one spread."""

    usual: float
    shift: float
    share: float
    variance: float
    """Of a run's own part."""


def find_disturbance(errors: FloatArray, process: FloatArray) -> Disturbance | None:
    """Return the two kinds of runs, or None where one normal distribution explains the errors as well.

    errors:  (n,) of ln(seconds), each run forecast by the others
    process: (n,) variance of each forecast without the run's own noise
    """
    core = _core(errors)
    mixture = _fitted(errors[core], process[core])
    if mixture is None:
        return None
    spread = math.sqrt(mixture.variance + float(np.median(process)))
    clear = MIN_SHARE <= mixture.share <= MAX_SHARE and mixture.shift >= MIN_SEPARATION * spread
    if not clear or _gain(errors[core], process[core], mixture) < MIN_GAIN:
        return None
    slowed = _posterior(errors, process, mixture)
    return Disturbance(float(slowed.mean()), mixture.shift, mixture.shift * slowed, mixture.shift**2 * slowed * (1.0 - slowed))


def _core(errors: FloatArray) -> IntArray:
    """Which errors shape the mixture: all but `TRIMMED` at each end."""
    ends = math.ceil(TRIMMED * len(errors))
    return np.sort(np.argsort(errors, kind="stable")[ends : len(errors) - ends])


def _fitted(errors: FloatArray, process: FloatArray) -> _Mixture | None:
    """The most likely mixture, by expectation and maximisation; None where one kind takes all."""
    if len(errors) < 2:
        return None
    mixture = _start(errors)
    for _ in range(ITERATIONS):
        slowed, weights, before = _posterior(errors, process, mixture), 1.0 / (process + mixture.variance), mixture
        share = float(slowed.mean())
        if not 1e-3 < share < 1.0 - 1e-3:
            return None
        usual = float(np.average(errors, weights=weights * (1.0 - slowed)))
        shift = float(np.average(errors, weights=weights * slowed)) - usual
        squares = (1.0 - slowed) * (errors - usual) ** 2 + slowed * (errors - usual - shift) ** 2
        mixture = _Mixture(usual, shift, share, max(1e-6, float((squares - process).mean())))
        if np.allclose(before, mixture, rtol=1e-6, atol=1e-9):
            break
    return mixture


def is_confirmed(errors: FloatArray, process: FloatArray) -> bool:
    """Whether errors by runs that did not tell the kinds apart show two kinds as well, mixed over time.

    Between two kinds few runs lie; a long tail or a trend has no such gap. And a fault that came and stayed, such as another driver, is no
    disturbance: the newest runs are the usual ones then.

    errors, process: as of `find_disturbance`, oldest first
    """
    core = _core(errors)
    mixture = _fitted(errors[core], process[core]) if find_disturbance(errors, process) is not None else None
    if mixture is None:
        return False
    slowed = _posterior(errors, process, mixture)
    share = float(slowed.mean())
    walk = np.cumsum(slowed - share) / math.sqrt(max(1e-12, share * (1.0 - share) * len(slowed)))
    return float(np.abs(walk).max()) < LARGEST_WALK and _has_gap(errors, mixture, float(np.median(process)))


def _has_gap(errors: FloatArray, mixture: _Mixture, process: float) -> bool:
    """Whether significantly fewer runs lie where the mixture is thinnest than about its slower kind (binomial test at 1 %)."""
    from scipy.stats import binom

    spread = math.sqrt(mixture.variance + process)
    between = mixture.usual + np.linspace(0.0, mixture.shift, 101)
    thin = float(between[np.argmin(np.logaddexp(*_densities(between, np.full(101, spread**2), mixture)))])
    in_gap, at_slow = (int((np.abs(errors - middle) <= 0.5 * spread).sum()) for middle in (thin, mixture.usual + mixture.shift))
    return float(binom.cdf(in_gap, in_gap + at_slow, 0.5)) < 0.01


def fold_errors(residuals: FloatArray, prior: FloatArray, noise: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """(n,) errors of each run by the runs outside its fold, told apart without it, and (n,) their variances.

    Errors by all others flatter a process that told those others apart with the help of the run itself.
    residuals: (n,) of ln(measured / physical)
    prior:     (n, n) covariance, noise left out
    noise:     (n,) variance of each run's own part
    """
    count = len(residuals)
    errors, variances = np.zeros(count), np.zeros(count)
    for fold in np.array_split(np.random.default_rng(seed).permutation(count), min(FOLDS, count)):
        others = np.setdiff1d(np.arange(count), fold)
        inverse, weights = _told_apart(residuals[others], prior[np.ix_(others, others)], noise[others])
        across = prior[np.ix_(fold, others)]
        errors[fold] = residuals[fold] - across @ weights
        variances[fold] = np.diag(prior)[fold] + noise[fold] - ((across @ inverse) * across).sum(axis=1)
    return errors, np.maximum(variances, 1e-6)


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


def _start(errors: FloatArray) -> _Mixture:
    """Where the split of the least squares of two groups begins."""
    ordered = np.sort(errors)
    count = len(ordered)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    left = np.arange(1, count)
    right = count - left
    within = squares[-1] - sums[:-1] ** 2 / left - (sums[-1] - sums[:-1]) ** 2 / right
    cut = int(np.argmin(within)) + 1
    usual, slow = float(ordered[:cut].mean()), float(ordered[cut:].mean())
    return _Mixture(usual, slow - usual, 1.0 - cut / count, max(1e-6, float(within[cut - 1]) / count))


def _densities(errors: FloatArray, variances: FloatArray, mixture: _Mixture) -> FloatArray:
    """(2, n) logarithms of the weighted densities of both kinds."""
    both = np.array([errors - mixture.usual, errors - mixture.usual - mixture.shift])
    logs: FloatArray = -0.5 * both**2 / variances - 0.5 * np.log(2.0 * math.pi * variances)
    return logs + np.log([[1.0 - mixture.share], [mixture.share]])


def _posterior(errors: FloatArray, process: FloatArray, mixture: _Mixture) -> FloatArray:
    """(n,) probability that each run was disturbed."""
    quiet, slowed = _densities(errors, process + mixture.variance, mixture)
    probability: FloatArray = np.exp(slowed - np.logaddexp(quiet, slowed))
    return probability


def _gain(errors: FloatArray, process: FloatArray, mixture: _Mixture) -> float:
    """Of the information criterion over one normal distribution; two more parameters are paid for."""
    two = float(np.logaddexp(*_densities(errors, process + mixture.variance, mixture)).sum())
    own = max(1e-6, float(errors.var()) - float(process.mean()))
    one = float((-0.5 * (errors - errors.mean()) ** 2 / (process + own) - 0.5 * np.log(2.0 * math.pi * (process + own))).sum())
    return 2.0 * (two - one) - 2.0 * math.log(len(errors))
