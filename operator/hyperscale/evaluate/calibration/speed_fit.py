"""Factors of the cost model from finished runs: one regression for all architectures, each factor shrunk towards 1.

ln(seconds of run i) = ln(max_p e^(a + b_p) C_ip + K_i(c) sum_t e^(l_t) L_it + sum_q e^(d_q) D_iq + O_i) + error,
with a of the architecture, b of a product, l of a tier, d of an inside, c of cards, and the seconds of the plan's parts in capitals. K is
the wait for the slower card of each link (`slower_card.py`).
Every factor has a normal prior about 0. The estimate is the posterior mode, the mixed model's BLUP (Henderson 1975, Robinson 1991):
theta = (J'WJ / s^2 + P)^-1 J'W (r + J theta) / s^2, by Gauss-Newton steps. W are weights of Student's t with 4 degrees of freedom
(Lange, Little and Taylor 1989), one for all that a run measured, times what the run counts for (`taught_run.weights`). They judge a run
by its studentized residual (Cook and Weisberg 1982).
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.calibration.own_level import OwnLevel, own_level
from hyperscale.evaluate.calibration.speed_design import Design, design_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun, usable
from hyperscale.evaluate.calibration.widening import MIN_RUNS, ONE_SIGMA
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.corrections import MAX_FACTOR, MAX_NAMED, Corrections, Factor, PartKind, own_key
from hyperscale.model.plan import MIN_SPREAD
from hyperscale.planner.cost.agreed_spread import PRIOR_SPREAD, agreed_spread, quarter_shares

MAX_TAUGHT: Final = 400
"""Newest runs that factors are fitted to."""
DEGREES: Final = 4.0
"""Of freedom of the errors: a disturbed run counts little."""
PRIOR_RUNS: Final = 4.0
"""Runs that the prior spread counts for."""
MAX_FIT_SPREAD: Final = 0.35
"""Of errors in the fit: runs that contradict all others by more do not make the others doubtful."""
MAX_SPREAD: Final = 1.0
"""Of ln(measured / corrected): a range of e^2 to both sides says that nothing is foretold."""
MAX_LEVERAGE: Final = 0.9
"""Of a run on its own prediction."""
STEPS: Final = 25
MAX_STEP: Final = 0.5
"""Change of a factor's logarithm in one step."""
NOTABLY_FASTER: Final = 0.3
"""ln(factor) by which a product is tried to be faster where its error is asked for: what it may be hoped to be."""
SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
LEAST_OWN: Final = 5
"""Runs of a namespace from which their errors are the spread of its own plans."""
ANY: Final = ""
"""Key of the corrections for an architecture without any run."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpeedFit:
    """The posterior of all factors."""

    design: Design
    mean: FloatArray
    """(f,) of ln(factor)."""
    covariance: FloatArray
    """(f, f)"""
    of_sums: FloatArray
    """(f, f) variance of ln(factor) of a product (row) plus an architecture's; of itself alone on the diagonal; 0 elsewhere."""
    left_out: FloatArray
    """(r,) ln(measured / predicted) of each run's epoch, about as if the run had been left out of the fit."""

    @property
    def finite(self) -> bool:
        """Whether every figure is a number."""
        return all(bool(np.isfinite(figures).all()) for figures in (self.mean, self.covariance, self.of_sums, self.left_out))


def corrections_of(runs: Sequence[TaughtRun], least: int = 1) -> dict[str, Corrections]:
    """Return corrections by architecture, and those of every other one under ""; none from fewer than `least` usable runs.

    Of several namespaces, one with LEAST_OWN runs of an architecture has corrections with the spread of its own runs, under `own_key`.
    runs: oldest first; what can be no run is left out, and so are those of all but the MAX_NAMED architectures with the most runs
    None, with a line in the log, where a figure of the fit is no number: plans go on without corrections.
    """
    taught = [run for run in runs if usable(run)][-MAX_TAUGHT:]
    counts = Counter(run.architecture for run in taught)
    named = set(sorted(counts, key=lambda name: (-counts[name], name))[:MAX_NAMED])
    taught = [run for run in taught if run.architecture in named]
    if len(taught) < max(1, least):
        return {}
    fit = fitted(taught)
    by_architecture = {name: _corrections(fit, taught, name) for name in (ANY, *sorted({run.architecture for run in taught}))}
    by_architecture |= _own_corrections(by_architecture, fit, taught)
    if not (fit.finite and all(corrections.finite for corrections in by_architecture.values())):
        _LOG.error("finished runs correct no plan: the fit to %d of them has a figure that is no number", len(taught))
        return {}
    return by_architecture


