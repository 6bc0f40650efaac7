"""What a plan's epoch waits for, by name, and what one allreduce over it costs. Pure."""

from __future__ import annotations

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.plan import AllreduceCost
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.cost.collectives import allreduce
from hyperscale.planner.cost.epoch_parts import ResourceKind, bounding_resource
from hyperscale.planner.cost.ring_hops import slowest_hops
from hyperscale.planner.problem.machine_costs import uplink_name
from hyperscale.planner.problem.placement_problem import Problem


def bounded_by(problem: Problem, order: IntArray, share: FloatArray, slowest_worker: int) -> str:
    """Name of the resource that an epoch of `order` (k,) candidates waits for longest; share: (k,) parts of the vertices."""
    members, positions = np.unique(order, return_inverse=True)
    resource = bounding_resource(problem.costs(members), positions, share, slowest_worker)
    names = [problem.names[members[node]] for node in resource.nodes]
    if resource.kind is ResourceKind.LINK:
        return f"link {names[0]} to {names[1]}"
    if resource.kind is ResourceKind.UPLINK:
        return f"uplink {uplink_name(problem.machine, *resource.uplink)}"
    if resource.kind is ResourceKind.OVERHEAD:
        return "overhead of steps"
    return f"{resource.kind} of {names[0]}" if names else str(resource.kind)


def allreduce_cost(problem: Problem, order: IntArray) -> AllreduceCost:
    """Of one allreduce of all ranks, by the algorithm that is fastest for the whole gradient: its slowest hop sets the pace."""
    members, positions = np.unique(order, return_inverse=True)
    costs = problem.costs(members)
    ranks = costs.ranks(len(order))
    if ranks == 1:
        return AllreduceCost(0.0, 0.0, measured=True)
    hops = slowest_hops(costs, positions[None, :])
    nodes, between, inside, per_byte, inside_per_byte, sharp = (figure[0].item() for figure in hops)
    by_algorithm = [
        (
            way.base_seconds + way.between_hops * between + way.inside_hops * inside,
            max(way.byte_factor * per_byte, way.inside_byte_factor * inside_per_byte),
        )
        for way in allreduce(ranks, nodes, costs.sharp_efficiencies[sharp])
    ]
    latency, a_byte = min(by_algorithm, key=lambda way: way[0] + way[1] * problem.workload.gradient_bytes)
    pairs = np.arange(len(order)), np.roll(np.arange(len(order)), -1)
    measured = problem.graph.link_costs(problem.nodes[order]).measured
    measured_links = [measured[pairs], *([measured.diagonal()] if costs.gpus_per_worker > 1 else [])]
    return AllreduceCost(
        latency_seconds=rounded(latency),
        seconds_per_byte=rounded(a_byte),
        measured=bool(np.concatenate(measured_links).all()),
    )
