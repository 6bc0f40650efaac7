"""The law of a set of lives by maximum likelihood with right censoring, and which family it is.

Sources: Lawless, Statistical Models and Methods for Lifetime Data (2003), for the likelihoods; Schwarz 1978 for BIC;
Hurvich and Tsai 1989 for AICc. A unit that fails counts by its density, one still in service by its survival.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from hyperscale.evaluate.twin.life_laws import MAX_SHAPE, MIN_SHAPE, cumulative_hazard
from hyperscale.evaluate.twin.lives import Lives, nelson_aalen, risk_table
from hyperscale.evaluate.twin.twin_types import LawFamily, LifeLaw
from hyperscale.model.graph import FloatArray

MIN_SHAPE_EVENTS: Final = 10
"""Failures below which a second figure of a law says nothing: the law is then exponential."""
BIC_MARGIN: Final = 2.0
"""How much lower the BIC of another family must be than that of the exponential one."""
MAX_MISFIT: Final = 1.95
"""Largest |observed - expected failures| up to any age, in square roots of all failures: 0.1 % of Brownian bridges go further."""
TWO_SIDED: Final = 1.959964
"""Standard errors of a 95 % interval."""
STEP: Final = 1e-4
"""Of the numerical second derivatives, in logarithms of the figures."""
SAME_AGE: Final = 1e-9
"""Relative difference of two ages that are one."""
FIRST_STEP: Final = 1e-3
"""Part of the first age over which several failures at it are spread."""
MAX_EMPIRICAL_ROWS: Final = 256
TAIL_PART: Final = 0.9
"""Ages above this part of the failures give the hazard beyond an empirical table."""


class FamilyFit(msgspec.Struct, frozen=True):
    """One family fitted to the lives."""

    law: LifeLaw
    log_likelihood: float
    aicc: float
    bic: float


class FittedLaw(msgspec.Struct, frozen=True):
    """The law that lives follow, its intervals, and the families that lost."""

    law: LifeLaw
    units: int
    events: int
    scale_low_seconds: float | None
    """95 % interval of the law's scale and shape; None where the law has none or the likelihood has no curvature."""
    scale_high_seconds: float | None
    shape_low: float | None
    shape_high: float | None
    misfit: float
    """Of the best family: largest |observed - expected failures| up to any age / sqrt(failures); above `MAX_MISFIT` no family fits."""
    candidates: tuple[FamilyFit, ...]
    """Lowest BIC first."""
    alike: bool = False
    """All failures came at one age, which says how often units fail and not how their lives spread: the law is exponential."""


def fit_law(lives: Lives) -> FittedLaw:
    """Return the law of `lives`; empirical where no family fits. Raises ValueError where no unit failed: the law is then unknown."""
    if not lives.events:
        bound = 3.0 / lives.total_seconds if len(lives.seconds) else math.inf
        raise ValueError(f"no unit failed, so no law can be fitted; with 95 % confidence fewer than {bound:.3g} fail per second")
    unit = lives.total_seconds / lives.events
    scaled = Lives(lives.seconds / unit, lives.failed)  # figures near 1: the search is then the same for hours and for years
    alike = _one_age(lives)
    families = FITS if lives.events >= MIN_SHAPE_EVENTS and not alike else (_exponential,)
    candidates = sorted(
        (_family_fit(scaled, law) for law in (fit(scaled) for fit in families) if law is not None), key=lambda each: each.bic
    )
    best = _preferred(candidates)
    misfit = largest_misfit(scaled, best.law)
    low, high = _intervals(scaled, best.law)
    law = best.law
    if misfit > MAX_MISFIT and not alike:
        law, low, high = empirical_law(scaled), (None, None), (None, None)
    return FittedLaw(
        law=_stretched(law, unit),
        units=len(lives.seconds),
        events=lives.events,
        scale_low_seconds=_times(low[0], unit),
        scale_high_seconds=_times(high[0], unit),
        shape_low=low[1],
        shape_high=high[1],
        misfit=misfit,
        candidates=tuple(msgspec.structs.replace(each, law=_stretched(each.law, unit)) for each in candidates),
        alike=alike,
    )


def _one_age(lives: Lives) -> bool:
    """Whether several units failed, all at one age."""
    failures = lives.seconds[lives.failed]
    return lives.events > 1 and float(np.ptp(failures)) <= SAME_AGE * float(failures[0])


