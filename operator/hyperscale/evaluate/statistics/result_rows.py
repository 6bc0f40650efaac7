"""Rows of results, and which of them belong together: the same metric in the same unit, in pairs where case and seed are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray

MIN_PAIRS: Final = 6
"""Fewer pairs can never show a difference at 5 % by ranks: 2 ** (1 - 5) is above 0.05."""
Pairing = Literal["auto", "always", "never"]
Key = tuple[str, ...]


class ResultRow(msgspec.Struct, frozen=True):
    """One figure of one method on one case."""

    value: float
    """Finite."""
    metric: str = "value"
    unit: str = ""
    benchmark: str = ""
    case: str = ""
    method: str = ""
    seed: str = ""
    columns: Mapping[str, str] = {}
    """All columns of the row as they were written, for factors and regression."""


class MetricKey(NamedTuple):
    """What is compared with its own kind alone."""

    benchmark: str
    metric: str
    method: str
    """Empty where each group has one method: methods are then what is compared."""


class Averaged(NamedTuple):
    """How many rows one value is the mean of."""

    fewest: int = 1
    most: int = 1
    what: str = "values"
    """`seeds` where the rows of a case differ by seed."""


class Aligned(NamedTuple):
    """Values of k groups that pair."""

    values: FloatArray
    """(n, k)."""
    cases: tuple[str, ...]
    """(n,) case of each pair."""
    averaged: Averaged


def by_metric(groups: Mapping[str, Sequence[ResultRow]]) -> dict[MetricKey, dict[str, list[ResultRow]]]:
    """Return the rows of each metric by group, sorted by metric; a group without the metric is left out there.

    Raises ValueError where groups have a metric in different units.
    """
    several = _with_several_methods(groups)
    table: dict[MetricKey, dict[str, list[ResultRow]]] = {}
    for name, rows in groups.items():
        for row in rows:
            method = row.method if (row.benchmark, row.metric) in several else ""
            table.setdefault(MetricKey(row.benchmark, row.metric, method), {}).setdefault(name, []).append(row)
    for key, members in table.items():
        units = {row.unit: name for name, rows in members.items() for row in rows}
        if len(units) > 1:
            listed = ", ".join(f"{unit or 'none'!r} in {name}" for unit, name in sorted(units.items()))
            raise ValueError(f"metric {key.metric!r} has several units: {listed}; convert them to one")
    return dict(sorted(table.items()))


def align(groups: Sequence[Sequence[ResultRow]], pairing: Pairing = "auto") -> Aligned | None:
    """Return the values of all groups in pairs, None where they do not pair.

    Of several cases each is one pair, of the means over its seeds: seeds of a case are alike, so that they are no independent pairs.
    Seeds of one case pair by seed. With `auto` there must be MIN_PAIRS, or all groups have the same cases.
    Groups without case and seed pair by place, with `always` alone.
    Raises ValueError where `always` finds no pairs.
    """
    if pairing == "never":
        return None
    places = {(row.case, row.seed) for rows in groups for row in rows}
    if places == {("", "")}:
        return _by_place(groups) if pairing == "always" else None
    several = len({case for case, _ in places}) > 1
    for level in (_case,) if several else (_case_and_seed, _case):
        aligned = _by_key(groups, level, 1 if pairing == "always" else MIN_PAIRS, several)
        if aligned is not None:
            return aligned
    if pairing == "always":
        raise ValueError("no case is in all groups: nothing pairs; compare without --paired")
    return None


def independent_values(rows: Sequence[ResultRow]) -> tuple[FloatArray, Averaged]:
    """Return the (n,) values of rows that do not pair: means by case where there are several cases, else each value."""
    keyed = _values_by_key(rows, _case)
    if len(keyed) < 2:
        return values_of(rows), Averaged()
    return np.array([float(np.mean(each)) for each in keyed.values()]), _averaged([keyed], [rows])


def values_of(rows: Sequence[ResultRow]) -> FloatArray:
    """Return the values, (n,), in the order of the rows."""
    return np.array([row.value for row in rows], dtype=np.float64)


def _with_several_methods(groups: Mapping[str, Sequence[ResultRow]]) -> set[tuple[str, str]]:
    """Benchmark and metric of those that a group has by more than one method."""
    methods: dict[tuple[str, str, str], set[str]] = {}
    for name, rows in groups.items():
        for row in rows:
            methods.setdefault((name, row.benchmark, row.metric), set()).add(row.method)
    return {key[1:] for key, each in methods.items() if len(each) > 1}


def _by_place(groups: Sequence[Sequence[ResultRow]]) -> Aligned:
    counts = [len(rows) for rows in groups]
    if len(set(counts)) > 1:
        raise ValueError(f"{' and '.join(map(str, counts))} values do not pair by place; give as many in each group")
    return Aligned(np.stack([values_of(rows) for rows in groups], axis=1), ("",) * counts[0], Averaged())


def _by_key(groups: Sequence[Sequence[ResultRow]], level: Callable[[ResultRow], Key], least: int, cases: bool) -> Aligned | None:
    """Means of the values with the same key; None for fewer keys than `least`, unless all groups have the same keys.

    cases: keys are several cases; else each value must have a key of its own to be fewer
    """
    keyed = [_values_by_key(rows, level) for rows in groups]
    shared = sorted(set(keyed[0]).intersection(*keyed[1:]))
    few = len(shared) < least
    if not shared or (few and not _is_whole(keyed, len(shared), groups, cases)):
        return None
    values = np.array([[float(np.mean(each[key])) for each in keyed] for key in shared])
    return Aligned(values, tuple(key[0] for key in shared), _averaged([{key: each[key] for key in shared} for each in keyed], groups))


def _is_whole(keyed: Sequence[Mapping[Key, Sequence[float]]], shared: int, groups: Sequence[Sequence[ResultRow]], cases: bool) -> bool:
    """Whether all groups have the same `shared` keys, and unless they are cases no key several rows."""
    keys, rows = {len(each) for each in keyed}, {len(each) for each in groups}
    return keys == {shared} and (cases or rows == {shared})


def _averaged(keyed: Sequence[Mapping[Key, Sequence[float]]], groups: Sequence[Sequence[ResultRow]]) -> Averaged:
    counts = [len(values) for each in keyed for values in each.values()]
    seeds = all(len({(row.case, row.seed) for row in rows}) == len(rows) for rows in groups)
    return Averaged(min(counts), max(counts), "seeds" if seeds else "values")


def _values_by_key(rows: Sequence[ResultRow], level: Callable[[ResultRow], Key]) -> dict[Key, list[float]]:
    values: dict[Key, list[float]] = {}
    for row in rows:
        values.setdefault(level(row), []).append(row.value)
    return values


def _case_and_seed(row: ResultRow) -> Key:
    return row.case, row.seed


def _case(row: ResultRow) -> Key:
    return (row.case,)
