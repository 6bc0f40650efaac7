"""What passes over the job `cora` see: at least one look for every check of the chain, and more where a check says different things.

Longer than other modules: one list, in the order of the chain, so that what is covered is seen at once.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec, PreflightMode
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import Reason
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import AdmissionAnswer, MigrationView, PreemptionView, ReconcileInput, SpecFault
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import NEVER_FITS, Infeasible
from hyperscale.model.pods import PodView
from hyperscale.model.status import (
    JobStatus,
    LastPreemption,
    ProposedMigration,
    ProposedPreemption,
    QueueDecision,
    StateWord,
    StatusRefusedNode,
    StatusScheduling,
    WorkerMigration,
)
from hyperscale.planner.choice.alternative_plans import offer_of
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import (
    GONE,
    MEASURED,
    MPIJOB_UID,
    STARTED,
    UID,
    changed,
    condition,
    job_spec,
    launcher,
    mpijob,
    plan,
    seen,
    status,
    worker,
)

NOW: Final = 1_000_000.0
TWO: Final = plan("node-a", "node-b")
MOVED: Final = plan("node-a", "node-c", plan_id="fedcba9876543210")
THREE: Final = plan("node-a", "node-b", "node-c", plan_id="fedcba9876543210")
RUNS: Final = {"Running": (True, "MPIJobRunning", "")}
NO_ROOM: Final = Infeasible(reason="InsufficientGPUs", message="needs 2 GPUs, 1 is free")
SAVED: Final = {"claimName": "state", "everyEpochs": 5}
MANUAL: Final = job_spec(startPolicy="Manual")
RANGE: Final = job_spec(checkpoint=SAVED, recovery={"shrinkAfterSeconds": 600})
WORDS: Final = "0/12 nodes are available: 1 Insufficient rdma/hca"
REQUIRED: Final = job_spec(preflight="Require")
KEY: Final = "feedfacefeedface"
UNSIZED: Final = job_spec(dataset={"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "path": "own.npz"})
SIZES: Final = '{"classes": 7, "edges": 10556, "featureSize": 1433, "trainVertices": 140, "vertices": 2708}'
PARTS: Final = BatchJobView(uid="partition-uid", owner_uid=UID, key=KEY)
BOTH_RUN: Final = (worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
BOTH_GATED: Final = (worker(0, gated=True), worker(1, gated=True))
ONE_LOST: Final = (worker(0, node="node-a", ready=True), worker(1, gated=True))
ENDING: Final = (worker(0, node="node-a", terminating=True, deletion="1970-01-12T13:44:00Z"),)
MOVE: Final = ProposedMigration(12.0, 8.0, 1, 2, 900.0, 3600.0, 65.0, "2026-01-01T00:00:00Z", (WorkerMigration(1, "node-b", "node-c"),))
STOP: Final = ProposedPreemption(("team/short",), 120.0, 65.0, "2026-01-01T00:00:00Z")
LAST_STOP: Final = LastPreemption("2026-01-01T00:10:00Z", ("team/short",), 40.0)
WAITS: Final = AdmissionAnswer(QueueDecision(2, 2, "Rule", 30.0), "WaitingForAdmission", "number 2 of 2", retry_after_seconds=12.0)
STARTS: Final = AdmissionAnswer(QueueDecision(0, 2, "Rule", 30.0, 1, 40.0))
HALF: Final = Measured(epoch=7, epochs=100, loss=0.4, accuracy=0.8, epoch_seconds=2.0)


def at(seconds: float) -> str:
    return timestamp(NOW + seconds)


def placed(job: JobSpec | None = None, **changes: Any) -> ReconcileInput:
    """Both workers run where the plan says; the launcher is gated."""
    base = seen(job, mpijob=mpijob(), plan=TWO, plan_recorded=True, pods=(launcher(gated=True), *BOTH_RUN))
    return changed(base, **changes)


def running(job: JobSpec | None = None, **changes: Any) -> ReconcileInput:
    """The MPIJob runs; the job has checkpoints."""
    job = job if job is not None else job_spec(checkpoint=SAVED)
    return placed(
        job, **{"mpijob": mpijob(conditions=RUNS), "pods": (launcher(), *BOTH_RUN), "status": status(StateWord.RUNNING), **changes}
    )


def moving(**changes: Any) -> ReconcileInput:
    """The new plan is in force; the pods are still the old ones."""
    return running(**{"plan": MOVED, "migrating": True, "status": status(StateWord.RUNNING, condition("Migrating")), **changes})


def preempted(**changes: Any) -> ReconcileInput:
    """The stop is written down; the pods still run."""
    told = status(StateWord.RUNNING, condition("Preempted"), last_preemption=LAST_STOP, preemptions=1)
    return running(**{"preempted": True, "preemption_recorded": True, "status": told, **changes})


def stopped(**changes: Any) -> ReconcileInput:
    return preempted(**{"mpijob": mpijob(suspended=True), "pods": (), **changes})


def left_out(since: float, **changes: Any) -> ReconcileInput:
    """Worker 1 has been refused by the scheduler for `since` seconds."""
    known = StatusScheduling(waiting_start_time=at(-since))
    pods = (worker(0, node="node-a", ready=True), worker(1, unschedulable=WORDS))
    return placed(**{"pods": pods, "status": status(StateWord.STARTING, scheduling=known), **changes})


def released(releases: int = 1, ago: float = 1000.0, **changes: Any) -> ReconcileInput:
    """The release is written down."""
    refused = (StatusRefusedNode("node-b", WORDS, at(-ago)),)
    known = StatusScheduling(releases=releases, last_release_time=at(-ago), message=f"cora-worker-1: {WORDS}", refused=refused)
    told = status(StateWord.STARTING, Condition("Placed", "False", "SchedulingTimeout"), scheduling=known)
    return left_out(0, **{"status": told, "released": True, "release_recorded": True, **changes})


def by_another(**changes: Any) -> ReconcileInput:
    """Another than the operator suspended the MPIJob."""
    return placed(**{"mpijob": mpijob(suspended=True, suspend_intent=False, suspender="kubectl"), "pods": (), **changes})


def parts(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A plan, no MPIJob, partitions wanted."""
    return seen(**{"plan": TWO, "plan_recorded": True, "partition_key": KEY, "partition": view, **changes})


