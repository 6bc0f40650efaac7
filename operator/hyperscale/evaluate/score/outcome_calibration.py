"""The fused score as a probability: how often runs with such scores had a named outcome, e.g. ended in time.

x is the weighted mean of the stages' log-odds; the outcome has the log-odds a + b x. The prior is weak: a is about 0, b about 1, which
takes the score at its word. The posterior is integrated by Gauss-Hermite quadrature around its mode, so that few runs give wide answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray

PRIOR_MEAN: Final = (0.0, 1.0)
"""Of intercept and slope, in log-odds."""
PRIOR_DEVIATION: Final = (1.5, 1.0)
"""a of 1.5 is a probability of 0.82; data of some ten runs outweigh both."""
LEAST_ODDS: Final = 1e-3
"""Scores are cut to LEAST_ODDS .. 1 - LEAST_ODDS: no stage is certain."""
NODES: Final = 15
"""Of the quadrature, in each of two directions."""
MAX_STEPS: Final = 100
"""Of Newton's method; some six are enough."""


class CalibratedOutcome(NamedTuple):
    """Posterior of intercept and slope as weighted points."""

    outcome: str
    """What the probability is of."""
    runs: int
    """Runs that it was learned from."""
    weights: tuple[float, ...]
    """Of the stages, as given."""
    nodes: FloatArray
    """(m, 2) intercepts and slopes."""
    masses: FloatArray
    """(m,) of sum 1."""

    def probability(self, scores: FloatArray) -> FloatArray:
        """Return the (n,) posterior mean probabilities of (n, k) scores. Raises ValueError as `fused_log_odds`."""
        fused = fused_log_odds(scores, self.weights)
        chances: FloatArray = _sigmoid(self.nodes[:, :1] + self.nodes[:, 1:] * fused[None, :]).T @ self.masses
        return chances

    def mean(self) -> tuple[float, float]:
        """Return the posterior means of intercept and slope."""
        intercept, slope = self.masses @ self.nodes
        return float(intercept), float(slope)


class HeldOut(msgspec.Struct, frozen=True, rename="camel"):
    """How good probabilities were for runs that they were not learned from."""

    outcome: str
    runs: int
    brier: float
    """Mean squared distance of probability and outcome (Brier 1950); 0 is best."""
    base_brier: float
    """The same of the base rate of the other runs, (successes + 1) / (runs + 2)."""
    score_brier: float
    """The same of the weighted mean score taken as a probability."""

    @property
    def skill(self) -> float:
        """1 - Brier / Brier of the base rate; 0 or less: the score tells nothing."""
        return 1.0 - self.brier / self.base_brier


