"""Ways between the GPUs of a node as the node agents tell them: nodes joined worse than their like, and pairs without NVLink. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from hyperscale.doctor.common import labels_of, name_of
from hyperscale.doctor.facts import Facts, Ways, or_empty
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding, finding, plural, some
from hyperscale.observe.kube.node_labels import gpu_product

NVLINK: Final = "NVLink"
BETWEEN_PROCESSORS: Final = "System"
KINDS: Final = (NVLINK, "PcieSwitch", "PcieBridge", "Socket", BETWEEN_PROCESSORS)
"""The agent's kinds of ways, best first."""
NONE: Final = Ways(0, 0)

Node = Mapping[str, Ways]
"""Ways of one node, by kind."""


class _Class(NamedTuple):
    """Nodes that should be joined alike. Nodes with GPUs that an agent cannot read make a class of their own."""

    product: str
    pairs: int
    """Ordered pairs of GPUs."""


def gpu_paths(facts: Facts) -> list[Finding | None]:
    """One finding for each class with nodes joined worse than most, and for each in which NVLink leaves pairs of GPUs out."""
    findings: list[Finding | None] = []
    for alike, nodes in sorted(_classes(facts).items()):
        usual = _usual(nodes)
        worse = {name: node for name, node in nodes.items() if _fewer(node, usual)}
        mixed = {name: node for name, node in nodes.items() if name not in worse and NVLINK in node and BETWEEN_PROCESSORS in node}
        findings += [_worse(alike, worse, usual) if worse else None, _mixed(alike, mixed) if mixed else None]
    return findings


def _classes(facts: Facts) -> dict[_Class, dict[str, Node]]:
    """The cluster's nodes of which there are ways, by class and name."""
    classes: dict[_Class, dict[str, Node]] = {}
    for raw in or_empty(facts.nodes):
        node = facts.metrics.ways.get(name_of(raw))
        if node:
            alike = _Class(gpu_product(labels_of(raw)) or "unknown product", sum(ways.pairs for ways in node.values()))
            classes.setdefault(alike, {})[name_of(raw)] = node
    return classes


def _usual(nodes: Mapping[str, Node]) -> Ways:
    """NVLinks of more than half of the nodes; NONE where no such majority is."""
    (ways, count), *_ = Counter(node.get(NVLINK, NONE) for node in nodes.values()).most_common(1)
    return ways if 2 * count > len(nodes) else NONE


def _fewer(node: Node, usual: Ways) -> bool:
    """Of a majority without pairs there is nothing to miss."""
    own = node.get(NVLINK, NONE)
    return bool(usual.pairs) and (own.pairs < usual.pairs or own.links < usual.links)


def _worse(alike: _Class, nodes: Mapping[str, Node], usual: Ways) -> Finding:
    shown = some(f"{name} ({_shown(node)})" for name, node in nodes.items())
    return finding(
        Fault.GPU_PATHS_WORSE,
        f"GPUs of {plural(len(nodes), 'node')} of {_named(alike)} are joined worse than on most of these nodes: {shown}; "
        f"most: {NVLINK} {usual.pairs:,}, links: {usual.links:,}",
        "NVLinks are down, a bridge is missing or the fabric manager does not run; workers there exchange data more slowly than elsewhere",
        "nvidia-smi nvlink --status and nvidia-smi topo -m on the node; drain it, then reset its GPUs, "
        "restart nvidia-fabricmanager (NVSwitch) or reseat the bridge",
        nodes,
    )


def _mixed(alike: _Class, nodes: Mapping[str, Node]) -> Finding:
    shown = some(f"{name} ({_shown(node)})" for name, node in nodes.items())
    return finding(
        Fault.GPU_PATHS_MIXED,
        f"on {plural(len(nodes), 'node')} of {_named(alike)} some GPUs have {NVLINK} and some pairs meet only between processors: {shown}",
        "NVLink bridges join some of the GPUs only; where they should join all, some are down",
        "let no worker have more GPUs than NVLink joins (nvidia.com/gpu in spec.workers.resources; nvidia-smi topo -m), and kubelets hand "
        "out neighbours (topologyManagerPolicy: best-effort); where all should be joined: nvidia-smi nvlink --status",
        nodes,
    )


def _named(alike: _Class) -> str:
    """`8 × NVIDIA-H100-80GB-HBM3`: of n GPUs there are n (n - 1) ordered pairs."""
    gpus = (1 + math.isqrt(1 + 4 * alike.pairs)) // 2
    return f"{gpus} × {alike.product}" if gpus * (gpus - 1) == alike.pairs else f"{alike.product}, {plural(alike.pairs, 'ordered pair')}"


def _shown(node: Node) -> str:
    """Ordered pairs by kind: `NVLink 42, System 14, links: 756`, best first, a later agent's kinds behind those that are known."""
    kinds = sorted(node, key=lambda kind: ([*KINDS, kind].index(kind), kind))
    counts = ", ".join(f"{kind} {node[kind].pairs:,}" for kind in kinds)
    return f"{counts}, links: {node[NVLINK].links:,}" if NVLINK in node else counts
