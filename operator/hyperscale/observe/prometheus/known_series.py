"""What readings of Prometheus leave for the next one: which series came, in which order, and of which targets. No network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from hyperscale.observe.prometheus.targets import TargetTimes
from hyperscale.observe.prometheus.vector import EMPTY, Floats, LabelSets, SeriesShape, Vector

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
