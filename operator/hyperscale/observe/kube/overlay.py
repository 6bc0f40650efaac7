"""Topology that is not on the nodes themselves, laid over them: an administrator's word, Volcano's HyperNodes. Pure.

A node gets further labels for its topology only. Its own labels stay beside them: a pod's node selector sees nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hyperscale.model.api.policy import Overrides
from hyperscale.model.cluster import Origin
from hyperscale.observe.kube.overrides import by_name

OWN: Final = "ownLabels"
"""In metadata: the labels that the API server has, where others were laid over them."""
GIVEN_BY: Final = "topologyGivenBy"

RawNode = Mapping[str, Any]


def overlaid(nodes: Iterable[RawNode], overrides: Overrides, hypernodes: Mapping[str, Mapping[str, str]]) -> Iterable[RawNode]:
    """`nodes` with labels of HyperNodes behind, and those of overrides before, their own; untouched ones are the same objects.

    hypernodes: labels by node name, see `fabric.Claims`
    """
    said = {name: override.topology for name, override in by_name(overrides).items() if override.topology}
    if not said and not hypernodes:
        return nodes
    return [_laid(node, said.get(node["metadata"]["name"], {}), hypernodes.get(node["metadata"]["name"], {})) for node in nodes]


def own_labels(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """The node's labels as the API server has them."""
    labels: Mapping[str, str] = metadata.get(OWN, metadata.get("labels")) or {}
    return labels


def topology_source(metadata: Mapping[str, Any], levels: Iterable[str]) -> str:
    """Where the node's domains come from: the first word in the precedence that gave one of them; "" where it has none."""
    labels = metadata.get("labels") or {}
    given = metadata.get(GIVEN_BY) or {}
    sources = [given.get(level, Origin.LABELS) for level in levels if labels.get(level)]
    order = list(Origin)
    return min(sources, key=order.index).value if sources else ""


def _laid(node: RawNode, said: Mapping[str, str], hypernodes: Mapping[str, str]) -> RawNode:
    if not said and not hypernodes:
        return node
    metadata = node["metadata"]
    own = metadata.get("labels") or {}
    given = {**dict.fromkeys((key for key in hypernodes if key not in own), Origin.HYPERNODE), **dict.fromkeys(said, Origin.OVERRIDE)}
    return {**node, "metadata": {**metadata, "labels": {**hypernodes, **own, **said}, OWN: own, GIVEN_BY: given}}
