"""A policy's overrides laid over a snapshot that was read from a file, with the outcome that a live cluster would have had. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hyperscale.model.api.policy import Overrides, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Node, Origin
from hyperscale.observe.kube.node_labels import detect_levels, domains
from hyperscale.observe.kube.overrides import by_name, spoken_for


def with_overrides(snapshot: ClusterSnapshot, policy: PolicySpec) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """The snapshot as `policy`'s administrator knows it, and notes on overrides that fit nothing. Laid twice, they change nothing more.

    Topology labels that none of the snapshot's levels has become levels as in a live cluster: as the policy lists them, else by
    what is known of labels.
    """
    if policy.overrides == Overrides():
        return snapshot, ()
    said = {name: override.topology for name, override in by_name(policy.overrides).items() if override.topology}
    labels = {node.name: {**_labels(node, snapshot.levels), **said.get(node.name, {})} for node in snapshot.nodes}
    levels = snapshot.levels
    if not {key for topology in said.values() for key in topology} <= set(levels):
        levels = policy.topology_levels or detect_levels(labels.values(), declared=levels)
    if said:
        nodes = tuple(_placed(node, labels[node.name], levels, said.get(node.name, {})) for node in snapshot.nodes)
        snapshot = replace(snapshot, nodes=nodes, levels=levels)
    return spoken_for(snapshot, labels, policy.overrides)


def _placed(node: Node, labels: Mapping[str, str], levels: tuple[str, ...], said: Mapping[str, str]) -> Node:
    spoken = any(labels.get(level) for level in levels if level in said)
    sources = {**node.sources, "domains": Origin.OVERRIDE.value} if spoken else node.sources
    return replace(node, domains=domains(labels, levels), sources=sources)


def _labels(node: Node, levels: tuple[str, ...]) -> dict[str, str]:
    """The node's labels with those of its domains, of which each was prefixed with the next wider one (`node_labels.domains`)."""
    labels = dict(node.labels)
    parent = ""
    for level, domain in zip(levels, node.domains, strict=False):
        if domain:
            labels[level] = domain.removeprefix(f"{parent}/") if parent else domain
        parent = domain or (f"{parent}/" if parent else "")
    return labels