def fitted(runs: Sequence[TaughtRun]) -> SpeedFit:
    """Return the fit to usable runs. ValueError for none."""
    if not runs:
        raise ValueError("factors need at least one finished run")
    design = design_of(runs)
    precision = np.diag(1.0 / design.prior**2)
    mean: FloatArray = np.zeros(len(design.prior))
    spread = PRIOR_SPREAD
    leverage: FloatArray = np.zeros(len(design.weight))
    residual, slope = design.residuals(mean)
    for _ in range(STEPS):
        weight = _weights(design, _left_out(residual, leverage, 0.5), spread)
        normal = _squares(slope, weight, spread) + precision
        leverage = _leverage(weight, slope, np.linalg.inv(normal).astype(np.float64), spread)
        target = _bounded(normal, slope.T @ (weight * (residual + slope @ mean)) / spread**2, design.limit)
        mean = mean + np.clip(target - mean, -MAX_STEP, MAX_STEP)
        residual, slope = design.residuals(mean)
        spread = _spread(design.weight, residual)
    weight = _weights(design, _left_out(residual, leverage, 0.5), spread)
    faster, of_sums = slope.copy(), np.zeros_like(precision)
    normal = _squares(slope, weight, spread) + precision
    for beside in design.slopes_beside(mean, NOTABLY_FASTER):
        own = beside.observations
        faster[own, beside.at] = beside.slopes[:, beside.at]
        change = _squares(beside.slopes, weight[own], spread) - _squares(slope[own], weight[own], spread)
        of_sums[beside.at] = _sum_variances(normal + change, beside.at, design.levels)
    covariance = np.linalg.inv(_squares(faster, weight, spread) + precision).astype(np.float64)
    left_out = _left_out(residual, _leverage(weight, faster, covariance, spread), 1.0)
    return SpeedFit(design, mean, covariance, of_sums, left_out[: design.runs])


def _squares(slope: FloatArray, weight: FloatArray, spread: float) -> FloatArray:
    """(f, f) what observations (o, f) of these weights (o,) say of the factors."""
    squares: FloatArray = slope.T @ (weight[:, None] * slope) / spread**2
    return squares


def _sum_variances(normal: FloatArray, at: int, levels: IntArray) -> FloatArray:
    """(f,) variance of the sum of the factors at `at` and at each of `levels`; at `at` that of its own; 0 elsewhere."""
    asked = np.append(levels, at)
    columns = np.linalg.solve(normal, np.eye(len(normal))[:, asked])
    own, variances = columns[at, -1], np.zeros(len(normal))
    variances[levels] = columns[levels, np.arange(len(levels))] + own + 2.0 * columns[levels, -1]
    variances[at] = own
    return variances


def _leverage(weight: FloatArray, slope: FloatArray, covariance: FloatArray, spread: float) -> FloatArray:
    """(o,) of each observation on its own prediction, 0 to 1."""
    leverage: FloatArray = weight * ((slope @ covariance) * slope).sum(axis=1) / spread**2
    return leverage


def _left_out(residual: FloatArray, leverage: FloatArray, power: float) -> FloatArray:
    """(o,) residuals as if each observation had been left out; with `power` 0.5 over their standard deviation then, times the spread.

    A run that alone teaches a factor fits itself: its residual says nothing, what it would be without the run does.
    """
    scaled: FloatArray = residual / (1.0 - np.minimum(leverage, MAX_LEVERAGE)) ** power
    return scaled


def _bounded(normal: FloatArray, right: FloatArray, limit: FloatArray) -> FloatArray:
    """Return (f,) the solution of `normal` @ x = `right` within ± `limit` (f,): what would be beyond stays there, and the others adapt."""
    solution: FloatArray = np.linalg.solve(normal, right).astype(np.float64)
    at_limit = np.zeros(len(limit), dtype=np.bool_)
    while (beyond := ~at_limit & (np.abs(solution) > limit)).any():
        at_limit |= beyond
        solution = np.where(at_limit, np.sign(solution) * np.minimum(np.abs(solution), limit), solution)
        free = ~at_limit
        solution[free] = np.linalg.solve(normal[np.ix_(free, free)], right[free] - normal[np.ix_(free, at_limit)] @ solution[at_limit])
    return solution


def _weights(design: Design, residual: FloatArray, spread: float) -> FloatArray:
    """(o,) of observations under the multivariate t of each run's: what disturbs an epoch disturbs its compute seconds."""
    observations = np.bincount(design.observed, minlength=design.runs)
    squares = np.bincount(design.observed, weights=residual**2, minlength=design.runs) / spread**2
    weight: FloatArray = design.weight * ((DEGREES + observations) / (DEGREES + squares))[design.observed]
    return weight


def _spread(weight: FloatArray, residual: FloatArray) -> float:
    """Scale of the errors by their weighted median, which no minority moves, with a prior that counts as PRIOR_RUNS."""
    counted = float(weight.sum())
    squares = counted * _deviation(weight, residual) ** 2 + PRIOR_RUNS * PRIOR_SPREAD**2
    return min(max(MIN_SPREAD, math.sqrt(squares / (counted + PRIOR_RUNS))), MAX_FIT_SPREAD)


def _deviation(weight: FloatArray, residual: FloatArray) -> float:
    return SAME_AS_SIGMA * _quantile(weight, np.abs(residual), 0.5)


