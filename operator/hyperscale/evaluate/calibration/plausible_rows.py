"""Which finished runs of other namespaces teach the forecast of one: what a run reports of itself is no proof.

Without numpy: the operator itself reads this module.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hyperscale.evaluate.calibration.lessons import ForecastRow

LEAST_RADIUS: Final = math.log(20.0)
DEVIATIONS: Final = 6.0
SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
LEAST_OWN: Final = 5
"""Own runs that say what is usual."""
LEAST_NAMESPACES: Final = 3
"""Namespaces whose medians say what is usual; of two the prediction is the third, so that neither decides. One alone does."""
AS_PREDICTED: Final = 0.0
"""ln(measured / predicted)."""
MOST_VOTES: Final = 5
"""Of a namespace, one for each of its runs: a flood counts no more than a few runs, and one run less than many."""


def plausible(rows: Sequence[ForecastRow], namespace: str) -> tuple[ForecastRow, ...]:
    """Return rows without those of other namespaces whose ln(measured / predicted) is far from what is usual.

    Far is more than ln 20, and than six standard deviations by the median absolute deviation (Hampel 1974).
    Usual is what the namespace's own runs say, else its neighbours' together. Its own rows all stay.
    """
    errors = [math.log(row.measured_seconds / row.physical_seconds) for row in rows]
    owners = [row.run.partition("/")[0] for row in rows]
    usual = _usual(errors, owners, namespace)
    if not usual:
        return tuple(rows)
    middle = statistics.median(usual)
    radius = max(LEAST_RADIUS, DEVIATIONS * SAME_AS_SIGMA * statistics.median(abs(error - middle) for error in usual))
    return tuple(row for row, error, owner in zip(rows, errors, owners, strict=True) if owner == namespace or abs(error - middle) <= radius)


def _usual(errors: Sequence[float], owners: Sequence[str], namespace: str) -> list[float]:
    """The errors that the others are compared with."""
    by_owner: dict[str, list[float]] = {}
    for error, owner in zip(errors, owners, strict=True):
        by_owner.setdefault(owner, []).append(error)
    if len(own := by_owner.get(namespace, [])) >= LEAST_OWN:
        return own
    if len(by_owner) <= 1:
        return list(errors)
    votes = [middle for each in by_owner.values() for middle in [statistics.median(each)] * min(len(each), MOST_VOTES)]
    return votes if len(by_owner) >= LEAST_NAMESPACES else [*votes, *[AS_PREDICTED] * MOST_VOTES]
