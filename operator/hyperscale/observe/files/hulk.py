"""Reader of Hulk's published graph (arXiv 2302.13741): `edge.txt` and `node_feature.csv`. Pure.

The published pair has faults: pairs that occur twice with different times, links of a machine to itself, city names with trailing
blanks, and no bandwidth at all. They are fixed as said below and counted in `metrics.message`.
"""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Final, NamedTuple

from hyperscale.model.cluster import UNKNOWN_SAMPLE, AbsentLink, ClusterSnapshot, Link, MetricsState, Node, Quality, Sample
from hyperscale.model.constants import HOSTNAME_LABEL
from hyperscale.observe.dropped_counter import Tally
from hyperscale.observe.files.bounded import SnapshotError

EDGES: Final = "edge.txt"
NODES: Final = "node_feature.csv"
FILE_NAMES: Final = (EDGES, NODES)
HEADER: Final = ("node", "City", "Capability", "Memory")
CITY_LEVEL: Final = "city"
GIGABYTE: Final = 10**9
MAX_MACHINES: Final = 5000
MAX_EDGES: Final = 1_000_000
TWICE: Final = "listed twice with different times, the longer one is taken"


class Machine(NamedTuple):
    """One row of node_feature.csv."""

    number: int
    city: str
    capability: str
    """CUDA compute capability, e.g. 8.6."""
    memory_gigabytes: float


def parse(edges: str, nodes: str, directory: Path) -> ClusterSnapshot:
    """Hulk's machines as nodes of one GPU each, `machine-00` and so on; raises SnapshotError naming file and line.

    Memory is that of the whole machine, in GB. Times are milliseconds one way and hold in both directions. A pair without a line
    cannot talk (Hulk §3), so absent links are unreachable.
    """
    machines = _machines(nodes, directory / NODES)
    tally = Tally()
    times = _times(edges, {machine.number for machine in machines}, directory / EDGES, tally)
    digits = max(2, len(str(max(machine.number for machine in machines))))
    names = {machine.number: f"machine-{machine.number:0{digits}d}" for machine in machines}
    links = [
        _link(names[source], names[destination], pair_times)
        for (left, right), pair_times in times.items()
        for source, destination in ((left, right), (right, left))
    ]
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(sorted((_node(machine, names[machine.number]) for machine in machines), key=lambda node: node.name)),
        links=tuple(sorted(links, key=lambda link: (link.source, link.destination))),
        levels=(CITY_LEVEL,),
        absent_links=AbsentLink.UNREACHABLE,
        metrics=MetricsState(available=True, message="; ".join(tally.notes())),
        source="hulk",
    )


def _machines(text: str, file: Path) -> list[Machine]:
    """Rows of the node file, header checked, numbers unique."""
    rows = list(csv.reader(text.splitlines()))
    if not rows or tuple(cell.strip() for cell in rows[0]) != HEADER:
        raise SnapshotError(file, f"line 1: write the header {','.join(HEADER)}")
    machines: dict[int, Machine] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        machine = _machine([cell.strip() for cell in row], f"line {line}", file)
        if machine.number in machines:
            raise SnapshotError(file, f"line {line}: machine {machine.number} occurs twice")
        machines[machine.number] = machine
    if not 0 < len(machines) <= MAX_MACHINES:
        raise SnapshotError(file, f"has {len(machines)} machines; 1 to {MAX_MACHINES} can be read")
    return list(machines.values())


def _machine(cells: list[str], place: str, file: Path) -> Machine:
    if len(cells) != len(HEADER):
        raise SnapshotError(file, f"{place}: has {len(cells)} columns, write {','.join(HEADER)}")
    number, city, capability, memory = cells
    if not re.fullmatch(r"[0-9]{1,6}", number):
        raise SnapshotError(file, f"{place}: node must be a whole number, not {number[:32]!r}")
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9])?", capability):
        raise SnapshotError(file, f"{place}: Capability must be a CUDA compute capability such as 8.6, not {capability[:32]!r}")
    gigabytes = _number(memory)
    if gigabytes is None or gigabytes <= 0:
        raise SnapshotError(file, f"{place}: Memory must be a positive number of GB, not {memory[:32]!r}")
    return Machine(int(number), re.sub(r"[^A-Za-z0-9_.-]+", "-", city).strip("-_.")[:63], capability, gigabytes)


def _times(text: str, numbers: set[int], file: Path, tally: Tally) -> dict[tuple[int, int], set[float]]:
    """Milliseconds by unordered pair, all that were given; links of a machine to itself are counted and dropped."""
    times: dict[tuple[int, int], set[float]] = {}
    lines = text.splitlines()
    if len(lines) > MAX_EDGES:
        raise SnapshotError(file, f"has {len(lines)} lines; up to {MAX_EDGES} can be read")
    for line, row in enumerate(lines, start=1):
        cells = row.split()
        if not cells:
            continue
        left, right, time = _edge(cells, f"line {line}", file)
        for number in (left, right):
            if number not in numbers:
                raise SnapshotError(file, f"line {line}: machine {number} is not in {NODES}")
        if left == right:
            tally.add("lines link a machine to itself", str(left))
            continue
        pair_times = times.setdefault((min(left, right), max(left, right)), set())
        if pair_times and time not in pair_times:
            tally.add(f"pairs are {TWICE}", f"{min(left, right)}-{max(left, right)}")
        pair_times.add(time)
    return times


def _edge(cells: list[str], place: str, file: Path) -> tuple[int, int, float]:
    time = _number(cells[2]) if len(cells) == 3 else None
    if time is None or time < 0 or not all(re.fullmatch(r"[0-9]{1,6}", cell) for cell in cells[:2]):
        raise SnapshotError(file, f"{place}: write `machine machine milliseconds`, such as 0 1 10")
    return int(cells[0]), int(cells[1]), time


def _number(text: str) -> float | None:
    """A finite number of at most 1e9, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= 1e9 else None


def _link(source: str, destination: str, pair_times: set[float]) -> Link:
    """Pessimistic where the file contradicts itself, and then only an estimate."""
    sample = Sample(
        value=max(pair_times) / 1000.0,
        age_seconds=None,
        quality=Quality.MEASURED if len(pair_times) == 1 else Quality.ESTIMATED,
        fault=None if len(pair_times) == 1 else TWICE,
    )
    return Link(source=source, destination=destination, latency_seconds=sample, bandwidth_bytes_per_second=UNKNOWN_SAMPLE)


def _node(machine: Machine, name: str) -> Node:
    major, _, minor = machine.capability.partition(".")
    labels = {HOSTNAME_LABEL: name, "nvidia.com/gpu.compute.major": major, "nvidia.com/gpu.compute.minor": minor or "0"}
    return Node(
        name=name,
        gpu_product=None,
        gpu_memory_bytes=int(machine.memory_gigabytes * GIGABYTE),
        allocatable_gpus=1,
        requested_gpus=0,
        labels=dict(sorted({CITY_LEVEL: machine.city, **labels}.items())),
        domains=(machine.city,),
    )
