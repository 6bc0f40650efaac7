"""What a picture of a cluster shows and where: islands of nodes on a ring, nodes in each island, links as line segments. Pure geometry.

Made from ClusterTopology's own status, so it is as bounded as that.
Lengths are in units of the distance between two neighbouring nodes; y points down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from hyperscale.model.api.topology import LinkQuality, TopologyLink, TopologyNode, TopologyStatus
from hyperscale.util.float_sums import sum_in_order

MAX_ISLANDS: Final = 24
MAX_INSIDE_EDGES: Final = 1200
MAX_OUTLIERS: Final = 12
OUTLIER_FACTOR: Final = 3.0
"""Latency of a link divided by the median between its two islands; from this factor on it is drawn on its own."""
RING_NODES: Final = 9
"""Up to this number nodes stand on a ring; more fill a disc."""
ISLAND_GAP: Final = 1.3
STRETCH: Final = 1.25
"""Pictures are wider than high."""
GOLDEN_ANGLE: Final = math.pi * (3.0 - math.sqrt(5.0))
WITHOUT_LABEL: Final = "(no label)"


@dataclass(frozen=True)
class Dot:
    """A node and its place."""

    node: TopologyNode
    label: str
    x: float
    y: float


@dataclass(frozen=True)
class Island:
    """A domain of the widest level that tells nodes apart."""

    name: str
    x: float
    y: float
    radius: float
    nodes: tuple[TopologyNode, ...]

    @property
    def free_text(self) -> str:
        """How many of its GPUs are free."""
        return f"{sum(node.free_gpus for node in self.nodes)} of {sum(node.gpus for node in self.nodes)} GPUs free"


@dataclass(frozen=True)
class Edge:
    """A line between two points: one link, or the medians of several."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    latency_seconds: float
    bandwidth_bytes_per_second: float | None
    measured: bool
    """Estimated otherwise, in part at least."""
    links: tuple[TopologyLink, ...]
    between: tuple[str, str]
    """Names of what it joins."""


@dataclass(frozen=True)
class Scene:
    """Everything to draw."""

    dots: tuple[Dot, ...]
    islands: tuple[Island, ...]
    inside: tuple[Edge, ...]
    """Links between nodes of one island, both ways together."""
    routes: tuple[Edge, ...]
    """Medians between islands."""
    outliers: tuple[Edge, ...]
    """Links through which nothing gets, and those that are much slower than their island's route."""
    bounds: tuple[float, float, float, float]
    """Left, top, right, bottom of all islands."""


def arrange(status: TopologyStatus) -> Scene:
    """The scene of a cluster; deterministic."""
    islands, dots = _placed(_domains(status))
    island_of = {node.name: at for at, island in enumerate(islands) for node in island.nodes}
    place = {dot.node.name: (dot.x, dot.y) for dot in dots}
    pairs = _both_ways(link for link in status.links if link.source in place and link.destination in place)
    usable = {pair: edge for pair, links in sorted(pairs.items()) if (edge := _edge(links, (place[pair[0]], place[pair[1]]), pair))}
    by_islands = _by_islands(usable, island_of)
    routes = _routes(by_islands, islands)
    return Scene(
        dots=dots,
        islands=islands,
        inside=_shown_inside([by_islands.get((at, at), []) for at in range(len(islands))]),
        routes=tuple(edge for (low, high), edge in routes.items() if low != high),
        outliers=(*_dead(pairs, place), *_slow(by_islands, routes)),
        bounds=_bounds(islands),
    )


def _domains(status: TopologyStatus) -> list[tuple[str, list[TopologyNode]]]:
    """Nodes by domain of the widest level that tells them apart in at most MAX_ISLANDS; one domain where no level does."""
    for level in range(len(status.levels)):
        domains: dict[tuple[str, ...], list[TopologyNode]] = {}
        for node in status.nodes:
            named = tuple(domain or WITHOUT_LABEL for domain in (*node.domains, *[""] * (level + 1))[: level + 1])
            domains.setdefault(named, []).append(node)
        if 2 <= len(domains) <= MAX_ISLANDS:
            return [(" / ".join(name), nodes) for name, nodes in sorted(domains.items())]
    return [("cluster", list(status.nodes))]


