"""What a picture of a cluster shows and where: islands of nodes on a ring, nodes in each island, links as line segments. Pure geometry.

Above MAX_NODES nodes the items are whole domains (racks, zones), so that a picture of 5,000 nodes can still be read.
Lengths are in units of the distance between two neighbouring items; y points up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hyperscale.model.graph import ClusterGraph
from hyperscale.pictures.groups import Group, GroupLink, links_between, narrowest, widest
from hyperscale.util.float_sums import sum_in_order

MAX_NODES: Final = 200
MAX_GROUPS: Final = 640
MAX_ISLANDS: Final = 24
MAX_INSIDE_EDGES: Final = 1200
MAX_OUTLIERS: Final = 12
MAX_GUESSED_ROUTES: Final = 10
OUTLIER_FACTOR: Final = 3.0
"""Latency of a link divided by the median between its two islands; from this factor on it is drawn on its own."""
RING_ITEMS: Final = 9
"""Up to this number items stand on a ring; more fill a disc."""
ISLAND_GAP: Final = 1.3
STRETCH: Final = 1.25
"""Pictures are wider than high."""
GOLDEN_ANGLE: Final = math.pi * (3.0 - math.sqrt(5.0))


@dataclass(frozen=True)
class Item:
    """A node, or a domain of nodes."""

    label: str
    x: float
    y: float
    product: str
    """The most common one of a domain."""
    nodes: int
    gpus: int
    free_gpus: int
    usable: bool
    """False when no pod can go there at all: not ready or cordoned."""


@dataclass(frozen=True)
class Island:
    """A domain of the widest level that tells nodes apart."""

    name: str
    x: float
    y: float
    radius: float
    nodes: int
    gpus: int
    free_gpus: int


@dataclass(frozen=True)
class Edge:
    """A line between two points."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    latency_seconds: float
    bandwidth_bytes_per_second: float
    measured: bool
    """The latency is: an estimate otherwise."""
    bandwidth_measured: bool


@dataclass(frozen=True)
class Scene:
    """Everything to draw."""

    title: str
    items: tuple[Item, ...]
    islands: tuple[Island, ...]
    inside: tuple[Edge, ...]
    """Links between items of one island."""
    routes: tuple[Edge, ...]
    """Medians between islands."""
    outliers: tuple[Edge, ...]
    """Links that are much slower than their island's route."""
    bounds: tuple[float, float, float, float]
    """Left, bottom, right, top of all islands."""


def arrange(graph: ClusterGraph) -> Scene:
    """The scene of a graph; deterministic."""
    single = len(graph.nodes) <= MAX_NODES
    groups = tuple(Group(node.name, (index,)) for index, node in enumerate(graph.nodes)) if single else narrowest(graph, MAX_GROUPS)
    domains = _islands_of(graph, groups)
    islands, items = _placed(graph, groups, domains)
    by_node = {index: at for at, group in enumerate(groups) for index in group.members}
    island_of = {index: at for at, domain in enumerate(domains) for index in domain.members}
    routes = links_between(graph, domains)
    inside = _edges_inside(graph, groups, items, [island_of[group.members[0]] for group in groups])
    return Scene(
        title=_title(graph, groups, single),
        items=items,
        islands=islands,
        inside=_shown_inside([inside.get(at, []) for at in range(len(islands))]),
        routes=_shown_routes([_route(islands[link.first], islands[link.second], link) for link in routes if link.first != link.second]),
        outliers=_outliers(graph, routes, items, by_node, island_of),
        bounds=_bounds(islands),
    )


def _edges_inside(graph: ClusterGraph, groups: tuple[Group, ...], items: Sequence[Item], islands: Sequence[int]) -> dict[int, list[Edge]]:
    """Measured links between items of one island, by island; `islands` has the island of each item."""
    edges: dict[int, list[Edge]] = {}
    for link in links_between(graph, groups, within=islands):
        if link.latency_samples + link.bandwidth_samples and link.first != link.second:
            edges.setdefault(islands[link.first], []).append(_edge(items[link.first], items[link.second], link))
    return edges


