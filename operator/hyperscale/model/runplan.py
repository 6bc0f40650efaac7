"""What a worker reads of the plan: the document that is mounted at HYPERSCALE_PLAN_FILE (docs/runplan.schema.json)."""

from __future__ import annotations

import msgspec

from hyperscale.model.plan import AllreduceCost as AllreduceCost
from hyperscale.model.plan import Prediction, WorkerPlacement

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
    """By rank of the worker."""
    predicted: Prediction | None = None
    allreduce: AllreduceCost | None = None
    """None: unknown, the worker measures it."""
