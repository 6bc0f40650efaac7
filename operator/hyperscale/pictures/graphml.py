"""A snapshot as GraphML: nodes and directed links with what is known of them, for Gephi, yEd, networkx. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Sample

Value = str | int | float | bool | None

NODE_KEYS: Final = {
    "product": "string",
    "gpus": "int",
    "freeGpus": "int",
    "gpuMemoryBytes": "long",
    "ready": "boolean",
    "schedulable": "boolean",
    "utilizationRatio": "double",
}
LINK_KEYS: Final = {
    "latencySeconds": "double",
    "latencyQuality": "string",
    "latencySource": "string",
    "latencyConfidence": "double",
    "bandwidthBytesPerSecond": "double",
    "bandwidthQuality": "string",
    "bandwidthSource": "string",
    "bandwidthConfidence": "double",
}
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
_FORBIDDEN: Final = {code: None for code in (*range(32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF) if code not in (9, 10, 13)}
"""Characters that XML cannot hold."""


def graphml(snapshot: ClusterSnapshot) -> str:
    """The document; unknown figures are absent. Equal snapshots give equal texts."""
    return "".join(_document(snapshot))


def _document(snapshot: ClusterSnapshot) -> Iterator[str]:
    levels = {f"level:{label}": "string" for label in snapshot.levels}
    yield _HEAD
    for name, kind in {**NODE_KEYS, **levels}.items():
        yield f'  <key id={_attribute("n:" + name)} for="node" attr.name={_attribute(name)} attr.type="{kind}"/>\n'
    for name, kind in LINK_KEYS.items():
        yield f'  <key id="e:{name}" for="edge" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '  <graph id="cluster" edgedefault="directed">\n'
    names = {node.name for node in snapshot.nodes}
    for node in sorted(snapshot.nodes, key=lambda node: node.name):
        yield f"    <node id={_attribute(node.name)}>{_data('n', _node(node, snapshot.levels))}</node>\n"
    for link in sorted(snapshot.links, key=lambda link: (link.source, link.destination)):
        if link.source in names and link.destination in names:
            ends = f"source={_attribute(link.source)} target={_attribute(link.destination)}"
            yield f"    <edge {ends}>{_data('e', _link(link))}</edge>\n"
    yield "  </graph>\n</graphml>\n"


def _node(node: Node, levels: tuple[str, ...]) -> dict[str, Value]:
    used = [gpu.utilization_ratio.value for gpu in node.gpus if gpu.utilization_ratio.value is not None]
    return {
        "product": node.gpu_product,
        "gpus": node.allocatable_gpus,
        "freeGpus": node.free_gpus,
        "gpuMemoryBytes": node.gpu_memory_bytes,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "utilizationRatio": sum(used) / len(used) if used else None,
        **{f"level:{label}": domain or None for label, domain in zip(levels, node.domains, strict=False)},
    }


def _link(link: Link) -> dict[str, Value]:
    return {
        "latencySeconds": link.latency_seconds.value,
        **_known("latency", link.latency_seconds),
        "bandwidthBytesPerSecond": link.bandwidth_bytes_per_second.value,
        **_known("bandwidth", link.bandwidth_bytes_per_second),
    }


def _known(prefix: str, sample: Sample) -> dict[str, Value]:
    """How far a figure may be trusted."""
    return {f"{prefix}Quality": str(sample.quality), f"{prefix}Source": sample.source or None, f"{prefix}Confidence": sample.confidence}


def _data(kind: str, values: Mapping[str, Value]) -> str:
    return "".join(f"<data key={_attribute(f'{kind}:{name}')}>{_text(value)}</data>" for name, value in values.items() if value is not None)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(str(value).translate(_FORBIDDEN))


def _attribute(text: str) -> str:
    return quoteattr(text.translate(_FORBIDDEN))
