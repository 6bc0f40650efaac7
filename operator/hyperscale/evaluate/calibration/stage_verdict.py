"""Whether a stage's intervals hold as often as they say: exact bounds of their coverage, and whether recent runs differ from earlier ones.

The question is asked at fixed numbers of runs alone, and the allowed chance of a wrong False is shared out among them. So the bounds
stay true however often the answer is read.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hyperscale.evaluate.calibration.stated_figure import SIGMAS_95
from hyperscale.evaluate.calibration.widening import ONE_SIGMA
from hyperscale.evaluate.statistics.binomial import ProportionBounds, clopper_pearson

LOOKS: Final = (20, 28, 40, 56, 80, 113, 160, 226, 320, 452, 640, 905)
"""Numbers of runs at which a stage is judged, a factor of about 1.41 apart."""
MAX_JUDGED: Final = 320
"""Newest runs at a look that count, so that a stage is not blamed for ever for what has been put right."""
WRONG_COVERAGE: Final = 0.03
"""Chance that a stage with true intervals is ever called too narrow or too wide."""
WRONG_DRIFT: Final = 0.02
"""Chance that a stage whose errors do not change is ever called drifting."""
CONFIDENCE: Final = 0.95
"""Of the bounds that confirm a coverage."""
TOLERANCE_68: Final = 0.10
TOLERANCE_95: Final = 0.05
"""Distance from the stated coverage that is still called true."""
STATED_95: Final = 0.95
RECENT_PART: Final = 3
"""A third of the runs are the recent ones."""
SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""


class CoverageVerdict(enum.StrEnum):
    """Whether intervals hold as often as they say; the words of a condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class VerdictReason(enum.StrEnum):
    """Why."""

    CALIBRATED = "Calibrated"
    TOO_NARROW = "TooNarrow"
    TOO_WIDE = "TooWide"
    DRIFTING = "Drifting"
    BOUNDS_OPEN = "BoundsOpen"
    """The bounds hold the stated coverage, and more than the tolerance."""
    TOO_FEW_RUNS = "TooFewRuns"


class Coverage(Struct, frozen=True, rename="camel"):
    """How many outcomes an interval held."""

    stated: float
    covered: int
    runs: int
    low: float
    """Exact bounds of the true coverage, at the confidence of this look."""
    high: float
    confirmed: bool
    """Exact bounds at `CONFIDENCE` lie within the tolerance of the stated coverage."""

    @property
    def excluded(self) -> int:
        """1: the true coverage is above the stated one, -1: below, 0: the bounds hold it."""
        return (self.low > self.stated) - (self.high < self.stated)


class StageVerdict(Struct, frozen=True, rename="camel"):
    """One stage, as its finished runs judge it."""

    stage: str
    verdict: CoverageVerdict
    reason: VerdictReason
    runs: int
    """Scored ones."""
    judged: int = 0
    """Newest of them at the last look; 0 before the first."""
    bias: float | None = None
    """Median error in stated deviations; above 0 outcomes were larger than stated."""
    spread: float | None = None
    """Robust deviation of the errors; 1 where they are as large as stated."""
    one_sigma: Coverage | None = None
    two_sigma: Coverage | None = None
    """Of the 95 % interval."""
    drift: float | None = None
    """Median error of the recent third less that of the others; None where the difference is no more than chance."""

    @property
    def trusted(self) -> bool:
        """False where the stage is to be left out of the score; intervals that are too wide deceive no one."""
        return self.verdict is not CoverageVerdict.FALSE or self.reason is VerdictReason.TOO_WIDE


def judge(stage: str, errors: Sequence[float], stages: int = 1, cut: bool = False) -> StageVerdict:
    """Return the verdict on a stage from errors of statements as they were made, oldest first.

    stages: judged together; the chance of a wrong False is shared by them. Raises ValueError for fewer than 1.
    cut: older runs were left out, so that the number of errors grows no more and its looks never come; the newest count at once.
    """
    if stages < 1:
        raise ValueError(f"{stages} stages: write 1 or more")
    look = max((count for count in LOOKS if count <= len(errors)), default=0)
    if look == 0:
        return StageVerdict(stage, CoverageVerdict.UNKNOWN, VerdictReason.TOO_FEW_RUNS, len(errors))
    judged = (errors if cut or look == LOOKS[-1] else errors[:look])[-MAX_JUDGED:]
    one, two = (
        _coverage(judged, sigmas, stated, tolerance, stages)
        for sigmas, stated, tolerance in ((1.0, ONE_SIGMA, TOLERANCE_68), (SIGMAS_95, STATED_95, TOLERANCE_95))
    )
    drift = drift_of(judged, WRONG_DRIFT / (len(LOOKS) * stages))
    verdict, reason = _verdict(one, two, drift)
    middle = statistics.median(judged)
    spread = SAME_AS_SIGMA * statistics.median(abs(error - middle) for error in judged)
    return StageVerdict(stage, verdict, reason, len(errors), len(judged), middle, spread, one, two, drift)


def _verdict(one: Coverage, two: Coverage, drift: float | None) -> tuple[CoverageVerdict, VerdictReason]:
    if min(one.excluded, two.excluded) < 0:
        return CoverageVerdict.FALSE, VerdictReason.TOO_NARROW
    if drift is not None:
        return CoverageVerdict.FALSE, VerdictReason.DRIFTING
    if max(one.excluded, two.excluded) > 0:
        return CoverageVerdict.FALSE, VerdictReason.TOO_WIDE
    if one.confirmed and two.confirmed:
        return CoverageVerdict.TRUE, VerdictReason.CALIBRATED
    return CoverageVerdict.UNKNOWN, VerdictReason.BOUNDS_OPEN


def _coverage(errors: Sequence[float], sigmas: float, stated: float, tolerance: float, stages: int) -> Coverage:
    covered, runs = sum(abs(error) <= sigmas for error in errors), len(errors)
    bounds = clopper_pearson(covered, runs, 1.0 - WRONG_COVERAGE / (2 * len(LOOKS) * stages))
    return Coverage(stated, covered, runs, bounds.low, bounds.high, _within(clopper_pearson(covered, runs, CONFIDENCE), stated, tolerance))


def _within(bounds: ProportionBounds, stated: float, tolerance: float) -> bool:
    return stated - tolerance <= bounds.low and bounds.high <= stated + tolerance


def drift_of(errors: Sequence[float], chance: float) -> float | None:
    """Return the change of the median error in the recent third; None where errors that do not change differ so with more than `chance`.

    Exact median tests (Mood 1950) of the errors and of their sizes; each has half of the chance.
    """
    recent = len(errors) // RECENT_PART
    if recent == 0:
        return None
    sizes = [abs(error - statistics.median(errors)) for error in errors]
    if min(_median_test(errors, recent), _median_test(sizes, recent)) >= chance / 2.0:
        return None
    return statistics.median(errors[-recent:]) - statistics.median(errors[:-recent])


def _median_test(values: Sequence[float], recent: int) -> float:
    """Two-sided p-value of the number of recent values above the common median; its distribution is hypergeometric."""
    middle = statistics.median(values)
    above = [value > middle for value in values]
    total, count, observed = len(values), sum(above), sum(above[-recent:])
    whole = math.comb(total, recent)
    ways = {each: math.comb(count, each) * math.comb(total - count, recent - each) for each in range(min(count, recent) + 1)}
    below = sum(number for each, number in ways.items() if each <= observed)
    over = sum(number for each, number in ways.items() if each >= observed)
    return min(1.0, 2 * min(below, over) / whole)
