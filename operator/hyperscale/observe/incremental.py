"""Figures of one reading after the other: only the series that changed are judged again, in small groups. Pure; for one thread at a time.

A reading of 5,000 nodes is 400,000 series, and judging all of them takes seconds. Between two scrapes many GPUs of a cluster are
as idle or as busy as before. So series are compared as arrays first; nodes and links whose series moved go through the same `dcgm`
and `links` as ever, and the result equals that of judging everything, but for ages: those of what did not move may be AGE_SECONDS off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter, is_
from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hyperscale.model.cluster import Gpu, Link
from hyperscale.model.metrics import MetricsReading, Series
from hyperscale.model.policy import QualityLimits
from hyperscale.observe import dcgm, links
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.network import bounded, networks
from hyperscale.observe.provenance import Agents
from hyperscale.observe.snapshot import Figures, state_of

AGE_SECONDS: Final = 15.0
"""One usual interval of scrapes."""
GROUP: Final = 200
"""Nodes, or links times 8, judged at a time: what is made on the way is young garbage, and the interpreter is never held for long."""
UNITS: Final = (*dcgm.GPU_FIGURES, *links.LINK_FIGURES)

Unit = str | tuple[str, str] | None
"""What a series is judged with: its node, its pair of nodes; None where it leads to neither."""
T = TypeVar("T")
Floats = NDArray[np.float64]
_labels, _value, _timestamp, _verdict = attrgetter("labels"), attrgetter("value"), attrgetter("timestamp"), attrgetter("verdict")


class _Column:
    """One figure's series as last judged."""

    def __init__(self, series: Sequence[Series], units: list[Unit], moment: float) -> None:
        self.series = series
        self.units = tuple(sorted(set(units), key=repr))
        number = {unit: at for at, unit in enumerate(self.units)}
        self.codes = np.fromiter(map(number.__getitem__, units), np.int32, len(units))
        """(n,) place of each series' unit in `units`."""
        self.values, self.ages = _arrays(series, moment)

    def aligned(self, series: Sequence[Series]) -> bool:
        """Whether they are the same series in the same order: label sets are the same objects from reading to reading."""
        return len(series) == len(self.series) and all(map(is_, map(_labels, series), map(_labels, self.series)))

    def moved(self, series: Sequence[Series], moment: float) -> set[Unit]:
        """Units of aligned series that changed; takes over the new values of all of them, and of those that moved the age."""
        values, ages = _arrays(series, moment)
        changed = (values.view(np.int64) != self.values.view(np.int64)) | ~(np.abs(ages - self.ages) <= AGE_SECONDS)
        said, before = list(map(_verdict, series)), list(map(_verdict, self.series))
        for at in np.flatnonzero(~np.fromiter(map(is_, said, before), np.bool_, len(said))).tolist():
            changed[at] |= said[at] != before[at]
        self.series, self.values = series, values
        self.ages = np.where(changed, ages, self.ages)
        return {self.units[code] for code in np.unique(self.codes[changed]).tolist()}

    def of(self, wanted: set[Unit]) -> Iterator[tuple[Unit, Series]]:
        """Series of these units, each with its unit."""
        chosen = np.fromiter((unit in wanted for unit in self.units), np.bool_, len(self.units))
        for at in np.flatnonzero(chosen[self.codes]).tolist():
            yield self.units[self.codes[at]], self.series[at]


