"""Figures of one reading after the other: only the series that changed are judged again, in small groups. Pure; for one thread at a time.

A reading of 5,000 nodes is 400,000 series, and judging all of them takes seconds. Between two scrapes many GPUs of a cluster are
as idle or as busy as before. So series are compared as arrays first; nodes and links whose series moved go through the same `dcgm`
and `links`, and the result equals that of judging everything, but for ages: those of unchanged series may be AGE_SECONDS off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Final, TypeVar

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import Gpu, Link
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.columns import Labels, column
from hyperscale.observe.identity import Agents, NodeIndex
from hyperscale.observe.prometheus.changed_series import ChangedSeries, Unit, UnitOf, part
from hyperscale.observe.series import dcgm, links
from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures, completed

GROUP: Final = 200
"""Nodes, or links times 8, judged at a time: garbage stays young, and no step keeps the interpreter for long."""
JUDGED: Final = frozenset({*dcgm.GPU_FIGURES, *links.LINK_FIGURES})
COUNTED: Final = ""
"""Instead of a GPU: the node's series that are left out and counted, and so judged every time with all of the node."""
INDEXED: Final = "#"
"""The node's series that tell an index instead of a UUID; the others of the node may translate it, so that all are judged together."""
T = TypeVar("T")
GpuUnit = tuple[str, str]
"""Node, and a UUID, COUNTED or INDEXED."""


class IncrementalValidator:
    """Judges readings one after the other."""

    def __init__(self) -> None:
        self._last: SnapshotFigures | None = None
        self._of_gpus, self._of_links = ChangedSeries(dcgm.GPU_FIGURES), ChangedSeries(links.LINK_FIGURES)
        self._context: frozenset[object] = frozenset()
        self._gpus: dict[str, tuple[Gpu, ...]] = {}
        self._whole: dict[str, set[GpuUnit]] = {}
        """Nodes that are judged with all that is on them."""
        self._counted: set[str] = set()
        """Those of them that are judged every time."""
        self._links: dict[tuple[str, str], Link] = {}
        self._sorted_links: tuple[Link, ...] = ()
        self._told: tuple[Labels, ...] | None = None
        self._held: dict[str, Mapping[str, tuple[str, str]]] = {}
        self.judged_units = 0
        """GPUs and pairs that the last reading made to be judged."""

    def figures(self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits) -> SnapshotFigures:
        """What the reading tells, judged at its own moment."""
        last, context = self._last, _context(reading)
        names_hold = last is not None and last.names.agrees_with(index)
        if last is None or last.limits != limits or not names_hold or context != self._context:
            self._forget()
        elif last.names is not index:
            index = last.names
        self._context = context
        self.judged_units = 0
        gpu_notes = self._judge_gpus(reading, index, limits)
        link_notes = self._judge_links(reading, index, limits)
        gpus, holders = dict(self._gpus), self._holders(reading, index)
        series = SnapshotFigures(reading, limits, index, gpus, self._sorted_links, reading.state, reading.taken_at, holders)
        self._last = completed(series, (*gpu_notes, *link_notes), last.networks if last is not None else None)
        return self._last

    def _forget(self) -> None:
        self._of_gpus.forget()
        self._of_links.forget()
        self._gpus, self._whole, self._counted, self._links = {}, {}, set(), {}

    def _holders(self, reading: MetricsReading, index: NodeIndex) -> Mapping[str, Mapping[str, tuple[str, str]]]:
        """Pods by GPU; the same objects as long as they are equal."""
        last = self._last
        labels = column(reading.series.get("gpu_utilization", ())).labels
        if last is None or last.names is not index or labels is not self._told:
            by_node = dcgm.holders_by_node(reading, index)
            before = last.holders if last is not None else {}
            self._held = {node: before[node] if before.get(node) == holders else holders for node, holders in by_node.items()}
            self._told = labels
        return self._held

    def _judge_gpus(self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits) -> tuple[str, ...]:
        """Judge the GPUs whose series changed; notes on all series that lead to no GPU."""
        changed, reshaped = self._of_gpus.see(reading, _gpu_of(index))
        whole_before = self._whole
        if reshaped:
            self._take_stock()
        wanted, whole = self._gpus_to_judge({unit for unit in changed if unit is not None}, whole_before)
        self.judged_units += len(wanted)
        by_unit = self._of_gpus.series_of({*wanted, None})
        rest = part(reading, by_unit, [None, *sorted(unit for unit in wanted if unit[0] in self._counted)], JUDGED)
        notes = dcgm.gpus_by_node(rest, index, limits, reading.taken_at)[1] if rest is not None else ()
        for nodes, units in _by_nodes(wanted):
            some = part(reading, by_unit, units, JUDGED)
            judged = dcgm.gpus_by_node(some, index, limits, reading.taken_at)[0] if some is not None else {}
            for node in nodes:
                kept = () if node in whole else self._gpus_but(node, wanted)
                self._put(node, (*kept, *judged.get(node, ())))
        return notes

    def _gpus_to_judge(self, changed: set[GpuUnit], whole_before: Mapping[str, set[GpuUnit]]) -> tuple[set[GpuUnit], set[str]]:
        """Units that changed with all others of nodes that are judged as a whole, and those nodes.

        A node that was judged as a whole up to now, and no longer is, is judged with all its GPUs once more.
        """
        whole = {node for node, _ in changed} & (self._whole.keys() | whole_before.keys()) | self._counted
        wanted = changed | {unit for node in sorted(whole) for unit in self._whole.get(node, ())}
        if ended := whole - self._whole.keys():
            wanted |= {unit for unit in self._of_gpus.units if unit is not None and unit[0] in ended}
        return wanted, whole

    def _gpus_but(self, node: str, units: Set[GpuUnit]) -> Iterator[Gpu]:
        return (gpu for gpu in self._gpus.get(node, ()) if (node, gpu.uuid) not in units)

    def _put(self, node: str, gpus: tuple[Gpu, ...]) -> None:
        if gpus:
            self._gpus[node] = tuple(sorted(gpus, key=lambda gpu: gpu.uuid))
        else:
            self._gpus.pop(node, None)

    def _take_stock(self) -> None:
        """Series came or went: which nodes are judged as a whole now."""
        units = [unit for unit in self._of_gpus.units if unit is not None]
        self._counted = {node for node, gpu in units if gpu == COUNTED}
        self._whole = {node: set() for node, gpu in units if gpu in (COUNTED, INDEXED)}
        for unit in units if self._whole else ():
            if unit[0] in self._whole:
                self._whole[unit[0]].add(unit)

    def _judge_links(self, reading: MetricsReading, index: NodeIndex, limits: QualityLimits) -> tuple[str, ...]:
        """Judge the links that anything new is said of; notes on all series that describe none."""
        moved, _ = self._of_links.see(reading, _pair_of(index))
        wanted = {unit for unit in moved if unit is not None}
        self.judged_units += len(wanted)
        by_unit = self._of_links.series_of({*wanted, None})
        rest = part(reading, by_unit, [None], JUDGED)
        notes = links.links(rest, index, limits, reading.taken_at)[1] if rest is not None else ()
        before = self._links.keys() & wanted
        judged: dict[tuple[str, str], Link] = {}
        for group in _groups(sorted(wanted), GROUP * 8):
            some = part(reading, by_unit, group, JUDGED)
            for link in links.links(some, index, limits, reading.taken_at)[0] if some is not None else ():
                judged[link.source, link.destination] = link
        for pair in before - judged.keys():
            del self._links[pair]
        self._links.update(judged)
        if before != judged.keys():
            self._links = dict(sorted(self._links.items()))
        if wanted or not self._links:
            self._sorted_links = tuple(self._links.values())
        return notes


