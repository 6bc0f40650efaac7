"""Snapshot to ClusterGraph: nodes in name order, domains as codes, links in coordinate form. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Link, Node, Origin, Quality, Sample
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.graph import BoolArray, ClusterGraph, Estimates, FloatArray, IntArray, MeasuredLinks, Tiers
from hyperscale.planner.graph import completion, tiers
from hyperscale.planner.graph.filling import filling_paths
from hyperscale.planner.graph.inside import between_nodes, insides
from hyperscale.planner.graph.machine_resources import in_one_zone, machine, on_fabrics

POD_NETWORK: Final = "pod network"


def build(snapshot: ClusterSnapshot, policy: PolicySpec, *, fabrics: bool = True) -> ClusterGraph:
    """The graph of `snapshot`; the order of its nodes and links does not matter.

    policy: what it says of the inside of nodes and of uplinks; its quality limits were applied when the snapshot was taken
    fabrics: whether nodes of one fast network exchange over it
    Raises ValueError when two nodes share a name.
    """
    nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
    index = {node.name: position for position, node in enumerate(nodes)}
    if len(index) < len(nodes):
        raise ValueError("snapshot.nodes: two nodes have the same name; every name must be there once")
    domains = _domain_codes(nodes, len(snapshot.levels))
    assumed = tiers.constants(snapshot.levels)
    measured, by_agent = _measured_links(snapshot, index)
    tier_of_link = _tiers_of(measured.key, domains)
    inside = insides(nodes, policy)
    nvlink = _joined(between_nodes(nodes, inside), domains, tiers.accelerator_tiers(snapshot.levels)[1:])
    on_fabric = on_fabrics(nodes) if fabrics else np.zeros(len(nodes), dtype=np.int64)
    beside = _on_one(measured.key, on_fabric) & in_one_zone(assumed)[tier_of_link]
    beside |= _on_one(measured.key, (nvlink > 0.0).astype(np.int64)) & tiers.accelerator_tiers(snapshot.levels)[tier_of_link]
    links = _without_pod_network(measured, by_agent, beside)
    calibrated = tiers.calibrated(assumed, tier_of_link, links.latency_seconds, links.bandwidth_bytes_per_second)
    inner = _on_one(links.key, on_fabric)
    of_fabrics = tiers.calibrated(assumed, tier_of_link[inner], links.latency_seconds[inner], links.bandwidth_bytes_per_second[inner])
    shared = machine(nodes, assumed, calibrated, of_fabrics if fabrics else None, policy, nvlink)
    return ClusterGraph(
        snapshot=snapshot,
        digest=snapshot_digest(snapshot),
        nodes=nodes,
        index=index,
        domains=domains,
        tiers=calibrated,
        links=links,
        inside=inside,
        machine=filling_paths(shared, links, tier_of_link, calibrated, domains),
        estimates=_estimates(snapshot, domains, links, tier_of_link, calibrated),
    )


def on_pod_network(graph: ClusterGraph, policy: PolicySpec) -> ClusterGraph:
    """`graph` for pods that ask for no device of a fast network: agents' figures count between them, else the topology."""

    def with_nodes_of_now() -> ClusterGraph:
        slower: ClusterGraph = graph.networks.get(POD_NETWORK, lambda: build(graph.snapshot, policy, fabrics=False))
        if slower.digest == graph.digest:
            return slower
        return replace(slower, snapshot=graph.snapshot, digest=graph.digest, nodes=graph.nodes)

    pods: ClusterGraph = graph.results.get(POD_NETWORK, with_nodes_of_now)
    return pods


def _estimates(
    snapshot: ClusterSnapshot, domains: IntArray, links: MeasuredLinks, tier_of_link: IntArray, tiers: Tiers
) -> Estimates | None:
    """What the measured links say about the others; nothing where a source lists every link there is."""
    if snapshot.absent_links is not AbsentLink.ESTIMATE:
        return None
    figures = links.latency_seconds, links.bandwidth_bytes_per_second
    return completion.fit(domains, links.key, tier_of_link, figures, (tiers.latency_seconds, tiers.bandwidth_bytes_per_second))


def _domain_codes(nodes: tuple[Node, ...], levels: int) -> IntArray:
    """(n, levels) number of each domain in name order, -1 without one."""
    codes = np.full((len(nodes), levels), -1, dtype=np.int64)
    for level in range(levels):
        names = [node.domains[level] if level < len(node.domains) else "" for node in nodes]
        numbers = {name: number for number, name in enumerate(sorted(set(names) - {""}))}
        codes[:, level] = [numbers.get(name, -1) for name in names]
    return codes