def fused_log_odds(scores: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Return the (n,) weighted mean log-odds of (n, k) scores from 0 to 1.

    NaN is a stage without a verdict: its weight goes to the others; a row of NaN alone is 0. Raises ValueError for shapes that do not
    match, scores outside 0..1, and weights that are not positive.
    """
    table, shares = np.asarray(scores, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(shares):
        raise ValueError(f"scores of shape {table.shape} for {len(shares)} weights: give one column for each stage")
    if not (np.isfinite(shares).all() and (shares > 0.0).all()):
        raise ValueError(f"weights {shares.tolist()}: give positive ones, as AHP does")
    if ((table < 0.0) | (table > 1.0)).any():
        raise ValueError("a score is outside 0..1; NaN stands for a stage without a verdict")
    present = ~np.isnan(table)
    clipped = np.clip(np.where(present, table, 0.5), LEAST_ODDS, 1.0 - LEAST_ODDS)
    total = (present * shares).sum(axis=1)
    summed = (present * shares * (np.log(clipped) - np.log1p(-clipped))).sum(axis=1)
    fused: FloatArray = np.where(total > 0.0, summed / np.where(total > 0.0, total, 1.0), 0.0)
    return fused


def calibrate_outcome(outcome: str, scores: FloatArray, outcomes: Sequence[bool], weights: Sequence[float]) -> CalibratedOutcome:
    """Return the posterior from n finished runs: (n, k) scores as they were before the run, (n,) outcomes. n = 0 gives the prior.

    Raises ValueError as `fused_log_odds`, and for counts that differ.
    """
    fused = fused_log_odds(scores, weights)
    if len(outcomes) != len(fused):
        raise ValueError(f"{len(outcomes)} outcomes for {len(fused)} runs: give one for each run")
    nodes, masses = _posterior(fused, np.array(outcomes, dtype=np.float64))
    return CalibratedOutcome(outcome, len(fused), tuple(weights), nodes, masses)


def judge_held_out(
    outcome: str, scores: FloatArray, outcomes: Sequence[bool], weights: Sequence[float], folds: int = 5, seed: int = 0
) -> HeldOut:
    """Return Brier scores on runs that were left out of the fit, each run once; `seed` says which runs go together.

    Raises ValueError as `calibrate_outcome`, and for fewer runs than folds.
    """
    count = len(outcomes)
    if folds < 2 or count < folds:
        raise ValueError(f"{count} runs for {folds} folds: give at least two folds, and a run for each")
    happened = np.array(outcomes, dtype=np.float64)
    fold = np.random.default_rng(seed).permutation(count) % folds
    chances, base = np.zeros(count), np.zeros(count)
    for at in range(folds):
        left_out, rest = fold == at, fold != at
        fitted = calibrate_outcome(outcome, scores[rest], happened[rest].astype(bool).tolist(), weights)
        chances[left_out] = fitted.probability(scores[left_out])
        base[left_out] = (happened[rest].sum() + 1.0) / (rest.sum() + 2.0)
    raw = _sigmoid(fused_log_odds(scores, weights))
    return HeldOut(outcome, count, *(float(((each - happened) ** 2).mean()) for each in (chances, base, raw)))


def subset_value(
    outcome: str, names: Sequence[str], history: tuple[FloatArray, Sequence[bool]], weights: Mapping[str, float], job: Mapping[str, float]
) -> Callable[[frozenset[str]], float]:
    """Return the value of a subset of stages for Shapley shares: the job's probability, calibrated again on these stages alone.

    history: (n, k) scores in the order of names, and n outcomes; job: its score by stage. Without any stage it is the base rate.
    """
    scores, outcomes = history

    def value(members: frozenset[str]) -> float:
        columns = [at for at, name in enumerate(names) if name in members]
        if not columns:
            return (sum(outcomes) + 1.0) / (len(outcomes) + 2.0)
        chosen = [weights[names[at]] for at in columns]
        fitted = calibrate_outcome(outcome, scores[:, columns], outcomes, chosen)
        return float(fitted.probability(np.array([[job[names[at]] for at in columns]]))[0])

    return value


def _posterior(fused: FloatArray, happened: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (m, 2) and masses (m,): Gauss-Hermite nodes of the Laplace approximation, reweighted by the posterior."""
    design = np.stack([np.ones(len(fused)), fused], axis=1)
    mode, precision = _mode(design, happened)
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 2)
    spread = np.linalg.inv(np.linalg.cholesky(precision)).T
    nodes: FloatArray = mode + grid @ spread.T
    logarithms = _log_posterior(nodes, design, happened) + 0.5 * (grid**2).sum(axis=1) + np.log(np.outer(weights, weights).ravel())
    masses = np.exp(logarithms - logarithms.max())
    return nodes, masses / masses.sum()


def _mode(design: FloatArray, happened: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest posterior (2,) and its precision (2, 2), by Newton's method with halved steps."""
    prior = np.diag(1.0 / np.square(PRIOR_DEVIATION))
    at = np.array(PRIOR_MEAN)
    precision: FloatArray = prior
    for _ in range(MAX_STEPS):
        chance = _sigmoid(design @ at)
        slope = design.T @ (happened - chance) - prior @ (at - PRIOR_MEAN)
        precision = prior + (design * (chance * (1.0 - chance))[:, None]).T @ design
        step = np.linalg.solve(precision, slope)
        here, size = _log_posterior(at[None, :], design, happened)[0], 1.0
        while size > 1e-6 and _log_posterior((at + size * step)[None, :], design, happened)[0] < here:
            size *= 0.5
        at = at + size * step
        if float(np.abs(step).max()) < 1e-10:
            break
    return at, precision


def _log_posterior(points: FloatArray, design: FloatArray, happened: FloatArray) -> FloatArray:
    """(m,) up to a constant, of (m, 2) intercepts and slopes."""
    odds = points @ design.T
    likely: FloatArray = (happened * odds - np.logaddexp(0.0, odds)).sum(axis=1)
    prior: FloatArray = 0.5 * (((points - PRIOR_MEAN) / PRIOR_DEVIATION) ** 2).sum(axis=1)
    return likely - prior


def _sigmoid(odds: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)) without overflow."""
    chances: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * odds))
    return chances