def _context(reading: MetricsReading) -> frozenset[object]:
    """What judging a series depends on beside the series itself: who is an agent."""
    return Agents(reading).targets


def _gpu_of(index: NodeIndex) -> UnitOf:
    """Node and GPU by label set; one set serves many figures."""
    units: dict[Labels, Unit] = {}

    def described(labels: Labels) -> Unit:
        node = index.of_series(labels)
        if node is None:
            return None
        if dcgm.gpu_uuid(labels) is None or any(labels.get(key) for key in dcgm.MIG_LABELS):
            return node, COUNTED
        return node, dcgm.uuid_label(labels) or INDEXED

    def unit(labels: Labels) -> Unit:
        if labels not in units:
            units[labels] = described(labels)
        return units[labels]

    return unit


def _pair_of(index: NodeIndex) -> UnitOf:
    def unit(labels: Labels) -> Unit:
        source, destination = index.node(labels.get("source", "")), index.node(labels.get("destination", ""))
        return (source, destination) if source and destination and source != destination else None

    return unit


def _by_nodes(units: Iterable[GpuUnit]) -> Iterator[tuple[list[str], list[GpuUnit]]]:
    """Nodes in groups of GROUP with all their units, in order."""
    units_on: dict[str, list[GpuUnit]] = {}
    for unit in sorted(units):
        units_on.setdefault(unit[0], []).append(unit)
    for nodes in _groups(units_on, GROUP):
        yield nodes, [unit for node in nodes for unit in units_on[node]]


def _groups(items: Iterable[T], size: int) -> Iterable[list[T]]:
    given = iter(items)
    while group := list(islice(given, size)):
        yield group