def _times(figure: float | None, unit: float) -> float | None:
    return None if figure is None else figure * unit


def _preferred(candidates: list[FamilyFit]) -> FamilyFit:
    """Lowest BIC, but the exponential law unless another is better by the margin."""
    plain = next(each for each in candidates if each.law.family == LawFamily.EXPONENTIAL)
    return candidates[0] if candidates[0].bic < plain.bic - BIC_MARGIN else plain


def log_likelihood(lives: Lives, law: LifeLaw) -> float:
    """Return the log-likelihood of lives in seconds: densities of those that failed, survival of the others."""
    with np.errstate(over="ignore"):
        survived = cumulative_hazard(law, lives.seconds[~lives.failed]).sum()
        return float(_log_density(law, lives.seconds[lives.failed]).sum() - survived)


def _log_density(law: LifeLaw, ages: FloatArray) -> FloatArray:
    """(n,) ln of the density at each age, of the families that have one."""
    ratio = np.log(ages / law.scale_seconds)
    if law.family == LawFamily.EXPONENTIAL:
        return np.asarray(-math.log(law.scale_seconds) - ages / law.scale_seconds)
    if law.family == LawFamily.WEIBULL:
        return np.asarray(math.log(law.shape / law.scale_seconds) + (law.shape - 1.0) * ratio - np.exp(law.shape * ratio))
    if law.family == LawFamily.LOGNORMAL:
        return np.asarray(-0.5 * (ratio / law.shape) ** 2 - np.log(ages) - math.log(law.shape * math.sqrt(2.0 * math.pi)))
    return np.asarray((law.shape - 1.0) * ratio - ages / law.scale_seconds - math.log(law.scale_seconds) - math.lgamma(law.shape))


def _family_fit(lives: Lives, law: LifeLaw) -> FamilyFit:
    figures = 1 if law.family == LawFamily.EXPONENTIAL else 2
    likelihood = log_likelihood(lives, law)
    small = 2.0 * figures * (figures + 1) / max(1.0, lives.events - figures - 1)
    return FamilyFit(law, likelihood, 2.0 * figures - 2.0 * likelihood + small, figures * math.log(lives.events) - 2.0 * likelihood)


def _exponential(lives: Lives) -> LifeLaw | None:
    return LifeLaw(LawFamily.EXPONENTIAL, lives.total_seconds / lives.events)


def _weibull(lives: Lives) -> LifeLaw | None:
    """Shape by the profile likelihood's one root, scale in closed form."""
    from scipy.optimize import brentq

    logs = np.log(lives.seconds)
    middle = float(logs[lives.failed].mean())
    top = float(logs.max())

    def slope(shape: float) -> float:
        powers = np.exp(shape * (logs - top))
        return float((powers * logs).sum() / powers.sum()) - 1.0 / shape - middle

    if slope(MIN_SHAPE) > 0.0 or slope(MAX_SHAPE) < 0.0:
        return None
    shape = float(brentq(slope, MIN_SHAPE, MAX_SHAPE, xtol=1e-10))
    scale = math.exp(top) * (float(np.exp(shape * (logs - top)).sum()) / lives.events) ** (1.0 / shape)
    return LifeLaw(LawFamily.WEIBULL, scale, shape)


def _lognormal(lives: Lives) -> LifeLaw | None:
    logs = np.log(lives.seconds[lives.failed])
    return _searched(lives, LawFamily.LOGNORMAL, (float(np.median(logs)) + 0.5, math.log(max(0.2, float(logs.std())))))


def _gamma(lives: Lives) -> LifeLaw | None:
    start = _weibull(lives)
    shape = 1.0 if start is None else min(max(start.shape, 0.2), 10.0)
    return _searched(lives, LawFamily.GAMMA, (-math.log(shape), math.log(shape)))


FITS: Final[tuple[Callable[[Lives], LifeLaw | None], ...]] = (_exponential, _weibull, _lognormal, _gamma)


def _of(family: LawFamily, logs: FloatArray) -> LifeLaw:
    return LifeLaw(family, math.exp(float(logs[0])), math.exp(float(logs[1])))


