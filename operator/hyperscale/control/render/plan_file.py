"""The plan file: what workers read of a plan, as the ConfigMap that their pods mount (docs/reference/runplan.md). Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import msgspec

from hyperscale.control.render.template import Json, owner_references
from hyperscale.model import constants
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Plan
from hyperscale.model.runplan import RUN_PLAN_FILE, RunPlan

DOCUMENT_VERSION: Final = 1
KEY: Final = PurePosixPath(RUN_PLAN_FILE).name


def config_map_name(job: str) -> str:
    """Name of the ConfigMap of a job."""
    return f"{job}-plan"


def run_plan(metadata: JobMetadata, plan: Plan) -> RunPlan:
    """What workers read of `plan`."""
    return RunPlan(
        version=DOCUMENT_VERSION,
        job=metadata.key,
        plan_id=plan.plan_id,
        seed=plan.seed,
        partitions=plan.partitions,
        workers=plan.workers,
        shares=rank_shares(plan),
        predicted=plan.predicted,
        allreduce=plan.allreduce,
        links=plan.links,
    )


def rank_shares(plan: Plan) -> tuple[float, ...]:
    """Part of the training vertices of each MPI rank, as workers reckon it: those of a worker hold equal parts."""
    return tuple(worker.share / worker.gpus for worker in plan.workers for _ in worker.ranks)


def config_map(metadata: JobMetadata, plan: Plan, labels: dict[str, str]) -> Json:
    """The ConfigMap; the same plan gives the same bytes."""
    fields = msgspec.to_builtins(run_plan(metadata, plan))
    if plan.links is None:
        del fields["links"]
    document = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": metadata.namespace,
            "name": config_map_name(metadata.name),
            "labels": labels,
            "annotations": {constants.PLAN_ID_LABEL: plan.plan_id},
            "ownerReferences": owner_references(metadata),
        },
        "data": {KEY: document + "\n"},
    }
