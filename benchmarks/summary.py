"""Rows of several seeds as one line each, with an interval; the same lines as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from benchmarks.common import Row, percentile, table

RESAMPLES: Final = 2000
HEADER: Final = ("case", "method", "metric", "n", "mean", "95 % interval", "median", "p95", "worst", "unit")
GOAL_HEADER: Final = ("goal", "method", "value", "limit", "unit", "holds")
RUN_METRICS: Final = ("command", "machine")


class Line(NamedTuple):
    """One figure over all its seeds."""

    benchmark: str
    case: str
    method: str
    metric: str
    unit: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """+inf where a value is."""
        return sum(self.values) / len(self.values)

    def interval(self) -> tuple[float, float] | None:
        """95 % percentile bootstrap of the mean with a fixed seed; None for fewer than three finite values."""
        finite = [value for value in self.values if math.isfinite(value)]
        if len(finite) < 3 or len(finite) < len(self.values) or len(set(finite)) == 1:
            return None
        rng = np.random.default_rng(len(finite))
        drawn = np.array(finite)[rng.integers(len(finite), size=(RESAMPLES, len(finite)))].mean(axis=1)
        return float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))

    def cells(self) -> list[str]:
        """As HEADER."""
        interval = self.interval()
        several = len(self.values) > 1
        return [
            self.case,
            self.method,
            self.metric,
            str(len(self.values)),
            figure(self.mean),
            f"{figure(interval[0])} – {figure(interval[1])}" if interval else "",
            figure(percentile(self.values, 0.5)) if several else "",
            figure(percentile(self.values, 0.95)) if several else "",
            figure(max(self.values)) if several else "",
            self.unit,
        ]


def lines(rows: Iterable[Row]) -> list[Line]:
    """Figures (no goals, no run data) grouped over seeds; cases in order of first appearance, and so are the figures of a case."""
    groups: dict[tuple[str, str, str, str, str], list[float]] = {}
    for row in rows:
        if row.metric != "goal" and row.metric not in RUN_METRICS:
            groups.setdefault((row.benchmark, row.case, row.method, row.metric, row.unit), []).append(row.value)
    cases = {case: at for at, case in enumerate(dict.fromkeys(key[:2] for key in groups))}
    return [Line(*key, tuple(groups[key])) for key in sorted(groups, key=lambda key: cases[key[:2]])]


def text(rows: Sequence[Row]) -> str:
    """Tables for a terminal: figures, then goals."""
    parts = []
    found = [line.cells() for line in lines(rows)]
    if found:
        parts.append(table(HEADER, found))
    goals = [goal_cells(row) for row in rows if row.metric == "goal"]
    if goals:
        parts.append(table(GOAL_HEADER, goals))
    return "\n\n".join(parts)


def markdown(header: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns that are empty throughout are left out."""
    body = list(cells)
    shown = [column for column in range(len(header)) if any(line[column] for line in body)]

    def line(parts: Sequence[str]) -> str:
        return "| " + " | ".join(parts[column].replace("|", "\\|") for column in shown) + " |"

    return "\n".join([line(header), "|" + "---|" * len(shown), *map(line, body)])


def goal_cells(row: Row) -> list[str]:
    """As GOAL_HEADER."""
    limit = "" if row.limit is None else figure(row.limit)
    return [row.case, row.method, figure(row.value), limit, row.unit, "yes" if row.holds else "**NO**"]


def figure(value: float) -> str:
    """Four digits that a person can read."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}"
