"""What a plan's epoch waits for, by name, and what one allreduce over it costs. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.plan import AllreduceCost
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.choice.used_nodes import UsedNodes
from hyperscale.planner.cost.collectives import allreduce
from hyperscale.planner.cost.epoch_parts import Resource, ResourceKind, bounding_resource
from hyperscale.planner.cost.ring_hops import slowest_hops
from hyperscale.planner.problem.machine_costs import uplink_name

ESTIMATED: Final = " (estimated)"
"""Ends the name of a link that was not measured."""
FASTER_CARDS: Final = 1.1
"""Times as fast as a link from which the cards at its ends are not what is waited for."""
MOSTLY: Final = 0.5
"""Part of a rank's compute from which its host is named."""


def bounded_by(used: UsedNodes, share: FloatArray, slowest_worker: int) -> str:
    """Name of the resource that an epoch of a placement waits for longest; share: (k,) parts of the vertices."""
    resource = bounding_resource(used.costs, used.places, share, slowest_worker)
    if resource.kind is ResourceKind.CARD:
        resource = _card_or_link(used, share, resource.nodes[0])
    names = [used.problem.names[used.members[node]] for node in resource.nodes]
    if resource.kind is ResourceKind.LINK:
        measured = used.links.measured[resource.nodes[0], resource.nodes[1]]
        return f"link {names[0]} to {names[1]}{'' if measured else ESTIMATED}"
    if resource.kind is ResourceKind.UPLINK:
        return f"uplink {uplink_name(used.problem.machine, *resource.uplink)}"
    if resource.kind is ResourceKind.OVERHEAD:
        return "overhead of steps"
    if resource.kind is ResourceKind.COMPUTE and used.problem.host_ratio[used.members[resource.nodes[0]]] > MOSTLY:
        return f"host of {names[0]}"
    return f"{resource.kind} of {names[0]}" if names else str(resource.kind)


def _card_or_link(used: UsedNodes, share: FloatArray, node: int) -> Resource:
    """What boundary data leaves a node by: its cards, or where the cards of both ends carry more, the link to the slowest partner."""
    machine, per_byte = used.problem.machine, used.costs.seconds_per_byte[node]
    seconds = np.bincount(used.places, weights=share, minlength=len(used.members)) * per_byte
    seconds[node] = 0.0
    partner = int(np.argmax(seconds))
    if machine.card_bytes_per_second is None:
        return Resource(ResourceKind.CARD, (node,))
    ends = used.problem.nodes[used.members[[node, partner]]]
    carried = float((machine.card_bytes_per_second[ends] * machine.cards_left_ratio[ends]).min())
    if np.isfinite(carried) and carried * float(per_byte[partner]) > FASTER_CARDS:
        return Resource(ResourceKind.LINK, (node, partner))
    return Resource(ResourceKind.CARD, (node,))


def allreduce_cost(used: UsedNodes) -> AllreduceCost:
    """Of one allreduce of all ranks, by the algorithm that is fastest for the whole gradient: its slowest hop sets the pace."""
    costs, places = used.costs, used.places
    ranks = costs.ranks(len(places))
    if ranks == 1:
        return AllreduceCost(0.0, 0.0, measured=True)
    hops = slowest_hops(costs, places[None, :])
    nodes, between, inside, per_byte, inside_per_byte, sharp = (figure[0].item() for figure in hops)
    by_algorithm = [
        (
            way.base_seconds + way.between_hops * between + way.inside_hops * inside,
            max(way.byte_factor * per_byte, way.inside_byte_factor * inside_per_byte),
        )
        for way in allreduce(ranks, nodes, costs.sharp_efficiencies[sharp])
    ]
    latency, a_byte = min(by_algorithm, key=lambda way: way[0] + way[1] * costs.workload.gradient_bytes)
    measured = used.links.measured
    hops_measured = measured[places, np.roll(places, -1)].all()
    return AllreduceCost(
        latency_seconds=rounded(latency),
        seconds_per_byte=rounded(a_byte),
        measured=bool(hops_measured and (costs.gpus_per_worker == 1 or measured.diagonal().all())),
    )
