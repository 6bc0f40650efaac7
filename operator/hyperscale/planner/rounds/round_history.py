"""The work that is left of a job, expected from what ended jobs of its kind had done. Pure.

Each ended job of the kind stands for a log-normal of its work, and one unknown job for a Lomax distribution. The expectation is the mean
residual life of their mixture, given the work that the job has done. Without ended jobs it is `prior + growth * attained`, the
mean residual life of the Lomax distribution alone (Balkema and de Haan 1974).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

SPREAD: Final = 0.15
"""Standard deviation of the logarithm of the work of jobs that are alike."""


def expected_left(ended: Sequence[float], attained: float, prior: float, growth: float) -> float:
    """Work that is left of a job that has done `attained`, in the same unit.

    ended:  work of the ended jobs of its kind, each above 0
    prior:  work left of a job that has done nothing, without history; growth: how much longer it is for each unit done, above 0
    """
    shape = 1.0 + 1.0 / growth
    weights = [math.pow(1.0 + attained * growth / prior, -shape)]
    means = [prior + growth * attained]
    for work in ended:
        weight, mean = _residual(work, attained)
        weights.append(weight)
        means.append(mean)
    total = sum(weights)
    if total <= 0.0:  # beyond what floats can tell
        return means[0]
    return sum(weight * mean for weight, mean in zip(weights, means, strict=True)) / total


def _residual(work: float, attained: float) -> tuple[float, float]:
    """Chance that a job like one of `work` does more than `attained`, and the mean of what it then still does."""
    centre = work * math.exp(SPREAD**2 / 2)
    share = attained / work
    if share <= 0.0:
        return 1.0, centre
    distance = math.log(share) / SPREAD
    chance = _above(distance)
    if chance <= 0.0:
        return 0.0, 0.0
    return chance, max(centre * _above(distance - SPREAD) / chance - attained, 0.0)


def _above(distance: float) -> float:
    """Chance of a standard normal above `distance`."""
    return 0.5 * math.erfc(distance / math.sqrt(2.0))
