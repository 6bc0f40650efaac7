"""Which GPUs and links have series that changed since the last reading, compared as arrays. Pure; for one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.columns import Column, Floats, Labels, column, differing, taken

AGE_SECONDS: Final = 15.0
"""One usual interval of scrapes."""

Unit = tuple[str, str] | None
"""What a series is judged with: node and GPU, or a pair of nodes; None where it leads to neither."""
UnitOf = Callable[[Labels], Unit]


class SeriesRows:
    """The units that the n series of a column describe. Figures of the same series share one object."""

    def __init__(self, labels: tuple[Labels, ...], units: Sequence[Unit]) -> None:
        self.labels = labels
        self.units = tuple(dict.fromkeys(units))
        number = {unit: at for at, unit in enumerate(self.units)}
        self.codes = np.fromiter(map(number.__getitem__, units), np.int32, len(units))
        """(n,) place of each series' unit in `units`."""

    def unit(self, row: int) -> Unit:
        """The unit that one series describes."""
        return self.units[int(self.codes[row])]

    def named(self, rows: NDArray[np.bool_]) -> set[Unit]:
        """The units that these series describe; rows: (n,)."""
        return {self.units[code] for code in np.unique(self.codes[rows]).tolist()}

    def of(self, wanted: set[Unit]) -> NDArray[np.int64]:
        """Rows of the series of these units."""
        chosen = np.fromiter((unit in wanted for unit in self.units), np.bool_, len(self.units))
        return np.flatnonzero(chosen[self.codes])

    def follows(self, labels: tuple[Labels, ...]) -> bool:
        """Whether these are the same series in the same order; quick where label sets are the same objects from reading to reading."""
        return labels == self.labels

    def origin(self, labels: tuple[Labels, ...]) -> NDArray[np.int64]:
        """(m,) the row in which each label set stands here; -1 for new ones and for those that stand here or there twice."""
        rows = {each: row for row, each in enumerate(self.labels)}
        origin = np.fromiter((rows.get(each, -1) for each in labels), np.int64, len(labels))
        if len(rows) < len(self.labels):
            counts = Counter(self.labels)
            twice = np.fromiter((counts[each] > 1 for each in labels), np.bool_, len(labels))
            origin[twice] = -1
        there, several = np.unique(origin, return_counts=True)
        origin[np.isin(origin, there[several > 1])] = -1
        return origin


class _Judged:
    """One figure's series as last judged."""

    def __init__(self, rows: SeriesRows, series: Column, ages: Floats) -> None:
        self.rows, self.series, self.ages = rows, series, ages


class _Turned(NamedTuple):
    """Rows of some label sets, and where each stood before."""

    before: SeriesRows
    rows: SeriesRows
    origin: NDArray[np.int64]


class ChangedSeries:
    """The figures of one kind of unit, reading after reading."""

    def __init__(self, figures: Iterable[str]) -> None:
        self._figures = tuple(figures)
        self._judged: dict[str, _Judged] = {}
        self._turned: list[_Turned] = []

    def forget(self) -> None:
        """All series are new again."""
        self._judged = {}

    @property
    def units(self) -> set[Unit]:
        """All units that any series describes."""
        return {unit for kind in self.kinds() for unit in kind.units}

    def kinds(self) -> list[SeriesRows]:
        """The different rows of all figures."""
        return list(dict.fromkeys(judged.rows for judged in self._judged.values()))

    def see(self, reading: MetricsReading, unit_of: UnitOf) -> tuple[set[Unit], bool]:
        """Take in a reading: the units of which something changed, or that have a series more or less; whether any series came or went."""
        changed: set[Unit] = set()
        reshaped = False
        for figure in self._figures:
            series, judged = column(reading.series.get(figure, ())), self._judged.get(figure)
            if judged is not None and judged.rows.follows(series.labels):
                changed |= self._aligned(judged, series, reading.taken_at)
            else:
                reshaped = True
                changed |= self._reshaped(figure, judged, series, unit_of, reading.taken_at)
        self._turned = []
        return changed, reshaped

    def _aligned(self, judged: _Judged, series: Column, moment: float) -> set[Unit]:
        """The same series: takes over the new values of all of them, and of those that changed the age."""
        ages = moment - series.timestamps
        changed = differing(series, judged.series) | ~(np.abs(ages - judged.ages) <= AGE_SECONDS)
        judged.series, judged.ages = series, np.where(changed, ages, judged.ages)
        return judged.rows.named(changed)

    def _reshaped(self, figure: str, judged: _Judged | None, series: Column, unit_of: UnitOf, moment: float) -> set[Unit]:
        """Series came, went or changed places: those that are still there are compared with their last values."""
        before = judged.rows if judged is not None else _NO_ROWS
        _, rows, origin = self._turn(before, series.labels, unit_of)
        ages = moment - series.timestamps
        changed = np.ones(len(series), dtype=np.bool_)
        gone = np.ones(len(before.labels), dtype=np.bool_)
        if judged is not None and (here := np.flatnonzero(origin >= 0)).size:
            there = origin[here]
            gone[there] = False
            same_age = np.abs(ages[here] - judged.ages[there]) <= AGE_SECONDS
            changed[here] = differing(taken(series, here), taken(judged.series, there)) | ~same_age
            ages[here] = np.where(changed[here], ages[here], judged.ages[there])
        self._judged[figure] = _Judged(rows, series, ages)
        return rows.named(changed) | before.named(gone)

    def _turn(self, before: SeriesRows, labels: tuple[Labels, ...], unit_of: UnitOf) -> _Turned:
        """Rows of these label sets; worked out once for all figures of the same series."""
        for turned in self._turned:
            if turned.before is before and turned.rows.follows(labels):
                return turned
        origin = before.origin(labels)
        units = [before.unit(row) if row >= 0 else unit_of(one) for one, row in zip(labels, origin.tolist(), strict=True)]
        self._turned.append(_Turned(before, SeriesRows(labels, units), origin))
        return self._turned[-1]

    def series_of(self, wanted: set[Unit]) -> dict[Unit, list[tuple[str, Series]]]:
        """Series by unit, each with its figure, of the wanted units."""
        by_unit: dict[Unit, list[tuple[str, Series]]] = {}
        rows_of = {kind: kind.of(wanted) for kind in self.kinds()}
        for figure, judged in self._judged.items():
            rows = rows_of[judged.rows]
            for row, one in zip(rows.tolist(), taken(judged.series, rows), strict=True):
                by_unit.setdefault(judged.rows.unit(row), []).append((figure, one))
        return by_unit


_NO_ROWS: Final = SeriesRows((), ())


def part(
    reading: MetricsReading, by_unit: Mapping[Unit, list[tuple[str, Series]]], units: Iterable[Unit], figures: frozenset[str]
) -> MetricsReading | None:
    """The reading with only the series of these units, and all of other than the `figures`; None when there are none of the former."""
    chosen: dict[str, list[Series]] = {}
    for unit in units:
        for figure, one in by_unit.get(unit, ()):
            chosen.setdefault(figure, []).append(one)
    if not chosen:
        return None
    others = {name: series for name, series in reading.series.items() if name not in figures}
    return MetricsReading(reading.taken_at, reading.state, {**others, **{figure: tuple(series) for figure, series in chosen.items()}})
