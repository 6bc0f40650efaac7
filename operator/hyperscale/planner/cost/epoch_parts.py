"""What the seconds of an epoch go to, in plain arithmetic: the reference of the cost model, and the resource that bounds a plan. Pure.

Formulas: docs/explanation/planner.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.costs import Costs, ExchangeVolumes, volumes
from hyperscale.util.float_sums import sum_in_order


class ResourceKind(StrEnum):
    """Of resources that an epoch waits for."""

    COMPUTE = "compute"
    CARD = "network card"
    INSIDE = "inside"
    LINK = "link"
    UPLINK = "uplink"
    LATENCY = "latency"
    OVERHEAD = "overhead"


class Resource(NamedTuple):
    """One of them."""

    kind: ResourceKind
    nodes: tuple[int, ...] = ()
    """Candidates: the node, or both ends of a link."""
    uplink: tuple[int, int] = (-1, -1)
    """Level and domain."""


class HopLoad(NamedTuple):
    """What is loaded most by an allreduce."""

    seconds_per_byte: float
    resource: Resource


@dataclass(frozen=True)
class HaloParts:
    """Seconds of a rank's boundary data."""

    card: float
    inside: float
    uplink: float
    """Of the slowest uplink that its domains share; it works beside the other two."""
    slowest_uplink: tuple[int, int]
    wait: float
    """Latency of the farthest partner, every round."""

    @property
    def seconds(self) -> float:
        """The sum."""
        return max(self.card + self.inside, self.uplink) + self.wait


@dataclass(frozen=True)
class AllreduceParts:
    """Seconds of an epoch's allreduces by the fastest algorithm."""

    latency: float
    """What the algorithm itself takes, counted."""
    transfer: float
    resource: Resource
    """That sets the pace of the bytes."""

    @property
    def seconds(self) -> float:
        """The sum."""
        return self.latency + self.transfer


def allreduce_parts(costs: Costs, order: IntArray, volume: ExchangeVolumes) -> AllreduceParts:
    """All allreduces of an epoch over `order` (k,) by the fastest algorithm; 0 for one rank.

    The slowest hop sets the pace (Patarasuk & Yuan 2009). Hops lead to the next GPU of a worker and then to the next worker. A node that
    the ring leaves c times gives each of these hops 1 / c of its cards; fewer ranks than fill the cards get only their part.
    """
    members = [int(node) for node in order]
    hops = [(members[at - 1], node) for at, node in enumerate(members)]
    apart = [(source, target) for source, target in hops if source != target]
    several = _crowded(costs, members)
    between = _largest(costs.latency_seconds, apart)
    inside = _largest(costs.latency_seconds, [(node, node) for node in several])
    none = HopLoad(0.0, Resource(ResourceKind.LATENCY))
    inner = [HopLoad(float(costs.seconds_per_byte[node, node]), Resource(ResourceKind.INSIDE, (node,))) for node in several]
    outer = [*_card_loads(costs, members, apart), *_uplink_loads(costs, apart)]
    within, across = (max(loads, key=lambda load: load.seconds_per_byte, default=none) for loads in (inner, outer))
    ways: list[AllreduceParts] = []
    for between_hops, inside_hops, between_bytes, inside_bytes, base in _ways(costs, members, volume):
        over, through = between_bytes * across.seconds_per_byte, inside_bytes * within.seconds_per_byte
        resource = across.resource if over >= through else within.resource
        ways.append(AllreduceParts(base + between_hops * between + inside_hops * inside, max(over, through), resource))
    return min(ways, key=lambda way: way.seconds)


def _ways(costs: Costs, members: list[int], volume: ExchangeVolumes) -> list[list[float]]:
    """Algorithms for these members, five figures each; switches add up only where those of all members do."""
    ways: list[list[float]] = volume.collectives[min(int(costs.sharp_class[node]) for node in members), len(set(members))].tolist()
    return ways


def _crowded(costs: Costs, members: list[int]) -> list[int]:
    """Nodes that have several ranks."""
    return [node for node in members if members.count(node) * costs.gpus_per_worker > 1]


def _largest(figures: FloatArray, pairs: list[tuple[int, int]]) -> float:
    """The largest of `figures` (m, m) over the pairs; 0 without any."""
    return max((float(figures[pair]) for pair in pairs), default=0.0)


def _card_loads(costs: Costs, members: list[int], hops: list[tuple[int, int]]) -> list[HopLoad]:
    """Of each hop between two nodes: of its link, or of a card that hops share or too few ranks fill."""
    left = [source for source, _ in hops]
    load = {node: left.count(node) * card_slowness(costs, node, members.count(node)) for node in members}
    loads: list[HopLoad] = []
    for source, target in hops:
        worse = source if load[source] >= load[target] else target
        by_card = load[worse] > 1.0
        resource = Resource(ResourceKind.CARD, (worse,)) if by_card else Resource(ResourceKind.LINK, (source, target))
        loads.append(HopLoad(float(costs.seconds_per_byte[source, target]) * load[worse], resource))
    return loads


