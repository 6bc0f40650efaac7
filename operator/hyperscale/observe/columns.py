"""Many series of one figure as arrays: 40,000 of them are two arrays and a tuple of label sets instead of 120,000 objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from hyperscale.model.metrics_reading import Series, Verdict

Floats = NDArray[np.float64]
NO_FAULTS: Final[Mapping[int, str]] = {}
_PLAIN: Final = Verdict()
_FROZEN: Final = Verdict(frozen=True)
_value, _timestamp = attrgetter("value"), attrgetter("timestamp")


class Labels(dict[str, str]):
    """The labels of a series, hashed by content once: label sets are keys of many tables. Not to be changed."""

    __slots__ = ("_hash",)

    def __init__(self, labels: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(labels)
        self._hash = hash(frozenset(self.items()))

    def __hash__(self) -> int:  # type: ignore[override] # a dict has none, for it may change
        return self._hash


class Column(Sequence[Series]):
    """n series of one figure; reads like a tuple of them. Not to be changed.

    labels: label sets; the same tuple from reading to reading as long as the same series come in the same order
    values, timestamps: (n,) as in `Series`
    frozen, middles, confidences: (n,) the verdicts of all, NaN for no middle; None where no series has one
    faults: by row
    """

    __slots__ = ("confidences", "faults", "frozen", "labels", "middles", "timestamps", "values")

    def __init__(
        self,
        labels: tuple[Labels, ...],
        values: Floats,
        timestamps: Floats,
        *,
        frozen: NDArray[np.bool_] | None = None,
        middles: Floats | None = None,
        confidences: Floats | None = None,
        faults: Mapping[int, str] = NO_FAULTS,
    ) -> None:
        if any(len(array) != len(labels) for array in (values, timestamps, frozen, middles, confidences) if array is not None):
            raise ValueError("a column's arrays have one entry a series")
        self.labels, self.values, self.timestamps = labels, values, timestamps
        self.frozen, self.middles, self.confidences, self.faults = frozen, middles, confidences, faults

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, at: int) -> Series: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Series]: ...

    def __getitem__(self, at: int | slice) -> Series | Sequence[Series]:
        if isinstance(at, slice):
            return tuple(map(self._series, range(*at.indices(len(self)))))
        return self._series(range(len(self))[at])

    def __iter__(self) -> Iterator[Series]:
        if not self._judged:
            return map(Series, self.labels, self.values.tolist(), self.timestamps.tolist())
        return map(self._series, range(len(self)))

    @property
    def _judged(self) -> bool:
        return bool(self.faults) or any(array is not None for array in (self.frozen, self.middles, self.confidences))

    def _series(self, row: int) -> Series:
        return Series(self.labels[row], float(self.values[row]), float(self.timestamps[row]), self._verdict(row) if self._judged else None)

    def _verdict(self, row: int) -> Verdict | None:
        if row in self.faults:
            return Verdict(fault=self.faults[row])
        frozen = self.frozen is not None and bool(self.frozen[row])
        middle = None if self.middles is None or np.isnan(self.middles[row]) else float(self.middles[row])
        confidence = 1.0 if self.confidences is None else float(self.confidences[row])
        verdict = Verdict(middle=middle, confidence=confidence, frozen=frozen)
        return None if verdict == _PLAIN else _FROZEN if verdict == _FROZEN else verdict


def column(series: Sequence[Series]) -> Column:
    """Series of any kind as a column; a column is itself."""
    if isinstance(series, Column):
        return series
    count = len(series)
    labels = tuple(one.labels if isinstance(one.labels, Labels) else Labels(one.labels) for one in series)
    values, timestamps = (np.fromiter(map(read, series), np.float64, count) for read in (_value, _timestamp))
    verdicts = [(row, one.verdict) for row, one in enumerate(series) if one.verdict is not None]
    if not verdicts:
        return Column(labels, values, timestamps)
    frozen, middles, confidences = np.zeros(count, dtype=np.bool_), np.full(count, np.nan), np.ones(count)
    for row, verdict in verdicts:
        frozen[row], confidences[row] = verdict.frozen, verdict.confidence
        middles[row] = np.nan if verdict.middle is None else verdict.middle
    faults = {row: verdict.fault for row, verdict in verdicts if verdict.fault is not None}
    return Column(labels, values, timestamps, frozen=frozen, middles=middles, confidences=confidences, faults=faults)


def differing(new: Column, old: Column) -> NDArray[np.bool_]:
    """(n,) rows of two columns of the same series whose value, bit by bit, or verdict differs; ages are not looked at."""
    changed: NDArray[np.bool_] = new.values.view(np.int64) != old.values.view(np.int64)
    for left, right, blank in (
        (new.frozen, old.frozen, False),
        (new.middles, old.middles, np.nan),
        (new.confidences, old.confidences, 1.0),
    ):
        if left is not None or right is not None:
            one, other = (np.full(len(new), blank) if array is None else array for array in (left, right))
            changed |= (one != other) & ~((one != one) & (other != other))
    for row, _ in new.faults.items() ^ old.faults.items():
        changed[row] = True
    return changed


def taken(given: Column, rows: NDArray[np.int64]) -> Column:
    """Some rows of a column, in that order."""
    chosen = [None if array is None else array[rows] for array in (given.frozen, given.middles, given.confidences)]
    listed = rows.tolist()
    faults = {at: given.faults[row] for at, row in enumerate(listed) if row in given.faults} if given.faults else NO_FAULTS
    return Column(
        tuple(map(given.labels.__getitem__, listed)),
        given.values[rows],
        given.timestamps[rows],
        frozen=chosen[0],  # type: ignore[arg-type] # of their own types, which a list forgets
        middles=chosen[1],  # type: ignore[arg-type]
        confidences=chosen[2],  # type: ignore[arg-type]
        faults=faults,
    )
