"""Nodes of a cluster graph by topology domain, and the figures of the links between two domains. Pure."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.cluster import AbsentLink
from hyperscale.model.graph import ClusterGraph, FloatArray, IntArray

NO_DOMAIN: Final = "(no label)"

Domains = dict[str, list[int]]
"""Indices into `ClusterGraph.nodes`, ascending, by name of the domain, sorted; "" for nodes without that label."""


class DomainPair(msgspec.Struct, frozen=True, rename="camel"):
    """Median figures between two domains, or inside one, both directions together."""

    first: str
    second: str
    latency_seconds: float
    bandwidth_bytes_per_second: float
    latency_samples: int
    """Directed links with a known latency; 0 where it is an estimate from the topology level."""
    bandwidth_samples: int
    """Directed links with a known bandwidth; 0 where it is an estimate from the topology level."""


def by_level(graph: ClusterGraph, level: int) -> Domains:
    """The domains of `level` (0 = widest)."""
    domains: Domains = {}
    for index, node in enumerate(graph.nodes):
        domains.setdefault(node.domains[level] if level < len(node.domains) else "", []).append(index)
    return dict(sorted(domains.items()))


def widest(graph: ClusterGraph, most: int) -> Domains:
    """The widest level that tells nodes apart, in at most `most` domains; one domain `cluster` where no level does."""
    levels = (by_level(graph, level) for level in range(len(graph.snapshot.levels)))
    return next((domains for domains in levels if 2 <= len(domains) <= most), {"cluster": list(range(len(graph.nodes)))})


def domain_pairs(graph: ClusterGraph, domains: Domains) -> tuple[DomainPair, ...]:
    """One entry per pair of domains (a domain with itself included) that can talk, in the order of the domains."""
    position = np.zeros(len(graph.nodes), dtype=np.int64)
    for at, members in enumerate(domains.values()):
        position[members] = at
    samples = _samples(graph, position, len(domains))
    pairs = (
        _pair(graph, [*domains.items()][first], [*domains.items()][second], samples.get((first, second)))
        for first, second in combinations_with_replacement(range(len(domains)), 2)
    )
    return tuple(pair for pair in pairs if pair is not None)


def _samples(graph: ClusterGraph, position: IntArray, domains: int) -> dict[tuple[int, int], IntArray]:
    """Indices into `graph.links` by pair of domains."""
    links = graph.links
    if not len(links.key):
        return {}
    source, destination = position[links.key // len(graph.nodes)], position[links.key % len(graph.nodes)]
    pair = np.minimum(source, destination) * domains + np.maximum(source, destination)
    order = np.argsort(pair, kind="stable")
    values, starts = np.unique(pair[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {(int(value) // domains, int(value) % domains): part for value, part in zip(values, parts, strict=True)}


def _pair(graph: ClusterGraph, first: tuple[str, list[int]], second: tuple[str, list[int]], samples: IntArray | None) -> DomainPair | None:
    if first == second and len(first[1]) == 1:
        return None
    if samples is None and graph.snapshot.absent_links is AbsentLink.UNREACHABLE:
        return None
    ends = np.array([[first[1][0]], [second[1][-1]]], dtype=np.int64)
    tier = int(graph.common_tier(ends[0], ends[1])[0, 0])
    latency, bandwidth = (_usable(figures, samples) for figures in (graph.links.latency_seconds, graph.links.bandwidth_bytes_per_second))
    return DomainPair(
        first=first[0] or NO_DOMAIN,
        second=second[0] or NO_DOMAIN,
        latency_seconds=float(np.median(latency) if len(latency) else graph.tiers.latency_seconds[tier]),
        bandwidth_bytes_per_second=float(np.median(bandwidth) if len(bandwidth) else graph.tiers.bandwidth_bytes_per_second[tier]),
        latency_samples=len(latency),
        bandwidth_samples=len(bandwidth),
    )


def _usable(figures: FloatArray, samples: IntArray | None) -> FloatArray:
    chosen = figures[samples] if samples is not None else figures[:0]
    return chosen[np.isfinite(chosen)]
