"""How unlike all finished runs a planned run is: standardised vectors of (cluster graph, workload), distance to the nearest neighbours.

Exact neighbours by brute force: one question against 100,000 runs is one pass over 2.4 million numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun
from hyperscale.model.graph import FloatArray, IntArray

LABELS: Final = (("architecture", 3.0), ("system", 3.0), ("gpu_product", 1.5))
"""Names in the distance, and how many standard deviations of a figure a different name counts."""

FIGURES: Final = (
    "vertices",
    "edges",
    "feature_size",
    "hidden_size",
    "layers",
    "batch_size",
    "fanout",
    "degree_skew",
    "cut_share",
    "flops_per_second",
    "inside_bytes_per_second",
    "between_bytes_per_second",
    "latency_seconds",
)
"""Figures of `RunFeatures` in the distance, by their logarithms."""

UNKNOWN_GAP: Final = 1.0
"""Standard deviations between a stated figure and one that is not stated."""

MIN_SPREAD: Final = 0.25
"""Of ln(figure): runs that differ by less are alike, however equal the others are."""

MAX_GAP: Final = 4.0
"""Standard deviations that one figure counts at most: beyond, a single figure would hide all others."""

REPEAT_DISTANCE: Final = 2**0.5
"""Distance in units of `MIN_SPREAD` up to which a run repeats another one: two figures that are measured each time differ by `MIN_SPREAD`.

A repeat is like the other run, however equal all finished ones are. Another GPU product or architecture is no repeat.
"""

USUAL_PART: Final = 0.99
"""Of finished runs whose nearest other run is within distance 1."""

MIN_RUNS: Final = 5
"""Finished runs below which no usual distance exists."""

MAX_COMPARED: Final = 500
"""Finished runs whose nearest neighbours give the usual distance, spread evenly over the history."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The finished run nearest to a question."""

    index: int | None
    """Into the runs of the index; None without any."""
    distance: float
    """In units of the usual distance between neighbours; +inf without any run."""

    @property
    def unlike(self) -> bool:
        """True where the question is farther from all runs than they are from each other."""
        return self.distance > 1.0