def _quantile(weight: FloatArray, figures: FloatArray, part: float) -> float:
    """The least figure that `part` of the weight does not exceed."""
    order = np.argsort(figures, kind="stable")
    reached = np.cumsum(weight[order])
    return float(figures[order][min(len(order) - 1, int(np.searchsorted(reached, part * reached[-1] * (1.0 - 1e-12))))])


def _corrections(fit: SpeedFit, runs: Sequence[TaughtRun], architecture: str, addition: OwnLevel | None = None) -> Corrections:
    """What the fit says about jobs of one architecture, and the runs of one namespace about its own."""
    design, own = fit.design, [row for row, run in enumerate(runs) if run.architecture == architecture]
    place = design.place(PartKind.OVERHEAD, architecture)  # an architecture's own factor
    level, variance = (0.0, design.prior_of(PartKind.OVERHEAD) ** 2) if place is None else (fit.mean[place], fit.covariance[place, place])
    own_variance = 0.0
    if addition is not None:
        level, own_variance = level + addition.arithmetic, addition.error**2
    products = []
    for name, at in design.places(PartKind.COMPUTE):
        error = math.sqrt(max(0.0, variance + fit.of_sums[at, at] if place is None else fit.of_sums[at, place]) + own_variance)
        products.append(_factor(name, level + fit.mean[at], error, design.counts[at], design.rates.get(name, 0.0)))
    untried = math.sqrt(variance + own_variance + design.prior_of(PartKind.COMPUTE) ** 2)
    return Corrections(
        untried=_factor("", level, untried, len(own)),
        products=tuple(products),
        tiers=_named(fit, PartKind.LINK, addition),
        insides=_named(fit, PartKind.INSIDE, addition),
        cards=_named(fit, PartKind.CARD),
        untried_link_error=design.prior_of(PartKind.LINK),
        spread=_shared_spread(fit, runs, own) if own else 0.0,
        runs=len(own),
        all_runs=len(runs),
    )


def _own_corrections(by_architecture: Mapping[str, Corrections], fit: SpeedFit, runs: Sequence[TaughtRun]) -> dict[str, Corrections]:
    """The same factors with the spread of the namespace's own runs, and with their level; none where only one namespace has runs."""
    if len({run.namespace for run in runs}) <= 1:
        return {}
    rows: dict[tuple[str, str], list[int]] = {}
    for row, run in enumerate(runs):
        rows.setdefault((run.architecture, run.namespace), []).append(row)
    corrections = {}
    for (architecture, namespace), own in sorted(rows.items()):
        if len(own) >= LEAST_OWN:
            level = own_level(fit.design, fit.mean, own, fit.left_out[own])
            spread = _left_out_spread(np.ones(len(own)), level.left_out)
            shifted = _corrections(fit, runs, architecture, level) if level.contradicts else by_architecture[architecture]
            corrections[own_key(architecture, namespace)] = replace(shifted, spread=spread)
    return corrections


def _shared_spread(fit: SpeedFit, runs: Sequence[TaughtRun], rows: Sequence[int]) -> float:
    """Of the runs in these rows; where several namespaces have runs, none of them decides it alone."""
    weight, errors = fit.design.weight[list(rows)], fit.left_out[list(rows)]
    if len({run.namespace for run in runs}) <= 1:
        return _left_out_spread(weight, errors)
    owners = [runs[row].namespace for row in rows]
    names = sorted(set(owners))
    by_namespace = [errors[[row for row, each in enumerate(owners) if each == name]] for name in names]
    pooled = _left_out_spread(np.array(quarter_shares(owners, weight.tolist())), errors) if len(names) > 1 else PRIOR_SPREAD
    return agreed_spread(pooled, [_left_out_spread(np.ones(len(own)), own) for own in by_namespace])


def _named(fit: SpeedFit, kind: PartKind, addition: OwnLevel | None = None) -> tuple[Factor, ...]:
    level, error = (addition.exchange, addition.error) if addition is not None else (0.0, 0.0)
    return tuple(
        _factor(name, fit.mean[at] + level, math.hypot(math.sqrt(fit.covariance[at, at]), error), fit.design.counts[at])
        for name, at in fit.design.places(kind)
    )[:MAX_NAMED]


def _factor(name: str, logarithm: float, error: float, runs: int, rate: float = 0.0) -> Factor:
    """A factor within its bounds, rounded: no figure hangs on the last bits of a sum."""
    factor = math.exp(min(max(float(logarithm), -math.log(MAX_FACTOR)), math.log(MAX_FACTOR)))
    return Factor(name, float(f"{factor:.6g}"), float(f"{error:.6g}"), int(runs), rate)


def _left_out_spread(weight: FloatArray, errors: FloatArray) -> float:
    """Standard deviation of runs that were left out; from MIN_RUNS on no less than what covers 68 of 100 and the run to come."""
    spread, counted = _deviation(weight, errors), float(weight.sum())
    if counted >= MIN_RUNS:
        spread = max(spread, _quantile(weight, np.abs(errors), min(1.0, ONE_SIGMA * (counted + 1.0) / counted)))
    return float(f"{min(max(MIN_SPREAD, spread), MAX_SPREAD):.6g}")
