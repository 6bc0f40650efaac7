"""One figure from many readings: the median of a window, given up at once when several readings agree on a new level. Pure."""

from __future__ import annotations

import math
import statistics
from collections import deque


class Smoother:
    """Median of the last `window` readings.

    `agreeing` readings in a row that lie on the same side of the median, each further from it than `change_ratio`, and that agree among
    themselves within the same ratio, are a new level: what was before no longer counts. One outlier never moves the figure far, a link
    that was altered is seen after `agreeing` readings.
    """

    def __init__(self, window: int, agreeing: int, change_ratio: float) -> None:
        """window, agreeing: counts of readings; change_ratio: e.g. 0.15 for 15 %."""
        self._readings: deque[float] = deque(maxlen=window)
        self._agreeing = agreeing
        self._limit = math.log1p(change_ratio)

    @property
    def value(self) -> float | None:
        """The figure; None before the first reading."""
        return statistics.median(self._readings) if self._readings else None

    @property
    def count(self) -> int:
        """Readings that the figure rests on."""
        return len(self._readings)

    def add(self, reading: float) -> bool:
        """Take one reading in; True when it disagrees with the figure so far: worth another look soon. Ignores what is no figure."""
        if not (math.isfinite(reading) and reading > 0):
            return False
        before = self.value
        self._readings.append(reading)
        if before is None:
            return True
        if self._new_level(before):
            latest = list(self._readings)[-self._agreeing :]
            self._readings.clear()
            self._readings.extend(latest)
            return False
        return abs(math.log(reading / before)) > self._limit

    def _new_level(self, before: float) -> bool:
        latest = [math.log(reading / before) for reading in list(self._readings)[-self._agreeing :]]
        if len(latest) < self._agreeing:
            return False
        one_side = min(latest) > self._limit or max(latest) < -self._limit
        return one_side and max(latest) - min(latest) <= self._limit
