"""Laws of lives as cumulative hazards: what the compiled futures draw from, and what the fit is judged by."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hyperscale.evaluate.twin.twin_types import LawFamily, LifeLaw
from hyperscale.model.graph import FloatArray

MIN_SHAPE: Final = 0.05
MAX_SHAPE: Final = 100.0
"""Bounds of a law's shape: beyond them a table of the law says little."""
TABLE_ROWS: Final = 1024
"""Of a law without a closed form; the distribution is then right to about 1e-4."""
MAX_HAZARD: Final = 60.0
"""Where a table ends: chance of a longer life 1e-26."""
MIN_PROBABILITY: Final = 1e-9
"""Where a table begins."""
MAX_AGE_SECONDS: Final = 1e11
"""Last age of a table, 3,000 years: beyond it the hazard is as at its end."""
TABLE_SPAN: Final = 1e-15
"""First age of a table at the least, as a part of the last."""
NEVER_SECONDS: Final = 1e300
"""Stands for an infinite scale: longer than any horizon, and still a number."""

TABLED: Final = (LawFamily.LOGNORMAL, LawFamily.GAMMA, LawFamily.EMPIRICAL)


def check_law(law: LifeLaw, path: str) -> None:
    """Raise ValueError with `path`, the fault and what to write instead, where a law's figures make no law."""
    if not law.scale_seconds > 0.0 and not (law.family == LawFamily.FIXED and law.scale_seconds == 0.0):
        raise ValueError(f"{path}.scale_seconds: {law.scale_seconds} is not above 0; write the law's scale in seconds")
    if math.isinf(law.scale_seconds) and law.family in (LawFamily.LOGNORMAL, LawFamily.GAMMA):
        raise ValueError(f"{path}.scale_seconds: infinite; write an exponential law with an infinite mean for what never ends")
    if not MIN_SHAPE <= law.shape <= MAX_SHAPE:
        raise ValueError(f"{path}.shape: {law.shape} is outside {MIN_SHAPE} to {MAX_SHAPE:g}; write a shape within")
    if law.family == LawFamily.EMPIRICAL:
        _check_table(law, path)


def _check_table(law: LifeLaw, path: str) -> None:
    ages, hazards = np.array(law.ages_seconds), np.array(law.hazards)
    if not len(ages) or len(ages) != len(hazards):
        raise ValueError(f"{path}: {len(ages)} ages and {len(hazards)} hazards; write one hazard for each age, and at least one")
    if not (np.isfinite(ages).all() and np.isfinite(hazards).all()):
        raise ValueError(f"{path}: an age or a hazard is no number; write finite figures")
    if ages[0] <= 0.0 or (np.diff(ages) <= 0.0).any():
        raise ValueError(f"{path}.ages_seconds: ages must rise from above 0; sort them and leave out equal ones")
    if hazards[0] < 0.0 or (np.diff(hazards) < 0.0).any():
        raise ValueError(f"{path}.hazards: a cumulative hazard never falls and is never negative")


def cumulative_hazard(law: LifeLaw, ages_seconds: FloatArray) -> FloatArray:
    """Return -ln P(life > age) at each age.

    ages_seconds: (n,) at least 0. Returns (n,). Sources: the closed forms, and scipy for the normal and gamma tails.
    """
    ages = np.asarray(ages_seconds, dtype=np.float64)
    if law.family in (LawFamily.EXPONENTIAL, LawFamily.WEIBULL):
        return np.asarray((ages / law.scale_seconds) ** (1.0 if law.family == LawFamily.EXPONENTIAL else law.shape))
    if law.family == LawFamily.FIXED:
        return np.where(ages < law.scale_seconds, 0.0, np.inf)
    if law.family == LawFamily.EMPIRICAL:
        rows, hazards = hazard_table(law)
        inside = np.interp(ages, rows, hazards)
        return np.asarray(np.where(ages > rows[-1], hazards[-1] + (ages - rows[-1]) / law.scale_seconds, inside))
    from scipy.special import gammaincc, log_ndtr  # not at the top: a caller that only reads types does without scipy

    with np.errstate(divide="ignore"):
        if law.family == LawFamily.LOGNORMAL:
            return np.asarray(-log_ndtr(-np.log(ages / law.scale_seconds) / law.shape))
        return np.asarray(-np.log(gammaincc(law.shape, ages / law.scale_seconds)))


def hazard_table(law: LifeLaw) -> tuple[FloatArray, FloatArray]:
    """Return (rows,) ages in seconds and (rows,) cumulative hazards of a law in `TABLED`, both from 0; linear between the rows."""
    if law.family == LawFamily.EMPIRICAL:
        return np.array([0.0, *law.ages_seconds]), np.array([0.0, *law.hazards])
    first, last = _ends(law)
    last = min(last, MAX_AGE_SECONDS)  # a wide law's last row may lie 1e40 s away, and none would be left for ages that matter
    ages = np.concatenate([[0.0], np.geomspace(min(max(first, last * TABLE_SPAN), last / 10.0), last, TABLE_ROWS - 1)])
    return ages, np.maximum.accumulate(np.maximum(cumulative_hazard(law, ages), 0.0))


def _ends(law: LifeLaw) -> tuple[float, float]:
    """Ages of the table's first and last row, in seconds."""
    from scipy.special import gammainccinv, gammaincinv, ndtri

    if law.family == LawFamily.LOGNORMAL:
        low, high = float(ndtri(MIN_PROBABILITY)), -float(ndtri(math.exp(-MAX_HAZARD)))
        return law.scale_seconds * math.exp(law.shape * low), law.scale_seconds * math.exp(law.shape * high)
    low, high = float(gammaincinv(law.shape, MIN_PROBABILITY)), float(gammainccinv(law.shape, math.exp(-MAX_HAZARD)))
    return law.scale_seconds * low, law.scale_seconds * high


def tail_mean_seconds(law: LifeLaw) -> float:
    """Return the mean life that is left beyond the last row of a law's table."""
    if law.family == LawFamily.EMPIRICAL:
        return min(law.scale_seconds, NEVER_SECONDS)
    ages, hazards = hazard_table(law)
    rise = float(hazards[-1] - hazards[-2])
    return min(float(ages[-1] - ages[-2]) / rise, NEVER_SECONDS) if rise > 0.0 else NEVER_SECONDS
