"""The simulated hardware: GPU nodes, where they stand, and how fast each pair can talk. Pure; read from a file or generated from a size."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

DEFAULT_FILE: Final = Path(__file__).parent / "topologies" / "default.yaml"
REAL_FILE: Final = DEFAULT_FILE.with_name("real.yaml")
AGENTS_FILE: Final = DEFAULT_FILE.with_name("agents.yaml")
MAX_GENERATED_NODES: Final = 5000
ALL_PAIRS_UP_TO_NODES: Final = 200
MAX_LINKS: Final = 20_000
"""Of a cluster too large for all pairs: keeps one scrape below 10 MB."""
_SPREAD_RATIO: Final = 0.05
"""No two real links give the same figures: each differs by up to this much from its class, the same way every time."""
_RACK_NODES: Final = 8


class TopologyError(Exception):
    """A topology file cannot be used; the message names the place."""


class Product(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One kind of GPU server."""

    product: str
    """Value of nvidia.com/gpu.product."""
    family: str
    memory_mib: int
    """Of one GPU."""
    gpus: int
    cpu_cores: int
    memory_gib: int
    instance_type: str
    idle_watts: int = 50
    busy_watts: int = 350


class Machine(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One node."""

    name: str
    product: str
    """Key of `Topology.products`."""
    region: str
    zone: str
    rack: str
    gpus: int | None = None
    """Where it differs from the product's."""
    real: bool = False
    """It runs containers; its GPUs are simulated like the others'."""


class Figures(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One way from node to node."""

    latency_microseconds: float
    bandwidth_gbit_per_second: float

    @property
    def latency_seconds(self) -> float:
        """For the metric."""
        return self.latency_microseconds / 1e6

    @property
    def bandwidth_bytes_per_second(self) -> float:
        """For the metric."""
        return self.bandwidth_gbit_per_second * 1e9 / 8

    def scaled(self, latency: float, bandwidth: float) -> Figures:
        """Both figures multiplied."""
        return Figures(self.latency_microseconds * latency, self.bandwidth_gbit_per_second * bandwidth)


class RegionPair(Figures, frozen=True):
    """Figures between two regions, both ways."""

    between: tuple[str, str] = ("", "")


class NodePair(Figures, frozen=True):
    """Figures of one directed link."""

    source: str = ""
    destination: str = ""


class Links(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Figures by the narrowest place that holds both nodes."""

    rack: Figures = Figures(15, 100)
    zone: Figures = Figures(60, 40)
    region: Figures = Figures(500, 25)
    default: Figures = Figures(60_000, 1)
    regions: tuple[RegionPair, ...] = ()
    pairs: tuple[NodePair, ...] = ()
    real: bool = False
    """Links between real nodes have these latencies too, not the bandwidths alone, and the exporter reports none: agents measure them."""
    agents: bool = False
    """The exporter reports no link between real nodes: agents measure them."""


class Topology(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything that the local cluster simulates."""

    products: dict[str, Product]
    nodes: tuple[Machine, ...]
    links: Links = field(default_factory=Links)

    @property
    def real(self) -> tuple[Machine, ...]:
        """Nodes that run containers."""
        return tuple(machine for machine in self.nodes if machine.real)

    def product_of(self, machine: Machine) -> Product:
        """The kind of server that a node is."""
        return self.products[machine.product]

    def gpus_of(self, machine: Machine) -> int:
        """GPUs in a node."""
        return self.product_of(machine).gpus if machine.gpus is None else machine.gpus


def load(path: Path) -> Topology:
    """Read a topology from YAML or JSON; raises TopologyError."""
    try:
        text = path.read_bytes()
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
        topology = decode(text, type=Topology)
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise TopologyError(f"{path}: {error}") from error
    _validate(topology, path)
    return topology


def with_real(topology: Topology) -> Topology:
    """The topology and the real nodes of REAL_FILE."""
    added = load(REAL_FILE)
    links = msgspec.structs.replace(topology.links, pairs=(*topology.links.pairs, *added.links.pairs))
    return Topology({**topology.products, **added.products}, (*topology.nodes, *added.nodes), links)


def with_agents(topology: Topology) -> Topology:
    """The topology, whose links between real nodes the exporter leaves to agents."""
    return msgspec.structs.replace(topology, links=msgspec.structs.replace(topology.links, agents=True))


def _validate(topology: Topology, path: Path) -> None:
    names: set[str] = set()
    for machine in topology.nodes:
        if machine.name in names:
            raise TopologyError(f"{path}: nodes: the name {machine.name} is used twice")
        names.add(machine.name)
    for machine in topology.nodes:
        if machine.product not in topology.products:
            known = ", ".join(sorted(topology.products))
            raise TopologyError(f"{path}: nodes: {machine.name}.product: {machine.product} is none of {known}")
    for pair in topology.links.pairs:
        for end in (pair.source, pair.destination):
            if end not in names:
                raise TopologyError(f"{path}: links.pairs: no node is called {end}")


class LinkTable:
    """Figures of every directed pair of one topology."""

    def __init__(self, topology: Topology) -> None:
        self._links = topology.links
        self._machines = {machine.name: machine for machine in topology.nodes}
        self._regions = {frozenset(entry.between): entry for entry in topology.links.regions}
        self._pairs = {(entry.source, entry.destination): entry for entry in topology.links.pairs}

    def figures(self, source: str, destination: str) -> Figures:
        """Of one directed pair; an entry under `pairs` is taken as it stands, a class is spread."""
        exact = self._pairs.get((source, destination))
        if exact is not None:
            return Figures(exact.latency_microseconds, exact.bandwidth_gbit_per_second)
        shift = 1.0 + _SPREAD_RATIO * (zlib.crc32(f"{source}>{destination}".encode()) / 0xFFFFFFFF * 2 - 1)
        return self._class(self._machines[source], self._machines[destination]).scaled(shift, 1 / shift)

    def _class(self, one: Machine, other: Machine) -> Figures:
        if one.region != other.region:
            return self._regions.get(frozenset((one.region, other.region)), self._links.default)
        if one.zone != other.zone:
            return self._links.region
        return self._links.rack if one.rack == other.rack else self._links.zone


def measured_pairs(topology: Topology) -> list[tuple[str, str]]:
    """Directed pairs that the exporter reports, sorted.

    None where agents measure them. All of them up to ALL_PAIRS_UP_TO_NODES; beyond, one node of each rack with its zone's others,
    one of each zone with all zones', and neighbours inside racks, nearest first, up to MAX_LINKS.
    """
    names = [machine.name for machine in topology.nodes] if not topology.links.real else []
    by_agents = {machine.name for machine in topology.real} if topology.links.agents else set()
    if len(names) <= ALL_PAIRS_UP_TO_NODES:
        return sorted(pair for pair in permutations(names, 2) if not by_agents.issuperset(pair))
    chosen: set[tuple[str, str]] = set()
    for pair in _sparse_pairs(topology):
        if len(chosen) >= MAX_LINKS:
            break
        if not by_agents.issuperset(pair):
            chosen.add(pair)
    return sorted(chosen)


def _sparse_pairs(topology: Topology) -> Iterator[tuple[str, str]]:
    racks: dict[str, list[str]] = {}
    zones: dict[str, list[str]] = {}
    for machine in topology.nodes:
        if machine.rack not in racks:
            zones.setdefault(machine.zone, []).append(machine.name)
        racks.setdefault(machine.rack, []).append(machine.name)
    heads = [members[0] for members in zones.values()]
    for group in (heads, *zones.values()):
        yield from permutations(group, 2)
    yield from _neighbours(list(racks.values()))


def _neighbours(racks: list[list[str]]) -> Iterator[tuple[str, str]]:
    """Each machine with the next ones of its rack, the nearest of all racks first."""
    for offset in range(1, max(map(len, racks))):
        for members in racks:
            if offset < len(members):
                yield from ((name, members[(place + offset) % len(members)]) for place, name in enumerate(members))


def generate(size: int, seed: int = 0) -> Topology:
    """`size` nodes (1..5000): regions on a ring, up to three zones each, racks of eight of one product. Same arguments, same result."""
    if not 1 <= size <= MAX_GENERATED_NODES:
        raise TopologyError(f"--size: {size} is not between 1 and {MAX_GENERATED_NODES}")
    source = random.Random(seed)  # noqa: S311 (a picture of a cluster, not a secret)
    products = load(DEFAULT_FILE).products
    region_count = min(6, max(1, size // 4))
    zone_count = max(1, min(3, size // region_count // (2 * _RACK_NODES)))
    regions = [f"region-{number}" for number in range(region_count)]
    racks = -(-size // _RACK_NODES)
    rack_products = [source.choice(sorted(products)) for _ in range(racks + region_count * zone_count)]
    nodes = []
    for number in range(size):
        region = number * region_count // size
        within = number - -(-region * size // region_count)
        zone = (within // _RACK_NODES) % zone_count
        rack = within // _RACK_NODES
        product = rack_products[(region * racks // region_count + rack) % len(rack_products)]
        place = f"region-{region}"
        nodes.append(Machine(f"gpu-{number:04d}", product, place, f"{place}-{'abc'[zone]}", f"{place}-rack-{rack:03d}"))
    return Topology(products, tuple(nodes), Links(regions=tuple(_ring(regions, source))))


def _ring(regions: list[str], source: random.Random) -> Iterator[RegionPair]:
    """Regions on a circle: the farther apart, the slower."""
    for one, name in enumerate(regions):
        for other in range(one + 1, len(regions)):
            steps = min(other - one, len(regions) - other + one)
            latency = round(20_000 * steps * source.uniform(0.9, 1.3))
            yield RegionPair(latency, round(6 / steps * source.uniform(0.8, 1.2), 2), (name, regions[other]))
