"""What a planner is asked: one job, the limits within which it must answer, and what is already decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hyperscale.model.job import JobSpec
from hyperscale.model.plan import Calibration


class Toleration(msgspec.Struct, frozen=True, rename="camel"):
    """A pod toleration, as in the core API; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


def toleration(entry: Mapping[str, Any]) -> Toleration:
    """From an entry of a pod's spec.tolerations; what is missing or null is as the core API takes it."""
    return Toleration(
        key=str(entry.get("key") or ""),
        operator=str(entry.get("operator") or "Equal"),
        value=str(entry.get("value") or ""),
        effect=str(entry.get("effect") or ""),
    )


class PlanRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One question to the planners; together with a snapshot, a policy and the code it decides the plan's bytes."""

    job_key: str
    """namespace/name; part of the plan id."""

    job: JobSpec

    seed: int = 0

    deadline_seconds: float = 5.0
    """Wall time for all candidates together."""

    free_gpus: dict[str, int] = {}
    """Free GPUs by node where they differ from the snapshot: ranks planned but not yet bound are taken already."""

    workers_fixed: int | None = None
    """Exact worker count; set once an MPIJob exists, unless it may be resumed with others."""

    pinned: dict[int, str] = {}
    """Ranks that stay where they are, rank to node; their GPUs count as free for them."""

    excluded_nodes: tuple[str, ...] = ()
    """Nodes that must not be used, e.g. those that lost a rank."""

    required_labels: dict[str, str] = {}
    """Labels every node must have beside the job's own nodeSelector, e.g. those a queue's flavour put into the pods."""

    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the worker pods."""

    calibration: tuple[Calibration, ...] = ()
    """What finished runs of the job's architecture taught, at most one for each mix of GPU products."""