def unsized(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A job whose graph must be read before it is planned."""
    return seen(UNSIZED, **{"inspection_key": KEY, "inspection": view, "inspection_read": view is not None, **changes})


def inspect_pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-inspect-x", owner_uid=PARTS.uid, owner_kind="Job", job_name="cora", role="inspect")
    return replace(view, **changes)


def parts_pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-partition-x", owner_uid=PARTS.uid, owner_kind="Job", job_name="cora", role="partition")
    return replace(view, **changes)


def tried(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A job whose code must be tried before it is planned."""
    return seen(**{"job": REQUIRED, "preflight_key": KEY, "preflight": view, **changes})


def tried_pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-preflight-x", owner_uid=PARTS.uid, owner_kind="Job", job_name="cora", role="preflight")
    return replace(view, **changes)


def of_generation(generation: int) -> JobMetadata:
    return JobMetadata(namespace="team", name="cora", uid=UID, generation=generation)


def approved(plan_id: str) -> JobMetadata:
    return replace(of_generation(1), annotations={constants.APPROVED_PLAN_ANNOTATION: plan_id})


def offered(job: JobSpec = MANUAL, **annotations: str) -> ReconcileInput:
    """Two plans are offered, and annotations such as preferred_plan say what a person decided."""
    names = {f"hyperscale.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    beside = PlanAlternatives(KEY, (offer_of(TWO, 100), replace(offer_of(MOVED, 100), plan=MOVED)))
    before = status(StateWord.PLANNED, condition("Planned"), plan=TWO, alternatives=beside)
    return seen(job, plan=TWO, plan_recorded=True, status=before, metadata=replace(of_generation(1), annotations=names))


def ended(kind: str, **changes: Any) -> ReconcileInput:
    over = mpijob(
        conditions={kind: (True, f"MPIJob{kind}", ""), "Running": (False, "MPIJobRunning", "")},
        start_time="2026-01-01T00:00:00Z",
        completion_time="2026-01-01T01:00:00Z",
        launcher_failures=1,
    )
    return running(**{"mpijob": over, "pods": (), **changes})


SUSPEND: Final = job_spec(runPolicy={"suspend": True})
FORCED: Final = job_spec(recovery={"forceDeleteAfterSeconds": 60})
STUCK: Final = (worker(0, node="node-a", ready=True), worker(1, node="node-b", terminating=True, deletion="1970-01-12T13:44:00Z"))

LOOKS: Final[dict[str, ReconcileInput]] = {
    # deleted, name_is_taken, unreadable_mpijob, finished, spec_is_bad, leaving_mpijob
    "deleted": seen(deleting=True, plan=TWO),
    "name-of-another-owner": seen(mpijob=mpijob(owner_uid="another")),
    "name-without-an-owner": seen(mpijob=mpijob(owner_uid="", plan=TWO)),
    "unreadable-mpijob": running(mpijob=mpijob(fault="spec.mpiReplicaSpecs is absent")),
    "succeeded": ended("Succeeded", measured=replace(HALF, epoch=100, finished=True)),
    "failed": ended("Failed"),
    "ended-and-mpijob-gone": seen(status=status(StateWord.SUCCEEDED, condition("Succeeded"), mpi_job_ref=STARTED), plan=TWO),
    "bad-spec": changed(seen(), job=None, fault=SpecFault("spec.workers.maxReplicas", "2 is below spec.workers.minReplicas: 4")),
    "bad-spec-while-it-runs": changed(running(), job=None, fault=SpecFault("spec.workers.maxReplicas", "must be a number")),
    "mpijob-is-leaving": placed(mpijob=mpijob(deleting=True)),
    # suspended_by_another
    "suspended-by-another": by_another(workload_read=True, workload=""),
    "suspended-by-another-kueue-not-asked": by_another(),
    "suspended-by-another-kueue-unknown": by_another(workload_read=True, workload=None),
    "suspended-by-kueue-without-a-queue": by_another(workload_read=True, workload="job-cora-1234"),
    # migrating
    "move-not-recorded": moving(plan_recorded=False),
    "move-stops-the-pods": moving(),
    "move-changes-the-count": moving(plan=THREE, mpijob=mpijob(conditions=RUNS, resizable=True)),
    "move-waits-for-old-pods": moving(mpijob=mpijob(suspended=True), pods=ENDING),
    "move-starts-again": moving(mpijob=mpijob(suspended=True), pods=()),
    "move-that-another-resumed": moving(mpijob=mpijob(suspend_intent=True)),
    "move-with-a-queue": moving(mpijob=mpijob(conditions=RUNS, queue="gold")),
    "moved-pods-wait-for-their-nodes": moving(mpijob=mpijob(), pods=BOTH_GATED),
    "moved-and-arrived": moving(pods=(launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-c", ready=True))),
    # preempted
    "preemption-not-recorded": preempted(preemption_recorded=False),
    "preemption-stops-the-pods": preempted(),
    "preemption-waits-for-pods": stopped(pods=ENDING),
    "preempted-asks-for-its-turn": stopped(),
    "preempted-waits-for-its-turn": stopped(admission=WAITS),
    "preempted-resizable": stopped(mpijob=mpijob(suspended=True, resizable=True)),
    # gang_released
    "release-not-recorded": released(release_recorded=False),
    "release-suspends": released(),
    "release-waits-for-pods": released(mpijob=mpijob(suspended=True), pods=ENDING),
    "released-plans-again": released(mpijob=mpijob(suspended=True), pods=()),
    "released-waits-its-delay": released(3, 5.0, mpijob=mpijob(suspended=True), pods=()),
    "released-too-often": released(4, mpijob=mpijob(suspended=True), pods=()),
    "released-in-a-queue-deletes-pods": released(mpijob=mpijob(queue="gold")),
    "released-in-a-queue-and-back": released(mpijob=mpijob(queue="gold"), pods=BOTH_GATED),
    # resizable_again, suspended_before_start, suspension_differs, queued
    "resizable-is-planned-again": placed(job_spec(checkpoint=SAVED), mpijob=mpijob(suspended=True, resizable=True), pods=()),
    "resizable-waits-for-pods": placed(mpijob=mpijob(suspended=True, resizable=True), pods=ENDING),
    "suspended-before-start": seen(SUSPEND),
    "suspend-is-carried-over": running(SUSPEND),
    "resume-is-carried-over": placed(mpijob=mpijob(suspended=True), pods=()),
    "resumed-by-another-against-the-spec": placed(SUSPEND, mpijob=mpijob(suspend_intent=True), pods=BOTH_GATED),
    "resumed-by-another-as-the-spec-says": placed(mpijob=mpijob(suspend_intent=True), pods=BOTH_GATED),
    "suspended-by-the-spec": placed(SUSPEND, mpijob=mpijob(suspended=True), pods=()),
    "queued": placed(mpijob=mpijob(suspended=True, queue="gold"), pods=()),
    # lacks_plan, spec_changed_before_start, start_policy_never, plan_no_longer_fits, awaits_approval
    "new": seen(),
    "no-room": seen(refusal=NO_ROOM),
    "never-fits": seen(refusal=Infeasible(reason=NEVER_FITS, message="no node has 16 GPUs")),
    "waits-for-its-turn": seen(admission=WAITS),
    "mpijob-without-a-plan": placed(plan=None, plan_recorded=False, pods=BOTH_GATED),
    "spec-changed": seen(plan=TWO, metadata=of_generation(2), status=status(StateWord.PLANNED, condition("Planned", generation=1))),
    "plan-only": seen(job_spec(startPolicy="Never"), plan=TWO, metrics=MEASURED),
    "plan-no-longer-fits": seen(plan=TWO, misfits=(GONE,)),
    "plan-no-longer-fits-and-no-room": seen(plan=TWO, misfits=(GONE,), refusal=NO_ROOM),
    "awaits-approval": seen(MANUAL, plan=TWO, metrics=MEASURED),
    "another-plan-approved": seen(MANUAL, plan=TWO, metrics=MEASURED, metadata=approved("feed")),
    "approved": seen(
        MANUAL, plan=TWO, plan_recorded=True, metadata=approved(TWO.plan_id), status=status(StateWord.PLANNED, condition("Planned"))
    ),
    # prefers_alternative, rejected_by_person
    "another-plan-preferred": offered(preferred_plan=MOVED.plan_id),
    "preferred-plan-no-longer-offered": offered(preferred_plan="feedfacefeedface"),
    "preferred-plan-of-a-job-that-never-starts": offered(job_spec(startPolicy="Never"), preferred_plan=MOVED.plan_id),
    "plan-rejected-though-approved": offered(rejected_plan=TWO.plan_id, approved_plan=TWO.plan_id),
    # lacks_dataset_sizes
    "sizes-wanted": unsized(),
    "sizes-are-read": unsized(PARTS),
    "sizes-of-another-dataset": unsized(replace(PARTS, key="0000")),
    "sizes-read": unsized(replace(PARTS, succeeded=True), inspection_pods=(inspect_pod(phase="Succeeded", termination=SIZES),)),
    "sizes-report-lost": unsized(replace(PARTS, succeeded=True)),
    "sizes-unreadable": unsized(replace(PARTS, failed=True), inspection_pods=(inspect_pod(phase="Failed", termination="no features"),)),
    # preflight_outstanding
    "preflight-wanted": tried(),
    "preflight-pod-waits": tried(PARTS, preflight_pods=(tried_pod(phase="Pending", unschedulable="0/3 nodes"),)),
    "preflight-passed": tried(
        PARTS, preflight_pods=(tried_pod(phase="Succeeded", termination='{"sentence": "3 steps went well", "steps": 3}'),)
    ),
    "preflight-failed": tried(
        PARTS, preflight_pods=(tried_pod(phase="Failed", termination='{"sentence": "the loss is NaN", "fault": "NotFinite", "steps": 1}'),)
    ),
    "preflight-says-nothing": tried(replace(PARTS, failed=True), preflight_pods=(tried_pod(phase="Failed", termination="Killed"),)),
    "preflight-over-quota": tried(preflight_refusal=SpecFault("", "exceeded quota: q", Reason.QUOTA_EXCEEDED)),
    "preflight-only-advises": tried(job=replace(REQUIRED, preflight=PreflightMode.ADVISE)),
    # lacks_partitions, lacks_mpijob
    "partitions-wanted": parts(),
    "partitions-written-now": parts(PARTS, partition_read=True),
    "partition-pod-waits": parts(PARTS, partition_read=True, partition_pods=(parts_pod(unschedulable="0/3 nodes"),)),
    "partition-pod-ended": parts(PARTS, partition_read=True, partition_pods=(parts_pod(phase="Succeeded"),)),
    "partition-job-of-other-parts": parts(replace(PARTS, key="0000"), partition_read=True),
    "partitioning-failed": parts(
        replace(PARTS, failed=True), partition_read=True, partition_pods=(parts_pod(phase="Failed", termination="no memory"),)
    ),
    "partitions-written": parts(replace(PARTS, succeeded=True), partition_read=True),
    "planned": seen(plan=TWO, metrics=MEASURED, admission=STARTS),
    "planned-without-metrics": seen(
        plan=replace(TWO, fallbacks=("LinksEstimatedFromLabels: 2 of 2",)),
        metrics=MetricsState(available=False, reason="PrometheusUnreachable", message="connection refused"),
    ),
    "no-planner": seen(job_spec(planner="None")),
    # resumed, stuck_on_lost_node, rank_left_out, lacks_new_partitions
    "resumed-is-planned-again": placed(pods=BOTH_GATED, status=status(StateWord.QUEUED, condition("Suspended"), mpi_job_ref=STARTED)),
    "resumed-and-planned-in-this-pass": placed(
        pods=BOTH_GATED, plan_recorded=False, metrics=MEASURED, status=status(StateWord.QUEUED, condition("Suspended"), mpi_job_ref=STARTED)
    ),
    "pod-sent-to-a-lost-node": placed(pods=(worker(0, node="node-a"), worker(1)), misfits=(GONE,)),
    "pod-stuck-on-an-unreachable-node": placed(FORCED, pods=STUCK, unreachable_nodes=("node-b",)),
    "pod-stuck-too-soon-by-the-servers-clock": placed(FORCED, pods=STUCK, unreachable_nodes=("node-b",), server_ahead_seconds=-3600.0),
    "rank-left-out": left_out(300),
    "rank-left-out-lately": left_out(100),
    "rank-left-out-just-now": left_out(0, status=status(StateWord.STARTING)),
    "pods-never-came": placed(pods=(), status=status(StateWord.STARTING, scheduling=StatusScheduling(waiting_start_time=at(-300)))),
    "replaced-worker-needs-new-parts": placed(pods=ONE_LOST, partition_key=KEY),
    # gates_closed
    "pods-missing": placed(pods=(worker(0, gated=True),)),
    "queue-assigns-topology": placed(
        pods=(worker(0, gated=True, gates=(constants.PLACEMENT_GATE, constants.KUEUE_TOPOLOGY_GATE)), worker(1, gated=True))
    ),
    "gated-and-misfit": placed(pods=BOTH_GATED, misfits=(GONE,)),
    "lost-worker-planned-again": placed(pods=ONE_LOST, misfits=(GONE,)),
    "lost-worker-no-plans-left": placed(pods=ONE_LOST, misfits=(GONE,), status=status(StateWord.RUNNING, plan_changes=3)),
    "lost-worker-finds-no-room-and-may-shrink-later": placed(
        RANGE,
        mpijob=mpijob(workers=3, resizable=True),
        plan=THREE,
        pods=(*BOTH_RUN, worker(2, gated=True)),
        misfits=(replace(GONE, node="node-c"),),
        refusal=NO_ROOM,
    ),
    "lost-worker-shrinks": placed(
        RANGE,
        mpijob=mpijob(workers=3, resizable=True),
        plan=THREE,
        pods=(*BOTH_RUN, worker(2, gated=True)),
        misfits=(replace(GONE, node="node-c"),),
        status=status(StateWord.RUNNING, replace(condition("Placed", "False"), last_transition_time=at(-700))),
    ),
    "plan-not-recorded": placed(pods=BOTH_GATED, plan_recorded=False),
    "gates-open": placed(pods=(launcher(gated=True), *BOTH_GATED)),
    "replacement-goes-back": placed(pods=ONE_LOST),
    "replacement-switched-off": placed(job_spec(recovery={"replaceLostWorkers": False}), pods=ONE_LOST),
    # launcher_closed
    "workers-starting": placed(pods=(launcher(gated=True), worker(0, node="node-a", ready=True), worker(1, node="node-b"))),
    "launcher-opens": placed(),
    # preemption_pays, migration_pays, and nothing left to decide
    "stop-proposed": running(preemption=PreemptionView(STOP)),
    "stop-due": running(preemption=PreemptionView(STOP, due=True), migration=MigrationView(MOVE, MOVED)),
    "stop-due-without-checkpoint": running(job_spec(), preemption=PreemptionView(STOP, due=True)),
    "move-proposed": running(migration=MigrationView(MOVE)),
    "move-due": running(migration=MigrationView(MOVE, MOVED, 10.0)),
    "move-due-no-plans-left": running(migration=MigrationView(MOVE, MOVED), status=status(StateWord.RUNNING, plan_changes=3)),
    "runs": running(measured=HALF),
    "runs-unplanned": running(job_spec(planner="None"), plan=None, mpijob=mpijob(conditions=RUNS, gated=False)),
    "starts": placed(
        pods=(launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", unschedulable="")), status=JobStatus()
    ),
    "uid-is-remembered": running(status=status(StateWord.RUNNING, condition("Running"), mpi_job_ref=replace(STARTED, uid=MPIJOB_UID))),
}