def _searched(lives: Lives, family: LawFamily, start: tuple[float, float]) -> LifeLaw | None:
    """The most likely law of a family without a closed form; None where it lies at a bound."""
    from scipy.optimize import minimize

    low, high = math.log(MIN_SHAPE), math.log(MAX_SHAPE)

    def cost(logs: FloatArray) -> float:
        likelihood = log_likelihood(lives, _of(family, logs))
        return -likelihood / lives.events if math.isfinite(likelihood) else 1e6

    best = minimize(cost, np.array(start), method="L-BFGS-B", bounds=((-30.0, 30.0), (low, high)), options={"ftol": 1e-12, "gtol": 1e-7})
    if not low < best.x[1] < high or best.fun >= 1e6:
        return None
    return _of(family, best.x)


def _intervals(lives: Lives, law: LifeLaw) -> tuple[tuple[float | None, float | None], tuple[float | None, float | None]]:
    """Low and high ends of (scale, shape): normal in the logarithms, by the observed information (Wald)."""
    if law.family == LawFamily.EXPONENTIAL:
        factor = math.exp(TWO_SIDED / math.sqrt(lives.events))
        return (law.scale_seconds / factor, None), (law.scale_seconds * factor, None)
    centre = np.log([law.scale_seconds, law.shape])
    information = np.zeros((2, 2))
    for row in range(2):
        for column in range(2):
            ends = [centre + STEP * (a * np.eye(2)[row] + b * np.eye(2)[column]) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            values = [log_likelihood(lives, _of(law.family, end)) for end in ends]
            information[row, column] = -(values[0] - values[1] - values[2] + values[3]) / (4.0 * STEP * STEP)
    if not np.isfinite(information).all() or information[0, 0] <= 0.0 or np.linalg.det(information) <= 0.0:
        return (None, None), (None, None)
    width = TWO_SIDED * np.sqrt(np.diag(np.linalg.inv(information)))
    low, high = np.exp(centre - width).tolist(), np.exp(centre + width).tolist()
    return (low[0], low[1]), (high[0], high[1])


def largest_misfit(lives: Lives, law: LifeLaw) -> float:
    """Return the largest |observed - expected failures| up to any age, in square roots of all failures.

    Expected are the hazards that all units have lived through by then (a martingale where the law is right), so censoring does no harm.
    """
    ages, deaths, _ = risk_table(lives)
    order = np.sort(lives.seconds)
    lived = np.concatenate([[0.0], np.cumsum(cumulative_hazard(law, order))])
    ended = np.searchsorted(order, ages, side="right")
    expected = lived[ended] + (len(order) - ended) * cumulative_hazard(law, ages)
    observed = np.cumsum(deaths)
    apart = max(float(np.abs(observed - expected).max()), float(np.abs(observed - deaths - expected).max()))
    return apart / math.sqrt(lives.events)


def empirical_law(lives: Lives) -> LifeLaw:
    """Return the law that the lives themselves give: Nelson and Aalen's cumulative hazard, and its mean slope over the oldest beyond it."""
    ages, hazards = nelson_aalen(lives)
    late_rows = np.arange(max(0, len(ages) - MAX_EMPIRICAL_ROWS // 4), len(ages))  # few units are left: each failure is a step
    rows = np.union1d(np.linspace(0, late_rows[0], 3 * MAX_EMPIRICAL_ROWS // 4).round().astype(np.int64), late_rows)
    old = float(np.quantile(lives.seconds[lives.failed], TAIL_PART))
    exposed = float(np.maximum(lives.seconds - old, 0.0).sum())
    late = int((lives.failed & (lives.seconds > old)).sum())
    tail = exposed / late if late else lives.total_seconds / lives.events
    table = (tuple(ages[rows].tolist()), tuple(hazards[rows].tolist()))
    if np.count_nonzero(lives.seconds[lives.failed] == ages[0]) > 1:  # a table is linear between rows: none failed before this age
        table = ((float(ages[0]) * (1.0 - FIRST_STEP), *table[0]), (0.0, *table[1]))
    return LifeLaw(LawFamily.EMPIRICAL, tail, ages_seconds=table[0], hazards=table[1])


def _stretched(law: LifeLaw, unit: float) -> LifeLaw:
    """The same law with times in seconds instead of `unit` seconds."""
    return msgspec.structs.replace(law, scale_seconds=law.scale_seconds * unit, ages_seconds=tuple(age * unit for age in law.ages_seconds))
