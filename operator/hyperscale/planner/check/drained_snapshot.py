"""The cluster as it will be when all our running jobs have ended: what waiting could give at best. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph

IDLE = Sample(value=0.0, age_seconds=None, quality=Quality.ESTIMATED)


def emptied(graph: ClusterGraph, claims: Mapping[str, Claim]) -> ClusterGraph:
    """`graph` without the claims of our jobs, by node; pods of others stay. Links are as measured."""
    claimed = {name: claim for name, claim in sorted(claims.items()) if name in graph.index}
    if not claimed:
        return graph
    nodes = tuple(_emptied(node, claimed[node.name]) if node.name in claimed else node for node in graph.nodes)
    digest = hashlib.sha256(graph.digest.encode() + msgspec.json.encode(claimed)).hexdigest()
    return dataclasses.replace(graph, snapshot=replace(graph.snapshot, nodes=nodes), digest=digest, nodes=nodes)


def emptied_snapshot(snapshot: ClusterSnapshot, claims: Mapping[str, Claim]) -> ClusterSnapshot:
    """The snapshot of the same cluster."""
    return replace(snapshot, nodes=tuple(_emptied(node, claims[node.name]) if node.name in claims else node for node in snapshot.nodes))


def added(claims: Iterable[Mapping[str, Claim]]) -> dict[str, Claim]:
    """Claims of several jobs together."""
    total: dict[str, Claim] = {}
    for each in claims:
        for name, claim in each.items():
            before = total.get(name)
            total[name] = claim if before is None else before.plus(claim)
    return dict(sorted(total.items()))


def without(claims: Mapping[str, Claim], gone: Mapping[str, Claim]) -> dict[str, Claim]:
    """What is left of `claims`; never less than nothing."""
    return {name: had.minus(gone.get(name, Claim())) for name, had in claims.items()}


def _emptied(node: Node, claim: Claim) -> Node:
    return replace(
        node,
        requested_gpus=max(0, node.requested_gpus - claim.gpus),
        requested_cpu_cores=max(0.0, node.requested_cpu_cores - claim.cpu_cores),
        requested_memory_bytes=max(0, node.requested_memory_bytes - claim.memory_bytes),
        requested={name: max(0.0, amount - claim.further.get(name, 0.0)) for name, amount in node.requested.items()},
        gpus=_idle(node.gpus, claim.gpus),
    )


def _idle(gpus: tuple[Gpu, ...], count: int) -> tuple[Gpu, ...]:
    """The `count` busiest GPUs, which our jobs must be on, are idle."""
    use = [-1.0 if gpu.utilization_ratio.value is None else gpu.utilization_ratio.value for gpu in gpus]
    busiest = set(sorted(range(len(gpus)), key=lambda position: (-use[position], position))[:count])
    return tuple(
        replace(gpu, utilization_ratio=IDLE) if position in busiest and use[position] >= 0 else gpu for position, gpu in enumerate(gpus)
    )
