"""Exact bounds of a proportion from successes and trials (Clopper and Pearson 1934): true as often as they say, at any number of trials."""

from __future__ import annotations

from typing import NamedTuple


class ProportionBounds(NamedTuple):
    """A proportion with its bounds, all from 0 to 1."""

    estimate: float
    """Successes / trials."""
    low: float
    high: float


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> ProportionBounds:
    """Return the exact two-sided bounds: each side leaves out at most (1 - confidence) / 2.

    Raises ValueError for trials below 1, successes outside 0..trials, or a confidence outside (0, 1).
    """
    _check(successes, trials, confidence)
    one_sided = (1.0 + confidence) / 2.0
    return ProportionBounds(successes / trials, lower_bound(successes, trials, one_sided), upper_bound(successes, trials, one_sided))


def lower_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the exact one-sided lower bound: the proportion is above it with this confidence. Raises ValueError as `clopper_pearson`."""
    from scipy.special import betaincinv

    _check(successes, trials, confidence)
    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, 1.0 - confidence))


def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the exact one-sided upper bound: the proportion is below it with this confidence. Raises ValueError as `clopper_pearson`."""
    from scipy.special import betaincinv

    _check(successes, trials, confidence)
    return 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, confidence))


def _check(successes: int, trials: int, confidence: float) -> None:
    if trials < 1:
        raise ValueError(f"{trials} trials: a proportion needs at least 1")
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials: give a number from 0 to {trials}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence}: give a number between 0 and 1, e.g. 0.95")
