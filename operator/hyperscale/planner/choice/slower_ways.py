"""Ways that ranks take, or may take, instead of the fastest: the pod network beside a fabric, a node's cards between its pods. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.model.products import stated
from hyperscale.planner.choice.used_nodes import UsedNodes
from hyperscale.planner.cost.objective import predict
from hyperscale.planner.graph.machine_resources import cards_of

FABRIC_NOT_REQUESTED: Final = "FabricNotRequested"


def fabric_not_requested(used: UsedNodes) -> bool:
    """Whether the pods ask for no device of a fast network that would make the job notably faster."""
    return used.fabric_gain is not None


def not_requested(used: UsedNodes) -> str:
    """What a person can do about a fast network that the pods do not ask for; empty where they do, or none would help."""
    gain = used.fabric_gain
    if gain is None:
        return ""
    nodes = "one node" if gain.nodes == 1 else f"{gain.nodes} nodes"
    where = "this placement" if gain.same else f"{gain.workers} worker{'s' if gain.workers > 1 else ''} on {nodes}"
    return (
        "The pods ask for no device of the nodes' fast network, so the plan counts on the pod network."
        f" With one an epoch would take {100.0 * gain.ratio:.3g} % of the time by {where}."
        " Ask for one in spec.workers.resources.limits, such as rdma/hca or vpc.amazonaws.com/efa."
    )


def slower_exchange_seconds(used: UsedNodes) -> float:
    """Seconds of an epoch's communication where ranks take the slower ways; 0 where there are none."""
    shared = shared_by_pods(used)
    if not shared:
        return 0.0
    per_byte = used.costs.seconds_per_byte.copy()
    per_byte[shared, shared] = np.maximum(per_byte[shared, shared], _by_cards(used)[shared])
    return predict(replace(used.costs, seconds_per_byte=per_byte), used.places).communication_seconds


def _by_cards(used: UsedNodes) -> FloatArray:
    """(p,) seconds per byte of a rank that exchanges with others of its node over one network card, else a narrowest estimated link."""
    problem = used.problem
    estimate = float(problem.graph.tiers.bandwidth_bytes_per_second[-1])
    cards = [cards_of(problem.graph.nodes[position]).bytes_per_second for position in problem.nodes[used.members]]
    return np.array([1.0 / (estimate if rate is None else rate) for rate in cards])


def shared_by_pods(used: UsedNodes) -> list[int]:
    """Places in `used.members` of nodes with several pods, of whose inside the policy says nothing."""
    problem = used.problem
    rates = {model.product: model.intra_node_bytes_per_second for model in problem.policy.gpus}
    products = [problem.graph.nodes[position].gpu_product for position in problem.nodes[used.members]]
    return [place for place in np.flatnonzero(used.workers > 1).tolist() if stated(products[place], rates) is None]


def between_pods(used: UsedNodes) -> str:
    """A sentence where pods of one node exchange, as fast as GPUs of one pod by the cost model; empty where none do.

    NCCL shares GPU memory, and with it NVLink, only between processes that see each other's GPUs (nccl#324, nccl#945). Where the policy
    states how fast the inside of a node is, that is what the owner of the nodes knows.
    """
    shared, nodes = shared_by_pods(used), [used.problem.graph.nodes[used.problem.nodes[member]] for member in used.members]
    if not shared:
        return ""
    most = max(shared, key=lambda place: int(used.workers[place]))
    more = f" (and {len(shared) - 1} more nodes share theirs)" if len(shared) > 1 else ""
    return (
        f"{nodes[most].name} holds {int(used.workers[most])} workers{more}, each a pod. The plan counts their exchange at the speed inside"
        " the node, but NCCL may take the network between pods. One worker with all these GPUs would stay inside."
    )
