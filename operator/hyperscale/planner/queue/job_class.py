"""When two pending jobs are placed alike. Pure; without arrays, since the operator's own process asks too."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.planning import PlanRequest

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def kind_of(request: PlanRequest) -> bytes:
    """All that a placement depends on beside the cluster and what is free: jobs of one kind are placed alike, however long they run."""
    job = request.job
    model = replace(job.model, epochs=1, script=None, hyperparameters=None)
    workload = (model, job.dataset, job.workers.demand(), job.partitioning, job.allreduce, job.placement, job.planner)
    pods = (request.required_labels, request.tolerations, request.node_rules, request.resources, request.apart)
    fixed = (request.workers_fixed, request.pinned, request.excluded_nodes, request.refused_nodes, *pods, request.seed, request.corrections)
    return _ENCODER.encode((workload, fixed))
