"""Which GPUs and links the series of a reading say something new of, compared as arrays with the reading before. Pure; for one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Final

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
    """Whom the n series of a column speak of. Figures of the same series share one."""

    def __init__(self, labels: tuple[Labels, ...], units: Sequence[Unit]) -> None:
        self.labels = labels
        self.units = tuple(dict.fromkeys(units))
        number = {unit: at for at, unit in enumerate(self.units)}
        self.codes = np.fromiter(map(number.__getitem__, units), np.int32, len(units))
        """(n,) place of each series' unit in `units`."""

    def unit(self, row: int) -> Unit:
        """Whom one series speaks of."""
        return self.units[int(self.codes[row])]

    def named(self, rows: NDArray[np.bool_]) -> set[Unit]:
        """(n,) Whom these series speak of."""
        return {self.units[code] for code in np.unique(self.codes[rows]).tolist()}

    def of(self, wanted: set[Unit]) -> NDArray[np.int64]:
        """Rows of the series of these units."""
        chosen = np.fromiter((unit in wanted for unit in self.units), np.bool_, len(self.units))
        return np.flatnonzero(chosen[self.codes])

    def follows(self, labels: tuple[Labels, ...]) -> bool:
        """Whether they are the same series in the same order: label sets are the same objects from reading to reading."""
        return labels is self.labels or (len(labels) == len(self.labels) and all(map(is_, labels, self.labels)))

    def origin(self, labels: tuple[Labels, ...]) -> NDArray[np.int64]:
        """(m,) the row in which each label set stands here, -1 for new ones."""
        rows = {id(known): row for row, known in enumerate(self.labels)}
        if len(rows) < len(self.labels):  # one object twice: nothing is the same for sure
            return np.full(len(labels), -1)
        return np.fromiter((rows.get(id(one), -1) for one in labels), np.int64, len(labels))


class _Known:
    """One figure's series as last judged."""

    def __init__(self, rows: SeriesRows, series: Column, ages: Floats) -> None:
        self.rows, self.series, self.ages = rows, series, ages


class ChangedSeries:
    """The figures of one kind of unit, reading after reading."""

    def __init__(self, figures: Iterable[str]) -> None:
        self._figures = tuple(figures)
        self._known: dict[str, _Known] = {}
        self._turned: dict[tuple[int, int], tuple[SeriesRows, SeriesRows, NDArray[np.int64]]] = {}

    def forget(self) -> None:
        """All series are new again."""
        self._known = {}

    @property
    def units(self) -> set[Unit]:
        """Whom any series speaks of."""
        return {unit for kind in self.kinds() for unit in kind.units}

    def kinds(self) -> list[SeriesRows]:
        """The different rows of all figures."""
        return list({id(known.rows): known.rows for known in self._known.values()}.values())

    def see(self, reading: MetricsReading, unit_of: UnitOf) -> tuple[set[Unit], bool]:
        """Take in a reading: the units of which something changed, or that have a series more or less; whether any series came or went."""
        moved: set[Unit] = set()
        reshaped = False
        for figure in self._figures:
            series, known = column(reading.series.get(figure, ())), self._known.get(figure)
            if known is not None and known.rows.follows(series.labels):
                moved |= self._aligned(known, series, reading.taken_at)
            else:
                reshaped = True
                moved |= self._reshaped(figure, known, series, unit_of, reading.taken_at)
        self._turned = {}
        return moved, reshaped

    def _aligned(self, known: _Known, series: Column, moment: float) -> set[Unit]:
        """The same series: takes over the new values of all of them, and of those that moved the age."""
        ages = moment - series.timestamps
        changed = differing(series, known.series) | ~(np.abs(ages - known.ages) <= AGE_SECONDS)
        known.series, known.ages = series, np.where(changed, ages, known.ages)
        return known.rows.named(changed)

    def _reshaped(self, figure: str, known: _Known | None, series: Column, unit_of: UnitOf, moment: float) -> set[Unit]:
        """Series came, went or moved: those that are still there are compared as ever."""
        before = known.rows if known is not None else SeriesRows((), ())
        rows, origin = self._turn(before, series.labels, unit_of)
        ages = moment - series.timestamps
        changed = np.ones(len(series), dtype=np.bool_)
        gone = np.ones(len(before.labels), dtype=np.bool_)
        if known is not None and (here := np.flatnonzero(origin >= 0)).size:
            there = origin[here]
            gone[there] = False
            same_age = np.abs(ages[here] - known.ages[there]) <= AGE_SECONDS
            changed[here] = differing(taken(series, here), taken(known.series, there)) | ~same_age
            ages[here] = np.where(changed[here], ages[here], known.ages[there])
        self._known[figure] = _Known(rows, series, ages)
        return rows.named(changed) | before.named(gone)

    def _turn(self, before: SeriesRows, labels: tuple[Labels, ...], unit_of: UnitOf) -> tuple[SeriesRows, NDArray[np.int64]]:
        """Rows of these label sets, and where each stood before; worked out once for all figures of the same series."""
        key = id(before) if before.labels else 0, id(labels)
        if key not in self._turned:
            origin = before.origin(labels)
            units = [before.unit(row) if row >= 0 else unit_of(one) for one, row in zip(labels, origin.tolist(), strict=True)]
            self._turned[key] = before, SeriesRows(labels, units), origin
        return self._turned[key][1:]

    def series_of(self, wanted: set[Unit]) -> dict[Unit, list[tuple[str, Series]]]:
        """Series by unit, each with its figure, of the wanted units."""
        found: dict[Unit, list[tuple[str, Series]]] = {}
        rows_of = {id(kind): kind.of(wanted) for kind in self.kinds()}
        for figure, known in self._known.items():
            rows = rows_of[id(known.rows)]
            for row, one in zip(rows.tolist(), taken(known.series, rows), strict=True):
                found.setdefault(known.rows.unit(row), []).append((figure, one))
        return found


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
    others = {name: found for name, found in reading.series.items() if name not in figures}
    return MetricsReading(reading.taken_at, reading.state, {**others, **{figure: tuple(found) for figure, found in chosen.items()}})