def _placed(domains: Sequence[tuple[str, list[TopologyNode]]]) -> tuple[tuple[Island, ...], tuple[Dot, ...]]:
    """Islands around a ring, nodes within their island by domain and name."""
    radii = [_extent(len(nodes)) for _, nodes in domains]
    islands, dots = [], []
    for (name, nodes), (x, y), radius in zip(domains, _ring(radii), radii, strict=True):
        ordered = sorted(nodes, key=lambda node: (node.domains, node.name))
        islands.append(Island(name, x, y, radius, tuple(ordered)))
        labels = _labels([node.name for node in ordered])
        for node, label, (dx, dy) in zip(ordered, labels, _offsets(len(ordered)), strict=True):
            dots.append(Dot(node, label, x + dx, y + dy))
    return tuple(islands), tuple(dots)


def _extent(count: int) -> float:
    """Radius of an island of `count` nodes, with a margin for their labels."""
    return max((math.hypot(x, y) for x, y in _offsets(count)), default=0.0) + 0.75


def _offsets(count: int) -> list[tuple[float, float]]:
    """Places of `count` nodes about a centre, about one unit apart: a ring, or a sunflower for many."""
    if count == 1:
        return [(0.0, 0.0)]
    if count <= RING_NODES:
        radius = 1.15 / (2.0 * math.sin(math.pi / max(count, 2)))
        turns = [2.0 * math.pi * at / count - math.pi / 2.0 for at in range(count)]
        return [(radius * math.cos(turn), radius * math.sin(turn)) for turn in turns]
    radii = [0.62 * math.sqrt(at + 0.5) for at in range(count)]
    return [(radius * math.cos(at * GOLDEN_ANGLE), radius * math.sin(at * GOLDEN_ANGLE)) for at, radius in enumerate(radii)]


def _ring(radii: Sequence[float]) -> list[tuple[float, float]]:
    """Centres of discs of these radii side by side on the smallest ring that holds them, first one on top, clockwise."""
    if len(radii) == 1:
        return [(0.0, 0.0)]
    if len(radii) == 2:
        half = (radii[0] + radii[1] + ISLAND_GAP * 2) / 2.0
        return [(-half, 0.0), (half, 0.0)]
    padded = [radius + ISLAND_GAP / 2.0 for radius in radii]
    low, high = max(padded), sum_in_order(padded) + 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        angle = sum_in_order(2.0 * math.asin(min(1.0, radius / middle)) for radius in padded)
        low, high = (middle, high) if angle > 2.0 * math.pi else (low, middle)
    angles = [2.0 * math.asin(min(1.0, radius / high)) for radius in padded]
    spare = (2.0 * math.pi - sum_in_order(angles)) / len(angles)
    centres, turn = [], -math.pi / 2.0 - angles[0] / 2.0
    for angle in angles:
        turn += angle / 2.0
        centres.append((STRETCH * high * math.cos(turn), high * math.sin(turn)))
        turn += angle / 2.0 + spare
    return centres