def _measured_links(snapshot: ClusterSnapshot, index: dict[str, int]) -> tuple[MeasuredLinks, BoolArray]:
    """Links between known, different nodes, sorted by key, and (m, 2) whether an agent told latency and bandwidth."""
    listed = [link for link in snapshot.links if link.source in index and link.destination in index and link.source != link.destination]
    source, destination = (np.array([index[name] for name in ends], dtype=np.int64) for ends in _ends(listed))
    key = source * len(index) + destination
    latency, by_agent, steady = _figures([link.latency_seconds for link in listed])
    bandwidth, also_by_agent, also_steady = _figures([link.bandwidth_bytes_per_second for link in listed])
    # Of a pair that is listed twice, against the rule, the same figures count whatever the order.
    order = np.lexsort((also_by_agent, by_agent, bandwidth, latency, key)) if (np.diff(key) <= 0).any() else slice(None)
    links = MeasuredLinks(key[order], latency[order], bandwidth[order], np.minimum(steady, also_steady)[order])
    return links, np.stack((by_agent, also_by_agent), axis=1)[order]


def _ends(links: Sequence[Link]) -> tuple[list[str], list[str]]:
    """Names of the sources of `links`, and of the destinations."""
    return [link.source for link in links], [link.destination for link in links]


def _figures(samples: Sequence[Sample]) -> tuple[FloatArray, BoolArray, FloatArray]:
    """(m,) values of samples, NaN where they may not be used, whether an agent told them, and their confidence, 1 where it is unknown."""
    values = np.array([math.nan if sample.value is None else sample.value for sample in samples], dtype=np.float64)
    unknown = np.array([sample.quality is Quality.UNKNOWN for sample in samples], dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        unusable = unknown | ~np.isfinite(values) | (values < 0.0)
    by_agent = np.array([sample.source == Origin.AGENT for sample in samples], dtype=np.bool_)
    confidence = np.array([sample.confidence for sample in samples], dtype=np.float64)
    # An unknown figure has no confidence: its estimate is a fallback that is accounted for already.
    return np.where(unusable, math.nan, values), by_agent, np.where(confidence > 0.0, confidence, 1.0)


def _on_one(key: IntArray, network: IntArray) -> BoolArray:
    """(m,) True where both ends of a link have the same number in `network` (n,), and not 0."""
    ends = network[key // max(1, len(network))], network[key % max(1, len(network))]
    one: BoolArray = (ends[0] == ends[1]) & (ends[0] > 0)
    return one


def _joined(nvlink: FloatArray, domains: IntArray, accelerator: BoolArray) -> FloatArray:
    """(n,) `nvlink` of nodes that share a domain of a level in `accelerator` (levels,) with another such node; 0 for others."""
    joined = np.zeros(len(nvlink), dtype=np.bool_)
    for codes in domains[:, accelerator].T:
        members = np.where(nvlink > 0.0, codes, -1) + 1
        joined |= (members > 0) & (np.bincount(members)[members] > 1)
    return np.where(joined, nvlink, 0.0)


def _without_pod_network(links: MeasuredLinks, by_agent: BoolArray, fabric: BoolArray) -> MeasuredLinks:
    """`links` without the agents' figures between nodes of one fabric: agents measure the pod network, jobs use the fabric.

    A dead link stays dead. by_agent: (m, 2) who measured each figure · fabric: (m,) ends on one fabric, or in one NVLink domain
    """
    if not fabric.any():
        return links
    latency, bandwidth = links.latency_seconds, links.bandwidth_bytes_per_second
    return MeasuredLinks(
        key=links.key,
        latency_seconds=np.where(fabric & by_agent[:, 0], np.nan, latency),
        bandwidth_bytes_per_second=np.where(fabric & by_agent[:, 1] & (bandwidth != 0.0), np.nan, bandwidth),
        confidence=links.confidence,
        answered=np.isfinite(latency) | np.isfinite(bandwidth),
    )


def _tiers_of(keys: IntArray, domains: IntArray) -> IntArray:
    """(m,) narrowest tier that both ends of each link share; 0 where they share none."""
    source, destination = keys // max(1, len(domains)), keys % max(1, len(domains))
    tier = np.zeros(len(keys), dtype=np.int64)
    for level in range(domains.shape[1]):
        codes = domains[:, level]
        tier[(codes[source] == codes[destination]) & (codes[source] >= 0)] = level + 1
    return tier
