"""Decisions and the status that follows from them, under names that do not change with those of the code."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hyperscale.control.decide.chain import decide
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import (
    BeginMigration,
    BeginPreemption,
    CreateMpiJob,
    Decision,
    DeletePods,
    EnsureInspection,
    EnsurePartitions,
    FindWorkload,
    MakePlan,
    OpenLauncher,
    ReleaseGang,
    ReleaseWorkers,
    SetSuspend,
    Stop,
    TakeAlternative,
    Wait,
)
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus, to_wire

Json = dict[str, Any]
KIND: Final = "decisions"

STEPS: Final[dict[type[Decision], tuple[str, dict[str, str]]]] = {
    Wait: ("wait", {"retrySeconds": "retry_after_seconds"}),
    Stop: ("stop", {}),
    MakePlan: (
        "plan",
        {
            "workersFixed": "workers_fixed",
            "pinned": "pinned",
            "excludedNodes": "excluded_nodes",
            "countsAsChange": "counts_as_replan",
            "mayShrink": "may_shrink",
        },
    ),
    TakeAlternative: ("take-alternative", {"plan": "plan"}),
    EnsurePartitions: ("ensure-partitions", {}),
    EnsureInspection: ("ensure-inspection", {"again": "again"}),
    CreateMpiJob: ("create-mpijob", {}),
    SetSuspend: ("set-suspend", {"suspend": "suspend"}),
    FindWorkload: ("find-workload", {}),
    ReleaseWorkers: ("release-workers", {"nodes": "nodes"}),
    OpenLauncher: ("open-launcher", {"podUids": "pod_uids"}),
    BeginMigration: ("begin-move", {"plan": "plan"}),
    BeginPreemption: ("begin-preemption", {}),
    ReleaseGang: ("release-gang", {}),
    DeletePods: ("delete-pods", {"podUids": "pod_uids", "force": "force"}),
}
"""Recorded name of each decision, and of its fields the recorded key and the attribute."""
FOR_PEOPLE: Final = frozenset({"message", "blocker"})


def output(look: ReconcileInput) -> Json:
    """What is recorded of a look."""
    decision = decide(look)
    return {"decision": decision_record(decision), "status": status_record(derive(look, decision))}


def decision_record(decision: Decision) -> Json:
    """The decision without its message."""
    step, fields = STEPS[type(decision)]
    values = {key: getattr(decision, attribute) for key, attribute in fields.items()}
    return {"step": step, "reason": str(decision.reason)} | {key: _plain(value) for key, value in values.items()}


def status_record(status: JobStatus) -> Json:
    """The status as it is written, without texts for people; of the plan only its nodes."""
    wire = to_wire(status)
    wire.pop("plan", None)
    kept: Json = _without_texts(wire)
    return kept | ({"planned nodes": _plain(status.plan)} if status.plan is not None else {})


def _plain(value: Any) -> Any:
    return [worker.node for worker in value.workers] if isinstance(value, Plan) else msgspec.to_builtins(value, str_keys=True)


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_texts(entry) for key, entry in value.items() if key not in FOR_PEOPLE}
    return [_without_texts(entry) for entry in value] if isinstance(value, list | tuple) else value
