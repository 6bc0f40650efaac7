"""What a plan assumes of several workers on one node. Pure."""

from __future__ import annotations

import numpy as np

from hyperscale.model.products import stated
from hyperscale.planner.choice.used_nodes import UsedNodes


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
