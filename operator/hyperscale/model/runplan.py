"""What a worker reads of the plan: the document that is mounted at HYPERSCALE_PLAN_FILE (docs/reference/runplan.schema.json)."""

from __future__ import annotations

import msgspec

from hyperscale.model.api.node_links import NodeLinks
from hyperscale.model.plan import AllreduceCost as AllreduceCost
from hyperscale.model.plan import Prediction, WorkerPlacement, gpus_by_node

RUN_PLAN_FILE = "/etc/hyperscale/plan.json"


class RunPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The plan as workers read it; read again whenever the file changes."""

    version: int
    """Of this document: 1."""
    job: str
    """namespace/name."""
    plan_id: str
    seed: int
    partitions: int
    workers: tuple[WorkerPlacement, ...]
    """By index."""
    predicted: Prediction | None = None
    allreduce: AllreduceCost | None = None
    """None: unknown, the worker measures it."""
    shares: tuple[float, ...] = ()
    """Part of the training vertices of each MPI rank; they sum to 1. Empty in plans of earlier versions."""
    links: NodeLinks | None = None
    """Links between the nodes of `workers`, in the order of their first workers. None: unknown, or more nodes than a plan lists."""

    @property
    def rank_nodes(self) -> list[str]:
        """The node of each MPI rank."""
        return [worker.node for worker in self.workers for _ in worker.ranks]

    def sharing(self, rank: int) -> int:
        """Ranks that share the network card of this rank's node; 1 where all ranks are on one node, or the plan does not have it."""
        gpus, nodes = gpus_by_node(self.workers), self.rank_nodes
        return gpus[nodes[rank]] if len(gpus) > 1 and rank < len(nodes) else 1