def _bounds(islands: Sequence[Island]) -> tuple[float, float, float, float]:
    """Left, bottom, right, top of all discs."""
    return (
        min(island.x - island.radius for island in islands),
        min(island.y - island.radius for island in islands),
        max(island.x + island.radius for island in islands),
        max(island.y + island.radius for island in islands),
    )


def _shown_inside(edges: list[list[Edge]]) -> tuple[Edge, ...]:
    """Of every island its slowest, with an equal share for each where all would be a blot."""
    if sum(map(len, edges)) <= MAX_INSIDE_EDGES:
        return tuple(edge for mine in edges for edge in mine)
    share = MAX_INSIDE_EDGES // len(edges)
    return tuple(edge for mine in edges for edge in sorted(mine, key=lambda edge: (-edge.latency_seconds, edge.ends))[:share])


def _shown_routes(routes: list[Edge]) -> tuple[Edge, ...]:
    """All of them, or where they are many those that were measured: a guess for every pair of twenty islands would hide what is known."""
    guessed = sum(not route.measured for route in routes)
    return tuple(route for route in routes if route.measured or guessed <= MAX_GUESSED_ROUTES)


def _islands_of(graph: ClusterGraph, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Domains that hold whole items; one island where the widest level would cut an item in two."""
    domains = widest(graph, MAX_ISLANDS)
    owner = {index: at for at, domain in enumerate(domains) for index in domain.members}
    whole = all(len({owner[index] for index in group.members}) == 1 for group in groups)
    return domains if whole else (Group("cluster", tuple(range(len(graph.nodes)))),)


def _placed(graph: ClusterGraph, groups: tuple[Group, ...], domains: tuple[Group, ...]) -> tuple[tuple[Island, ...], tuple[Item, ...]]:
    """Islands around a ring, items within their island; items keep the order of `groups`."""
    owner = {index: at for at, domain in enumerate(domains) for index in domain.members}
    items_of: list[list[int]] = [[] for _ in domains]
    for at, group in enumerate(groups):
        items_of[owner[group.members[0]]].append(at)
    radii = [_extent(len(mine)) for mine in items_of]
    centres = _ring(radii)
    names = _labels([group.name for group in groups])
    items: dict[int, Item] = {}
    for mine, (x, y) in zip(items_of, centres, strict=True):
        labels = _labels([names[at] for at in mine])
        for at, label, (dx, dy) in zip(mine, labels, _offsets(len(mine)), strict=True):
            items[at] = _item(graph, groups[at], label, (x + dx, y + dy))
    islands = [_island(graph, domain, centre, radius) for domain, centre, radius in zip(domains, centres, radii, strict=True)]
    return tuple(islands), tuple(items[at] for at in range(len(groups)))


def _extent(count: int) -> float:
    """Radius of an island of `count` items, with a margin for their labels."""
    return max((math.hypot(x, y) for x, y in _offsets(count)), default=0.0) + 0.75


def _offsets(count: int) -> list[tuple[float, float]]:
    """Places of `count` items about a centre, about one unit apart: a ring, or a sunflower for many."""
    if count == 1:
        return [(0.0, 0.0)]
    if count <= RING_ITEMS:
        radius = 1.15 / (2.0 * math.sin(math.pi / count))
        turns = [math.pi / 2.0 - 2.0 * math.pi * at / count for at in range(count)]
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
    spare = (2.0 * math.pi - sum(angles)) / len(angles)
    centres, turn = [], math.pi / 2.0 + angles[0] / 2.0
    for angle in angles:
        turn -= angle / 2.0
        centres.append((STRETCH * high * math.cos(turn), high * math.sin(turn)))
        turn -= angle / 2.0 + spare
    return centres


def _labels(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them start with."""
    words = [name.replace(".", "-").replace("/", "-").split("-") for name in names]
    common = 0
    while len(names) > 1 and all(len(parts) > common + 1 for parts in words) and len({parts[common] for parts in words}) == 1:
        common += 1
    skip = sum(len(part) + 1 for part in words[0][:common]) if words else 0
    return [name[skip:] for name in names]


def _item(graph: ClusterGraph, group: Group, label: str, place: tuple[float, float]) -> Item:
    nodes = [graph.nodes[index] for index in group.members]
    products = Counter(node.gpu_product or "unknown" for node in nodes)
    return Item(
        label=label,
        x=place[0],
        y=place[1],
        product=min(products, key=lambda product: (-products[product], product)),
        nodes=len(nodes),
        gpus=sum(node.allocatable_gpus for node in nodes),
        free_gpus=sum(node.free_gpus for node in nodes),
        usable=any(node.ready and node.schedulable for node in nodes),
    )


def _island(graph: ClusterGraph, domain: Group, centre: tuple[float, float], radius: float) -> Island:
    nodes = [graph.nodes[index] for index in domain.members]
    return Island(
        name=domain.name,
        x=centre[0],
        y=centre[1],
        radius=radius,
        nodes=len(nodes),
        gpus=sum(node.allocatable_gpus for node in nodes),
        free_gpus=sum(node.free_gpus for node in nodes),
    )


def _edge(first: Item, second: Item, link: GroupLink) -> Edge:
    return _figured(((first.x, first.y), (second.x, second.y)), link)


def _figured(ends: tuple[tuple[float, float], tuple[float, float]], link: GroupLink) -> Edge:
    measured = link.latency_samples > 0, link.bandwidth_samples > 0
    return Edge(ends, link.latency_seconds, link.bandwidth_bytes_per_second, *measured)


def _route(first: Island, second: Island, link: GroupLink) -> Edge:
    """From the rim of one island to the rim of the other."""
    dx, dy = second.x - first.x, second.y - first.y
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    start = (first.x + ux * first.radius, first.y + uy * first.radius)
    end = (second.x - ux * second.radius, second.y - uy * second.radius)
    return _figured((start, end), link)


def _outliers(
    graph: ClusterGraph, routes: tuple[GroupLink, ...], items: tuple[Item, ...], by_node: dict[int, int], island_of: dict[int, int]
) -> tuple[Edge, ...]:
    """The slowest links that their route's median hides, slowest in proportion first."""
    usual = {(route.first, route.second): route.latency_seconds for route in routes}
    slowest: dict[tuple[int, int], tuple[float, float, float]] = {}
    count = len(graph.nodes)
    links = graph.links
    for key, latency, bandwidth in zip(
        links.key.tolist(), links.latency_seconds.tolist(), links.bandwidth_bytes_per_second.tolist(), strict=True
    ):
        source, destination = key // count, key % count
        first, second = sorted((island_of[source], island_of[destination]))
        median = usual.get((first, second), math.inf)
        if math.isnan(latency) or median <= 0 or latency < OUTLIER_FACTOR * median:
            continue
        a, b = sorted((by_node[source], by_node[destination]))
        if a != b:
            slowest[a, b] = max(slowest.get((a, b), (0.0, 0.0, 0.0)), (latency / median, latency, bandwidth))
    worst = sorted(slowest.items(), key=lambda entry: (-entry[1][0], entry[0]))[:MAX_OUTLIERS]
    return tuple(
        Edge(((items[a].x, items[a].y), (items[b].x, items[b].y)), figures[1], figures[2], True, True) for (a, b), figures in worst
    )


def _title(graph: ClusterGraph, groups: tuple[Group, ...], single: bool) -> str:
    free, every = sum(node.free_gpus for node in graph.nodes), sum(node.allocatable_gpus for node in graph.nodes)
    shown = "" if single else f" in {len(groups)} groups"
    nodes = "1 node" if len(graph.nodes) == 1 else f"{len(graph.nodes)} nodes"
    return f"{nodes}{shown}, {free} of {every} GPUs free, {len(graph.snapshot.links)} links listed"
