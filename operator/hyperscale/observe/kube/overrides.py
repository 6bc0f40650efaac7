"""What an administrator says of nodes and links, and topology of others, laid over what the nodes say themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from hyperscale.model.api.policy import LinkOverride, NodeOverride, Overrides
from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Origin, Quality, Sample

MAX_PAIRS: Final = 50_000
"""Links that overrides may describe: two domains of 220 nodes in both directions. A wider word is cut off and said to be."""
MAX_MESSAGE: Final = 1024
"""Letters of a metrics state's message."""

Pair = tuple[str, str]


def by_name(overrides: Overrides) -> dict[str, NodeOverride]:
    """Overrides of nodes by name."""
    return {override.name: override for override in overrides.nodes}


def spoken_for(
    snapshot: ClusterSnapshot, domains: Mapping[str, Mapping[str, str]], overrides: Overrides
) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """The snapshot as the administrator knows it but for topology, and notes on what could not be used; its metrics state tells them too.

    domains: topology label values of every node, by node name
    """
    said = by_name(overrides)
    links, notes = linked(snapshot.links, domains, overrides)
    gone = sorted(said.keys() - domains.keys())
    if gone:
        notes = (*notes, f"overrides speak of nodes that are not there ({gone[0]}{f' and {len(gone) - 1} more' if gone[1:] else ''})")
    notes = (*notes, *_absent_domains(domains, overrides))
    message = "; ".join(text for text in (snapshot.metrics.message, *notes) if text)[:MAX_MESSAGE]
    nodes = tuple(overridden(node, said.get(node.name)) for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes, links=links, metrics=replace(snapshot.metrics, message=message)), notes


def _absent_domains(domains: Mapping[str, Mapping[str, str]], overrides: Overrides) -> Iterator[str]:
    """A note on every uplink whose domain no node is in. A domain has its label's value as name, the wider ones may stand before."""
    for uplink in overrides.uplinks:
        value = uplink.domain.rpartition("/")[2]
        if not any(label and value in ("", label) for label in (labels.get(uplink.level) for labels in domains.values())):
            yield f"overrides of uplinks name no domain of this cluster ({uplink.domain or 'every domain'} of {uplink.level})"


def overridden(node: Node, override: NodeOverride | None) -> Node:
    """`node` with what the administrator says of its GPUs; its domains are made from `NodeOverride.topology` before."""
    if override is None:
        return node
    sources = dict(node.sources)
    if override.gpu_product is not None:
        sources["gpuProduct"] = Origin.OVERRIDE.value
        node = replace(node, gpu_product=override.gpu_product)
    if override.gpu_memory is not None:
        sources["gpuMemoryBytes"] = Origin.OVERRIDE.value
        node = replace(node, gpu_memory_bytes=override.gpu_memory)
    if override.network_bytes_per_second is not None:
        # All cards together, unless networkCards says how many there are.
        node = replace(node, network_bytes_per_second=_said(override.network_bytes_per_second), network_cards=None)
        sources.pop("networkCards", None)
    if override.network_cards is not None:
        sources["networkCards"] = Origin.OVERRIDE.value
        node = replace(node, network_cards=override.network_cards)
    return replace(node, sources=sources)


def linked(
    links: tuple[Link, ...], domains: Mapping[str, Mapping[str, str]], overrides: Overrides
) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """Links with what the administrator says of them, sorted by pair, and notes on what could not be used.

    domains: topology label values of every node, by node name
    """
    if not overrides.links:
        return links, ()
    by_pair = {(link.source, link.destination): link for link in links}
    done: dict[Pair, set[str]] = {}
    notes: list[str] = []
    pairs = 0
    # Nodes before domains; sorted() keeps the order of the list otherwise.
    for override in sorted(overrides.links, key=lambda entry: entry.level is not None):
        named = 0
        for pair in _pairs(override, domains):
            named += 1
            pairs += 1
            if pairs > MAX_PAIRS:
                notes.append(f"overrides of links describe more than {MAX_PAIRS:,} pairs: the rest is left out")
                return _sorted(by_pair), tuple(notes)
            _put(by_pair, done.setdefault(pair, set()), pair, override)
        if not named:
            notes.append(f"an override names no link of this cluster ({override.source} to {override.destination})")
    return _sorted(by_pair), tuple(notes)


def _put(by_pair: dict[Pair, Link], done: set[str], pair: Pair, override: LinkOverride) -> None:
    """Write those figures of one link that no override before has written."""
    link = by_pair.get(pair, Link(*pair))
    for figure in ("latency_seconds", "bandwidth_bytes_per_second"):
        value = getattr(override, figure)
        if value is not None and figure not in done:
            done.add(figure)
            link = replace(link, **{figure: _said(value)})
    by_pair[pair] = link


def _pairs(override: LinkOverride, domains: Mapping[str, Mapping[str, str]]) -> Iterator[Pair]:
    """Ordered pairs of nodes that an override speaks of, each once."""
    if override.level is None:
        ends = [[name] if name in domains else [] for name in (override.source, override.destination)]
    else:
        ends = [
            [name for name, labels in sorted(domains.items()) if labels.get(override.level) == value]
            for value in (override.source, override.destination)
        ]
    one_domain = override.source == override.destination
    for source in ends[0]:
        for destination in ends[1]:
            if source != destination:
                yield source, destination
                if not (override.one_way or one_domain):
                    yield destination, source


def _sorted(by_pair: Mapping[Pair, Link]) -> tuple[Link, ...]:
    return tuple(link for _, link in sorted(by_pair.items()))


def _said(value: float) -> Sample:
    return Sample(value=value, age_seconds=None, quality=Quality.ESTIMATED, source=Origin.OVERRIDE)


OWN: Final = "ownLabels"
"""In metadata: the labels that the API server has, where others were laid over them."""
GIVEN_BY: Final = "topologyGivenBy"

RawNode = Mapping[str, Any]


def overlaid(nodes: Iterable[RawNode], overrides: Overrides, hypernodes: Mapping[str, Mapping[str, str]]) -> Iterable[RawNode]:
    """`nodes` with labels of HyperNodes behind, and those of overrides before, their own; untouched ones are the same objects.

    hypernodes: labels by node name, see `fabric.FabricClaims`
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