class NoveltyIndex:
    """Finished runs as standardised vectors, for exact nearest neighbours."""

    def __init__(self, runs: Sequence[ForecastRun | ForecastQuestion]) -> None:
        self._figures, self._labels = vectors(runs)
        self._spread = _spreads(self._figures)
        self._least_spread = np.full(self._figures.shape[1], MIN_SPREAD)
        self._usual = 1.0
        if len(runs) >= MIN_RUNS:
            drawn = np.unique(np.linspace(0, len(runs) - 1, min(len(runs), MAX_COMPARED)).astype(np.int64)).tolist()
            nearest = [float(self.raw(self._figures[row], list(self._labels[row]), leave_out=row).min()) for row in drawn]
            self._usual = max(float(np.quantile(nearest, USUAL_PART, method="higher")), MIN_SPREAD)

    def raw(self, figures: FloatArray, labels: Sequence[str], leave_out: int | None = None, spread: FloatArray | None = None) -> FloatArray:
        """(n,) standardised distances of one vector to all runs; +inf to the run `leave_out`.

        figures: (f,) logarithms, NaN for unknown
        labels:  (l,) names in the order of `LABELS`
        spread:  (f,) of each figure; None takes those of the runs
        """
        gaps = np.minimum(np.abs(self._figures - figures) / (self._spread if spread is None else spread), MAX_GAP)
        unknown = np.isnan(self._figures) ^ np.isnan(figures)
        gaps = np.where(unknown, UNKNOWN_GAP, np.nan_to_num(gaps, nan=0.0))
        squares = np.einsum("nf,nf->n", gaps, gaps)
        for column, (_, weight) in enumerate(LABELS):
            squares += weight**2 * (self._labels[:, column] != labels[column])
        if leave_out is not None:
            squares[leave_out] = np.inf
        distances: FloatArray = np.sqrt(squares)
        return distances

    def scaled(self, figures: FloatArray, labels: Sequence[str], leave_out: int | None = None) -> FloatArray:
        """(n,) distances as `raw`, in units of the usual distance; at most 1 to the runs that the vector repeats."""
        usual = self.raw(figures, labels, leave_out) / self._usual
        if self._usual >= REPEAT_DISTANCE:
            return usual  # no spread is below MIN_SPREAD, so that repeats are near enough
        return np.minimum(usual, self.raw(figures, labels, leave_out, self._least_spread) / REPEAT_DISTANCE)

    def nearest(self, question: ForecastRun | ForecastQuestion, count: int = 1, leave_out: int | None = None) -> list[Neighbour]:
        """The `count` nearest runs, nearest first, equals in the order of the runs; one Neighbour without index where there is none."""
        if not len(self._figures):
            return [Neighbour(None, float("inf"))]
        figures, labels = vectors([question])
        distances = self.scaled(figures[0], list(labels[0]), leave_out)
        order: IntArray = np.argsort(distances, kind="stable")[:count]
        return [Neighbour(int(index), float(distances[index])) for index in order if np.isfinite(distances[index])] or [
            Neighbour(None, float("inf"))
        ]

    def between(self) -> FloatArray:
        """(n, n) distances between the runs, 0 on the diagonal, in units of the usual distance."""
        rows = [self.scaled(self._figures[row], list(self._labels[row])) for row in range(len(self._figures))]
        return np.array(rows).reshape(len(rows), len(rows))

    def differing(self, question: ForecastRun | ForecastQuestion, index: int, count: int = 3) -> tuple[str, ...]:
        """Return the names and figures by which `question` is farthest from the finished run `index`, the farthest first, for people."""
        figures, labels = vectors([question])
        gaps = np.abs(self._figures[index] - figures[0]) / self._spread
        unknown = np.isnan(self._figures[index]) ^ np.isnan(figures[0])
        apart = np.where(unknown, UNKNOWN_GAP, np.nan_to_num(np.minimum(gaps, MAX_GAP), nan=0.0)).tolist()
        named = dict(zip((*FIGURES, "ranks", "hosts", "predicted_seconds"), apart, strict=True))
        named |= {name: weight for column, (name, weight) in enumerate(LABELS) if self._labels[index, column] != labels[0, column]}
        farthest = sorted((-gap, name) for name, gap in named.items() if gap >= UNKNOWN_GAP)
        return tuple(name.replace("_", " ") for _, name in farthest[:count])

    def distances(self, questions: Sequence[ForecastRun | ForecastQuestion]) -> FloatArray:
        """(q,) distance of each question to its nearest run."""
        return np.array([self.nearest(question)[0].distance for question in questions])


def vectors(runs: Sequence[ForecastRun | ForecastQuestion]) -> tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.str_]]]:
    """(n, f) logarithms of the figures of each run, NaN for unknown, and (n, l) its names."""
    rows = [[*(getattr(run.features, name) for name in FIGURES), float(run.ranks), float(run.hosts), run.physical_seconds] for run in runs]
    figures = np.array(rows, dtype=np.float64).reshape(len(rows), len(FIGURES) + 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(figures)
    logarithms[~np.isfinite(logarithms)] = np.nan
    names = [[getattr(run.features, name) for name, _ in LABELS] for run in runs]
    return logarithms, np.array(names, dtype=np.str_).reshape(len(names), len(LABELS))


def _spreads(figures: FloatArray) -> FloatArray:
    """(f,) standard deviation of each figure over the runs that state it, never below `MIN_SPREAD`."""
    stated = np.isfinite(figures)
    count = np.maximum(stated.sum(axis=0), 1)
    values = np.where(stated, figures, 0.0)
    mean = values.sum(axis=0) / count
    variance = (np.where(stated, figures - mean, 0.0) ** 2).sum(axis=0) / count
    spreads: FloatArray = np.maximum(np.sqrt(variance), MIN_SPREAD)
    return spreads