def _uplink_loads(costs: Costs, hops: list[tuple[int, int]]) -> list[HopLoad]:
    """Of every uplink, which all hops that leave its domain share."""
    loads: list[HopLoad] = []
    for level, domains in enumerate(costs.uplink_domains.tolist()):
        left = [domains[source] for source, target in hops if domains[source] != domains[target] and domains[source] >= 0]
        for domain in sorted(set(left)):
            seconds = left.count(domain) * float(costs.uplink_seconds_per_byte[level, domain])
            loads.append(HopLoad(seconds, Resource(ResourceKind.UPLINK, (), (level, domain))))
    return loads


def card_slowness(costs: Costs, node: int, workers: int) -> float:
    """How many times slower than full the cards of a node are with `workers` workers."""
    return max(1.0, float(costs.filling_workers[node]) / workers)


def halo_parts(costs: Costs, order: IntArray, share: FloatArray, worker: int, volume: ExchangeVolumes) -> HaloParts:
    """Boundary data of one rank of a worker. Bytes to ranks of its own node use the intra-node links; bytes to others use the node's cards.

    All ranks of the node send through its cards, so that each waits for the bytes of all, and longer where they are too few to fill them.
    What leaves a domain shares its uplinks. And the farthest partner's latency every round.
    """
    gpus, node = costs.gpus_per_worker, int(order[worker])
    if costs.ranks(len(order)) == 1:
        return HaloParts(0.0, 0.0, 0.0, (-1, -1), 0.0)
    members, parts = np.asarray(order).tolist(), np.asarray(share).tolist()
    rank = parts[worker] / gpus
    bytes_a_share = volume.halo_bytes / max(1e-12, 1.0 - sum_in_order([part**2 / gpus for part in parts]))
    of_node = sum_in_order([part for part, other in zip(parts, members, strict=True) if other == node])
    by_card = _by_card(costs, members, parts, node) * of_node
    by_inside = rank * (of_node - rank) * float(costs.seconds_per_byte[node, node])
    uplink, slowest = max(_uplinks_of(costs, members, parts, node), default=(0.0, (-1, -1)))
    partners = members if gpus > 1 else members[:worker] + members[worker + 1 :]
    waits = costs.latency_seconds[node].tolist()
    wait = volume.rounds * max([waits[other] for other in partners], default=0.0)
    return HaloParts(bytes_a_share * by_card, bytes_a_share * by_inside, bytes_a_share * uplink, slowest, wait)


def _by_card(costs: Costs, members: list[int], parts: list[float], node: int) -> float:
    """Seconds per byte to the other nodes, times the shares there; longer where few workers leave the node's cards partly idle."""
    per_byte = costs.seconds_per_byte[node].tolist()
    there = sum_in_order([part * per_byte[other] for part, other in zip(parts, members, strict=True) if other != node])
    return there * card_slowness(costs, node, members.count(node))


def _uplinks_of(costs: Costs, members: list[int], parts: list[float], node: int) -> list[tuple[float, tuple[int, int]]]:
    """By level: seconds per byte of what leaves the domain of `node`, times the shares that exchange it, and which that is."""
    leaving: list[tuple[float, tuple[int, int]]] = []
    for level, domains in enumerate(costs.uplink_domains.tolist()):
        domain = domains[node]
        if domain >= 0:
            mass = sum_in_order(part for part, other in zip(parts, members, strict=True) if domains[other] == domain)
            leaving.append((mass * (1.0 - mass) * float(costs.uplink_seconds_per_byte[level, domain]), (level, domain)))
    return leaving


def bounding_resource(costs: Costs, order: IntArray, share: FloatArray, worker: int) -> Resource:
    """The resource for which an epoch of `order` (k,) waits longest; worker: the slowest one, as `Breakdown` has it.

    share: (k,) part of the vertices of each worker. What boundary data and allreduce take of the same resource is added up.
    """
    volume, node = volumes(costs, len(order)), int(order[worker])
    compute = float(share[worker] * costs.workload.epoch_flops / costs.flops_per_second[node])
    halo = halo_parts(costs, order, share, worker, volume)
    seconds = {Resource(ResourceKind.COMPUTE, (node,)): compute}
    seconds[Resource(ResourceKind.OVERHEAD)] = volume.steps * costs.workload.step_overhead_seconds
    latency = halo.wait
    if halo.uplink > halo.card + halo.inside:
        seconds[Resource(ResourceKind.UPLINK, (), halo.slowest_uplink)] = halo.uplink
    else:
        seconds[Resource(ResourceKind.CARD, (node,))] = halo.card
        seconds[Resource(ResourceKind.INSIDE, (node,))] = halo.inside
    if costs.ranks(len(order)) > 1:
        ring = allreduce_parts(costs, order, volume)
        seconds[ring.resource] = seconds.get(ring.resource, 0.0) + ring.transfer
        latency += ring.latency
    seconds[Resource(ResourceKind.LATENCY)] = latency
    return max(seconds, key=lambda resource: seconds[resource])
