"""When series were scraped, told once a scrape target instead of once a series. Pure.

An instant query stamps every value with the moment of evaluation; `timestamp(Q)` tells when each was scraped, in an answer as long as
that to Q itself. All series of one scrape have its time, unless their exporter sets times of its own. So Prometheus is asked for
the time of every target of which the newest and the oldest series agree: that is then the time of each of them, whatever set it
and whatever expression Q is. Where some target is missing in the answer, the series are asked for one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hyperscale.observe.prometheus.vector import Floats, SeriesShape, Vector

TARGET_LABELS: Final = ("instance", "job")
LEAST_SERIES: Final = 1000
"""Fewer are asked for one by one at once: that costs less than a second question."""

Target = tuple[str, ...]


def target_query(query: str) -> str:
    """PromQL for the time of every target whose series of `query` all have the same."""
    oldest, newest = (f"{function} by ({', '.join(TARGET_LABELS)}) (timestamp({query}))" for function in ("min", "max"))
    return f"{newest} == {oldest}"


class TargetTimes:
    """Times of series by the times of their targets; remembers which target a series belongs to. Not for two threads at once."""

    def __init__(self) -> None:
        self._rows: tuple[SeriesShape, SeriesShape, NDArray[np.int64]] | None = None

    def of(self, series: SeriesShape, answer: Vector) -> Floats | None:
        """(n,) Unix seconds of every series; None where the answer has no time for some."""
        if self._rows is None or self._rows[0] is not series or self._rows[1] is not answer.shape:
            self._rows = series, answer.shape, _rows(series, answer.shape)
        rows = self._rows[2]
        if (rows < 0).any():
            return None
        return answer.values[rows]


def _rows(series: SeriesShape, targets: SeriesShape) -> NDArray[np.int64]:
    """(n,) the row of each series' target; -1 where it is not there, or there twice."""
    row_of: dict[Target, int] = {}
    for row, labels in enumerate(targets.labels):
        if labels.keys() <= set(TARGET_LABELS):
            target = tuple(labels.get(key, "") for key in TARGET_LABELS)
            row_of[target] = -1 if target in row_of else row
    return np.fromiter((row_of.get(tuple(labels.get(key, "") for key in TARGET_LABELS), -1) for labels in series.labels), np.int64)
