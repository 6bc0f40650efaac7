"""Series of the last reading, by which the next answer is read, and when they were scraped, told once a scrape target. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hyperscale.observe.prometheus.vector import EMPTY, Floats, LabelSets, SeriesShape, Vector

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


_TARGETS: Final = "targets of "


class KnownSeries:
    """Shapes of the last answers by figure. Not for two threads at once."""

    def __init__(self, kept_labels: frozenset[str]) -> None:
        self.sets = LabelSets(kept_labels)
        self._shapes: dict[str, SeriesShape] = {}
        self._renewed: dict[SeriesShape, SeriesShape] = {}
        """What replaced a shape of the last reading in this one: the figures of one exporter change alike."""
        self._newest: dict[bool, SeriesShape] = {}
        self._times: dict[str, TargetTimes] = {}

    def expected(self, figure: str, *, of_targets: bool = False) -> SeriesShape:
        """What the answer to a figure's query probably has; to that for the times of its targets."""
        last = self._shapes.get(_TARGETS + figure if of_targets else figure)
        if last is None:
            return self._newest.get(of_targets, EMPTY)
        return self._renewed.get(last, last)

    def keep(self, figure: str, shape: SeriesShape, *, of_targets: bool = False) -> None:
        """What the answer had."""
        name = _TARGETS + figure if of_targets else figure
        before = self._shapes.get(name)
        if before is not None and before is not shape:
            self._renewed.setdefault(before, shape)
        self._shapes[name] = shape
        if shape.identities:
            self._newest[of_targets] = shape

    def times(self, figure: str, vector: Vector, answer: Vector) -> Floats | None:
        """(n,) when every series of a figure was scraped, by the times of its targets; None where that is not told of all."""
        self.keep(figure, answer.shape, of_targets=True)
        return self._times.setdefault(figure, TargetTimes()).of(vector.shape, answer)

    def sweep(self, figures: Iterable[str]) -> None:
        """After a reading of these figures: what it did not find is forgotten."""
        asked = {name for figure in figures for name in (figure, _TARGETS + figure)}
        self._shapes = {name: shape for name, shape in self._shapes.items() if name in asked}
        self._times = {name: times for name, times in self._times.items() if name in asked}
        self._renewed, self._newest = {}, {}
        self.sets.sweep(self._shapes.values())


def one_by_one(vector: Vector, stamps: Vector) -> Floats:
    """(n,) when every series was scraped, by the answer to timestamp(Q); the moment of evaluation of those that it lacks."""
    if stamps.shape is vector.shape:
        return stamps.values
    rows = np.fromiter(map(stamps.shape.row, vector.shape.identities), np.int64)
    return np.where(rows >= 0, stamps.values[rows] if len(stamps.values) else 0.0, vector.evaluated)
