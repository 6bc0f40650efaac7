"""The observed state of one job, built by saying only what matters."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec

from hyperscale.model import constants
from hyperscale.model.api.condition import Condition, ConditionStatus
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import JobState, ReconcileClock, ReconcileInput
from hyperscale.model.plan import Plan, Prediction, Rejection, WorkerPlacement, gpus_by_node
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, ObjectReference, StateWord
from tests.builders.wire import spec_of

UID = "job-uid"
MPIJOB_UID = "mpijob-uid"


def job_spec(**changes: Any) -> JobSpec:
    """A small GCN job on Cora with 2 to 4 workers; `changes` are camelCase spec fields."""
    spec = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 2, "maxReplicas": 4},
    }
    return spec_of({**spec, **changes})


def plan(*nodes: str, plan_id: str = "0123456789abcdef", planner: str = "Heuristic") -> Plan:
    """A plan with one single-GPU worker on each of `nodes`."""
    share = 1 / max(1, len(nodes))
    workers = tuple(
        WorkerPlacement(index=index, first_rank=index, node=node, gpus=1, product="A100", share=share) for index, node in enumerate(nodes)
    )
    return Plan(
        planner=planner,
        seed=0,
        plan_id=plan_id,
        partitions=len(nodes),
        workers=workers,
        ranks_by_node=gpus_by_node(workers),
        predicted=Prediction(epoch_seconds=1.0, communication_seconds=0.1, cost_model=COST_MODEL),
        objective=1.01,
    )


def worker(index: int, *, gated: bool = False, node: str = "", ready: bool = False, **changes: Any) -> PodView:
    """A worker pod of the job `cora`."""
    view = PodView(
        namespace="team",
        name=f"cora-worker-{index}",
        uid=f"worker-{index}",
        node=node,
        gpus=1,
        gates=(constants.PLACEMENT_GATE,) if gated else (),
        ready=ready,
        owner_uid=MPIJOB_UID,
        owner_kind="MPIJob",
        job_name="cora",
        role="worker",
        index=index,
    )
    return msgspec.structs.replace(view, **changes)


def launcher(*, gated: bool = False, **changes: Any) -> PodView:
    """The launcher pod of the job `cora`."""
    view = PodView(
        namespace="team",
        name="cora-launcher",
        uid="launcher",
        gates=(constants.LAUNCHER_GATE,) if gated else (),
        owner_uid="job-of-launcher",
        owner_kind="Job",
        job_name="cora",
        role="launcher",
    )
    return msgspec.structs.replace(view, **changes)


def mpijob(**changes: Any) -> MpiJobView:
    """The MPIJob of the job `cora`: two workers, gated, not suspended; whether it is suspended is the operator's doing unless told."""
    view = MpiJobView(name="cora", uid=MPIJOB_UID, owner_uid=UID, workers=2, suspended=False, queue="", gated=True)
    return msgspec.structs.replace(view, **{"suspend_intent": changes.get("suspended", False), **changes})


def status(state: StateWord = StateWord.PENDING, *conditions: Condition, **changes: Any) -> JobStatus:
    """A status as last written in a state; `conditions` replace those of the state or come beside them."""
    told = {one.type: one for one in (*_CONDITIONS[state], *conditions)}
    return msgspec.structs.replace(JobStatus(conditions=tuple(told[kind] for kind in sorted(told))), **changes)


def condition(kind: str, value: ConditionStatus = "True", generation: int = 1) -> Condition:
    """A condition of the status."""
    return Condition(type=kind, status=value, reason="Test", observed_generation=generation, last_transition_time="2026-01-01T00:00:00Z")


def last_step(reason: str, message: str = "") -> Condition:
    """The summary condition of a run that has not ended."""
    return msgspec.structs.replace(condition("Succeeded", "Unknown"), reason=reason, message=message)


_CONDITIONS = {
    StateWord.PENDING: (),
    StateWord.PLANNED: (last_step("AwaitingApproval"),),
    StateWord.PARTITIONING: (last_step("Partitioning"),),
    StateWord.QUEUED: (last_step("Queued"), condition("Running", "False")),
    StateWord.STARTING: (last_step("Starting"), condition("Running", "False"), condition("Suspended", "False")),
    StateWord.RUNNING: (last_step("Running"), condition("Running"), condition("Suspended", "False")),
    StateWord.SUCCEEDED: (condition("Succeeded"),),
    StateWord.FAILED: (condition("Failed"), condition("Succeeded", "False")),
}
"""The least that tells each state."""


def seen(job: JobSpec | None = None, **changes: Any) -> ReconcileInput:
    """The observed state of the job `cora`: nothing but the job, unless `changes` say more (names as in `FIELDS`)."""
    metadata = JobMetadata(namespace="team", name="cora", uid=UID, generation=1)
    parsed = job if job is not None else job_spec()
    state = ReconcileInput(job=JobState(metadata=metadata, parsed=parsed, status=JobStatus()), clock=ReconcileClock(now=1_000_000.0))
    return changed(state, **changes)


FIELDS = {
    **{
        field: (group, field)
        for group, kind in get_type_hints(ReconcileInput).items()
        if group not in ("plan", "partitions", "inspection", "preflight")
        for field in kind.__struct_fields__
    },
    **{field: ("plan", field) for field in ("refusal", "admission", "metrics", "evaluation", "weights", "weights_read")},
    "job": ("job", "parsed"),
    "plan": ("plan", "in_force"),
    "plan_recorded": ("plan", "recorded"),
    "partition": ("partitions", "job"),
    "partition_key": ("partitions", "key"),
    "partition_read": ("partitions", "read"),
    "partition_pods": ("partitions", "pods"),
    "inspection": ("inspection", "job"),
    "inspection_key": ("inspection", "key"),
    "inspection_read": ("inspection", "read"),
    "inspection_pods": ("inspection", "pods"),
    "preflight": ("preflight", "job"),
    "preflight_key": ("preflight", "key"),
    "preflight_pods": ("preflight", "pods"),
    "preflight_refusal": ("preflight", "refusal"),
}
"""Name in a test: the group of ReconcileInput and the field there. Only names that say too little without their group differ."""


def changed(state: ReconcileInput, **changes: Any) -> ReconcileInput:
    """`state` with other fields, by the names of `FIELDS`."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        group, field = FIELDS[name]
        groups.setdefault(group, {})[field] = value
    return msgspec.structs.replace(state, **{group: msgspec.structs.replace(getattr(state, group), **new) for group, new in groups.items()})


MEASURED = MetricsState(available=True)
GONE = Rejection(node="node-b", reason="NotReady", message="node-b is gone")
STARTED = ObjectReference(name="cora", uid=MPIJOB_UID)
