"""Nodes of a cluster graph taken together by topology domain, and what lies between two groups. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from hyperscale.model.cluster import AbsentLink
from hyperscale.model.graph import ClusterGraph, FloatArray, IntArray

NO_DOMAIN = "(no label)"


@dataclass(frozen=True)
class Group:
    """Nodes that share a domain."""

    name: str
    members: tuple[int, ...]
    """Indices into `ClusterGraph.nodes`, ascending."""


@dataclass(frozen=True)
class GroupLink:
    """What lies between two groups, both directions together."""

    first: int
    second: int
    """Positions in the list of groups, first < second; equal for links inside one group."""
    latency_seconds: float
    """Median of the usable samples; an estimate where nothing was measured."""
    bandwidth_bytes_per_second: float
    """Median of the usable samples; an estimate where nothing was measured."""
    latency_samples: int
    """Directed links with a usable latency; 0 where it is an estimate."""
    bandwidth_samples: int
    """Directed links with a usable bandwidth; 0 where it is an estimate."""


def by_level(graph: ClusterGraph, level: int) -> tuple[Group, ...]:
    """Groups of equal domain at `level` (0 = widest), sorted by name; nodes without that label form one group of their own."""
    return _grouped(graph, [node.domains[level] if level < len(node.domains) else "" for node in graph.nodes])


def widest(graph: ClusterGraph, most: int) -> tuple[Group, ...]:
    """Groups at the widest level that tells nodes apart, in at most `most` groups; one group `cluster` where no level does."""
    for level in range(len(graph.snapshot.levels)):
        groups = by_level(graph, level)
        if 2 <= len(groups) <= most:
            return groups
    return (Group("cluster", tuple(range(len(graph.nodes)))),)


def links_between(graph: ClusterGraph, groups: tuple[Group, ...], within: Sequence[int] | None = None) -> tuple[GroupLink, ...]:
    """One entry per pair of groups (a group with itself included) that can talk, sorted by (first, second).

    within: a number for each group; only pairs of equal numbers between which the snapshot lists a link are wanted
    """
    position = np.zeros(len(graph.nodes), dtype=np.int64)
    for at, group in enumerate(groups):
        position[list(group.members)] = at
    buckets = _sample_buckets(graph, position, len(groups))
    if within is None:
        pairs = list(combinations_with_replacement(range(len(groups)), 2))
    else:
        pairs = [pair for pair in sorted(buckets) if within[pair[0]] == within[pair[1]]]
    links = (_between(graph, groups, pair, buckets.get(pair)) for pair in pairs)
    return tuple(link for link in links if link is not None)


def _grouped(graph: ClusterGraph, keys: list[str]) -> tuple[Group, ...]:
    members: dict[str, list[int]] = defaultdict(list)
    for index in range(len(graph.nodes)):
        members[keys[index]].append(index)
    return tuple(Group(name or NO_DOMAIN, tuple(members[name])) for name in sorted(members))


def _sample_buckets(graph: ClusterGraph, position: IntArray, groups: int) -> dict[tuple[int, int], IntArray]:
    """Indices into `graph.links` by pair of groups."""
    links = graph.links
    if not len(links.key):
        return {}
    source, destination = position[links.key // len(graph.nodes)], position[links.key % len(graph.nodes)]
    pair = np.minimum(source, destination) * groups + np.maximum(source, destination)
    order = np.argsort(pair, kind="stable")
    values, starts = np.unique(pair[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {(int(value) // groups, int(value) % groups): part for value, part in zip(values, parts, strict=True)}


def _between(graph: ClusterGraph, groups: tuple[Group, ...], pair: tuple[int, int], bucket: IntArray | None) -> GroupLink | None:
    first, second = groups[pair[0]], groups[pair[1]]
    if pair[0] == pair[1] and len(first.members) == 1:
        return None
    if bucket is None and graph.snapshot.absent_links is AbsentLink.UNREACHABLE:
        return None
    ends = np.array([[first.members[0]], [second.members[-1]]], dtype=np.int64)
    tier = int(graph.common_tier(ends[0], ends[1])[0, 0])
    latency = _usable(graph.links.latency_seconds, bucket)
    bandwidth = _usable(graph.links.bandwidth_bytes_per_second, bucket)
    return GroupLink(
        first=pair[0],
        second=pair[1],
        latency_seconds=float(np.median(latency)) if len(latency) else float(graph.tiers.latency_seconds[tier]),
        bandwidth_bytes_per_second=float(np.median(bandwidth)) if len(bandwidth) else float(graph.tiers.bandwidth_bytes_per_second[tier]),
        latency_samples=len(latency),
        bandwidth_samples=len(bandwidth),
    )


def _usable(figures: FloatArray, bucket: IntArray | None) -> FloatArray:
    chosen = figures[bucket] if bucket is not None else figures[:0]
    return chosen[np.isfinite(chosen)]