class Judge:
    """Judges readings one after the other."""

    def __init__(self) -> None:
        self._last: Figures | None = None
        self._columns: dict[str, _Column] = {}
        self._context: frozenset[object] = frozenset()
        self._gpus: dict[str, tuple[Gpu, ...]] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._pairs: list[tuple[str, str]] = []
        self._noisy: set[Unit] = set()
        self._told: tuple[dict[str, str], ...] = ()
        self._held: dict[str, Mapping[str, tuple[str, str]]] = {}
        self.judged_units = 0
        """Nodes and pairs that the last reading made to be judged."""

    def figures(self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits) -> Figures:
        """What the reading tells, judged at its own moment."""
        last, context = self._last, _context(reading)
        names_hold = last is not None and last.names.agrees_with(index)
        if last is None or last.limits != limits or not names_hold or context != self._context:
            self._columns, self._gpus, self._links = {}, {}, {}
        elif last.names is not index:
            index = last.names
        self._context = context
        moved, gone = self._moved(reading, index)
        nodes = {unit for unit in moved if isinstance(unit, str)}
        pairs = {unit for unit in moved if isinstance(unit, tuple)}
        self.judged_units = len(nodes) + len(pairs)
        gpu_notes = self._judge_gpus(reading, index, limits, nodes)
        link_notes = self._judge_links(reading, index, limits, pairs)
        for unit in gone:
            self._forget(unit)
        if gone or len(self._pairs) != len(self._links):
            self._pairs = sorted(self._links)
        found = tuple(map(self._links.__getitem__, self._pairs))
        gpus = dict(self._gpus)
        cards = networks(reading, index, limits, reading.taken_at, last.networks if last is not None else None)
        found = bounded(found, {name: card.bytes_per_second for name, card in cards.items()})
        state = state_of(reading, gpus, found, (*gpu_notes, *link_notes))
        self._last = Figures(reading, limits, index, gpus, found, state, reading.taken_at, self._holders(reading, index), cards)
        return self._last

    def _holders(self, reading: MetricsReading, index: NodeIndex) -> Mapping[str, Mapping[str, tuple[str, str]]]:
        """Pods by GPU; the same objects as long as they are equal."""
        last = self._last
        labels = tuple(map(_labels, reading.series.get("gpu_utilization", ())))
        if last is None or last.names is not index or len(labels) != len(self._told) or not all(map(is_, labels, self._told)):
            found = dcgm.holders_by_node(reading, index)
            before = last.holders if last is not None else {}
            self._held = {node: before[node] if before.get(node) == holders else holders for node, holders in found.items()}
            self._told = labels
        return self._held

    def _moved(self, reading: MetricsReading, index: NodeIndex) -> tuple[set[Unit], set[Unit]]:
        """Units to judge anew, and those that no series speaks of any more."""
        moved: set[Unit] = set()
        before: set[Unit] = set()
        reshaped = False
        for figure in UNITS:
            series, column = reading.series.get(figure, ()), self._columns.get(figure)
            if column is not None and column.aligned(series):
                moved |= column.moved(series, reading.taken_at)
                continue
            reshaped = True
            before |= set(column.units) if column is not None else set()
            unit_of = _pair_of(index) if figure in links.LINK_FIGURES else _node_of(index)
            self._columns[figure] = fresh = _Column(series, [unit_of(one.labels) for one in series], reading.taken_at)
            moved |= set(fresh.units)
        if not reshaped:
            return moved | self._noisy, set()
        self._noisy = {unit for column in self._columns.values() for unit in _noisy(column)}
        now = {unit for column in self._columns.values() for unit in column.units}
        return (moved | before | self._noisy) & now, before - now

    def _judge_gpus(self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits, nodes: set[str]) -> tuple[str, ...]:
        """Judge the GPUs of some nodes; notes on all series that lead to no GPU."""
        by_unit = self._by_unit(dcgm.GPU_FIGURES, {*nodes, *self._noisy, None})
        rest = _part(reading, by_unit, [None, *self._noisy])
        notes = dcgm.gpus_by_node(rest, index, limits, reading.taken_at)[1] if rest is not None else ()
        for group in _groups(sorted(nodes), GROUP):
            part = _part(reading, by_unit, group)
            found = dcgm.gpus_by_node(part, index, limits, reading.taken_at)[0] if part is not None else {}
            for node in group:
                self._gpus.pop(node, None)
            self._gpus.update(found)
        return notes

    def _judge_links(
        self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits, pairs: set[tuple[str, str]]
    ) -> tuple[str, ...]:
        """Judge some links; notes on all series that describe none."""
        by_unit = self._by_unit(links.LINK_FIGURES, {*pairs, None})
        rest = _part(reading, by_unit, [None])
        notes = links.links(rest, index, limits, reading.taken_at)[1] if rest is not None else ()
        for group in _groups(sorted(pairs), GROUP * 8):
            part = _part(reading, by_unit, group)
            for link in links.links(part, index, limits, reading.taken_at)[0] if part is not None else ():
                self._links[link.source, link.destination] = link
        return notes

    def _by_unit(self, figures: Iterable[str], wanted: set[Unit]) -> dict[Unit, list[tuple[str, Series]]]:
        """Series of these figures by unit, of the wanted ones."""
        found: dict[Unit, list[tuple[str, Series]]] = {}
        for figure in figures:
            for unit, one in self._columns[figure].of(wanted):
                found.setdefault(unit, []).append((figure, one))
        return found

    def _forget(self, unit: Unit) -> None:
        if isinstance(unit, tuple):
            self._links.pop(unit, None)
        elif unit is not None:
            self._gpus.pop(unit, None)


def _part(reading: MetricsReading, by_unit: Mapping[Unit, list[tuple[str, Series]]], units: Iterable[Unit]) -> MetricsReading | None:
    """The reading with only the series of these units, and all that belong to no unit; None when there are none of the former."""
    part: dict[str, list[Series]] = {}
    for unit in units:
        for figure, one in by_unit.get(unit, ()):
            part.setdefault(figure, []).append(one)
    if not part:
        return None
    others = {name: found for name, found in reading.series.items() if name not in UNITS}
    return replace(reading, series={**others, **{figure: tuple(found) for figure, found in part.items()}})


def _arrays(series: Sequence[Series], moment: float) -> tuple[Floats, Floats]:
    """(n,) values and ages in seconds."""
    values = np.fromiter(map(_value, series), np.float64, len(series))
    return values, moment - np.fromiter(map(_timestamp, series), np.float64, len(series))


def _context(reading: MetricsReading) -> frozenset[object]:
    """What judging a series depends on beside the series itself: who is an agent."""
    return Agents(reading).targets


def _node_of(index: NodeIndex) -> Callable[[Mapping[str, str]], Unit]:
    """Node by label set; one set serves many figures."""
    known: dict[int, Unit] = {}

    def unit(labels: Mapping[str, str]) -> Unit:
        found = known.get(id(labels), "")
        if found == "":
            found = known[id(labels)] = index.of_series(labels)
        return found

    return unit


def _pair_of(index: NodeIndex) -> Callable[[Mapping[str, str]], Unit]:
    def unit(labels: Mapping[str, str]) -> Unit:
        source, destination = index.node(labels.get("source", "")), index.node(labels.get("destination", ""))
        return (source, destination) if source and destination and source != destination else None

    return unit


def _noisy(column: _Column) -> Iterable[Unit]:
    """Nodes with series that are left out and counted: judged every time, so that they are counted every time."""
    for one, code in zip(column.series, column.codes.tolist(), strict=True):
        unit = column.units[code]
        if isinstance(unit, str) and (dcgm.gpu_uuid(one.labels) is None or any(one.labels.get(label) for label in dcgm.MIG_LABELS)):
            yield unit


def _groups(items: Sequence[T], size: int) -> Iterable[list[T]]:
    given = iter(items)
    while group := list(islice(given, size)):
        yield group