def _labels(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them start with."""
    words = [name.replace(".", "-").replace("/", "-").split("-") for name in names]
    common = 0
    while len(names) > 1 and all(len(parts) > common + 1 for parts in words) and len({parts[common] for parts in words}) == 1:
        common += 1
    skip = sum(len(part) + 1 for part in words[0][:common]) if words else 0
    return [name[skip:] for name in names]


def _both_ways(links: Iterable[TopologyLink]) -> dict[tuple[str, str], list[TopologyLink]]:
    """Links by the two nodes that they join, the lower name first."""
    pairs: dict[tuple[str, str], list[TopologyLink]] = {}
    for link in links:
        if link.source != link.destination:
            pairs.setdefault((min(link.source, link.destination), max(link.source, link.destination)), []).append(link)
    return pairs


def _edge(links: Sequence[TopologyLink], ends: tuple[tuple[float, float], tuple[float, float]], between: tuple[str, str]) -> Edge | None:
    """A line with the medians of these links; None where no latency is known."""
    latencies = [link.latency_seconds for link in links if link.latency_seconds is not None]
    rates = [link.bandwidth_bytes_per_second for link in links if link.bandwidth_bytes_per_second]
    if not latencies:
        return None
    measured = all(link.quality is not LinkQuality.ESTIMATED for link in links)
    return Edge(ends, median(latencies), median(rates) if rates else None, measured, tuple(links), between)


def _by_islands(usable: dict[tuple[str, str], Edge], island_of: dict[str, int]) -> dict[tuple[int, int], list[Edge]]:
    """Lines between nodes by the islands that these lie on, the lower number first."""
    by_islands: dict[tuple[int, int], list[Edge]] = {}
    for (first, second), edge in usable.items():
        one, other = sorted((island_of[first], island_of[second]))
        by_islands.setdefault((one, other), []).append(edge)
    return by_islands


def _routes(by_islands: dict[tuple[int, int], list[Edge]], islands: Sequence[Island]) -> dict[tuple[int, int], Edge]:
    """Medians by pair of islands, those of one island with itself too; from rim to rim."""
    routes = {}
    for (one, other), edges in sorted(by_islands.items()):
        links = [link for edge in edges for link in edge.links]
        if route := _edge(links, _rims(islands[one], islands[other]), (islands[one].name, islands[other].name)):
            routes[one, other] = route
    return routes


def _rims(first: Island, second: Island) -> tuple[tuple[float, float], tuple[float, float]]:
    """From the rim of one island to the rim of the other; a point where both are one."""
    dx, dy = second.x - first.x, second.y - first.y
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    start = (first.x + ux * first.radius, first.y + uy * first.radius)
    return start, (second.x - ux * second.radius, second.y - uy * second.radius)


def _shown_inside(edges: list[list[Edge]]) -> tuple[Edge, ...]:
    """Of every island its slowest, with an equal share for each where all would be a blot."""
    if sum(map(len, edges)) <= MAX_INSIDE_EDGES:
        return tuple(edge for mine in edges for edge in mine)
    share = MAX_INSIDE_EDGES // len(edges)
    return tuple(edge for mine in edges for edge in sorted(mine, key=lambda edge: (-edge.latency_seconds, edge.between))[:share])


def _dead(pairs: dict[tuple[str, str], list[TopologyLink]], place: dict[str, tuple[float, float]]) -> list[Edge]:
    """Pairs of nodes between which nothing gets through one way at least."""
    dead = [(pair, links) for pair, links in sorted(pairs.items()) if any(link.quality is LinkQuality.DEAD for link in links)]
    return [Edge((place[a], place[b]), math.inf, 0.0, True, tuple(links), (a, b)) for (a, b), links in dead[:MAX_OUTLIERS]]


def _slow(by_islands: dict[tuple[int, int], list[Edge]], routes: dict[tuple[int, int], Edge]) -> list[Edge]:
    """The slowest links that their route's median hides, slowest in proportion first."""
    slow = []
    for pair, edges in by_islands.items():
        usual = routes[pair].latency_seconds
        for edge in edges:
            slowest = max(link.latency_seconds or 0.0 for link in edge.links)
            if 0.0 < OUTLIER_FACTOR * usual <= slowest and not any(link.quality is LinkQuality.DEAD for link in edge.links):
                slow.append((-slowest / usual, edge.between, edge))
    return [edge for _, _, edge in sorted(slow, key=lambda entry: entry[:2])[:MAX_OUTLIERS]]


def _bounds(islands: Sequence[Island]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of all discs."""
    return (
        min(island.x - island.radius for island in islands),
        min(island.y - island.radius for island in islands),
        max(island.x + island.radius for island in islands),
        max(island.y + island.radius for island in islands),
    )
