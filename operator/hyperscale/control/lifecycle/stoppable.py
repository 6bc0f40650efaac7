"""Which running jobs the operator may stop so that all end sooner, what is left of them then, and how that reads. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from hyperscale.control.lifecycle.movable import is_moving, migration_blocker, short
from hyperscale.control.lifecycle.suspension import resumed_by_other
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.planning import PlanRequest
from hyperscale.model.pods import PodView
from hyperscale.model.running_query import JobPreemption, PreemptibleJob
from hyperscale.model.status import MAX_BENEFICIARIES, JobStatus, LastPreemption, ProposedPreemption
from hyperscale.util.rfc3339 import timestamp, unix_seconds

PREEMPTED_CONDITION = "Preempted"
PROPOSED_CONDITION = "PreemptionProposed"
MATERIAL_FACTOR = 2.0


def run_is_over(status: JobStatus) -> bool:
    """Whether the status says that a run has ended: neither a restart of the operator nor the MPIJob's TTL starts it again."""
    return status.ended and status.mpi_job_ref is not None


def is_preempted(status: JobStatus, view: MpiJobView | None = None) -> bool:
    """Whether a stop for others was written down from which the job has not resumed.

    A queue that took the MPIJob over ends it, and so does another who resumes the MPIJob.
    """
    return (
        not (view is not None and (view.holder or resumed_by_other(view)))
        and status.last_preemption is not None
        and status.is_true(PREEMPTED_CONDITION)
    )


def waits_again(view: MpiJobView, pods: Iterable[PodView]) -> bool:
    """Whether a stopped job has given its GPUs away and may get others: the queue decides on it like on one that never ran."""
    return view.suspended and all(pod.finished for pod in pods)


def undisturbed(status: JobStatus, view: MpiJobView) -> bool:
    """Whether a job runs, and is not about to be moved or stopped."""
    runs = view.gated and not view.suspended and not view.deleting and view.is_true("Running")
    return runs and not is_moving(status) and not is_preempted(status)


def preemption_blocker(job: JobSpec, view: MpiJobView, status: JobStatus, policy: QueuePolicy) -> str:
    """Why the operator must not stop this job for others; empty where it may.

    What bounds the stops of one job: the hold-down after each start, and that no job that has waited as long as the starvation bound
    because of stops is stopped again.
    """
    if policy.order is QueueOrder.ARRIVAL:
        return "spec.queue.order of the PlannerPolicy is Arrival: a preempted job would start again at once"
    waited_seconds = status.last_preemption.waited_seconds if status.last_preemption is not None else 0.0
    if 0.0 < policy.starvation_seconds <= waited_seconds:
        return f"it has waited {waited_seconds:.4g} s for others already, spec.queue.starvationSeconds of the PlannerPolicy allows no more"
    return migration_blocker(job, view, status.plan_changes)


def epochs_kept(status: JobStatus) -> float:
    """Epochs that need not be done again, as of the last time that the operator stopped this job; 0 where it never did."""
    kept = [(last.start_time, last.completed_epochs) for last in (status.last_migration, status.last_preemption) if last is not None]
    return max(kept, key=lambda each: unix_seconds(each[0]))[1] if kept else 0.0


def epochs_safe(job: JobSpec | None, reported: Measured | None, status: JobStatus, judged: float = 0.0) -> float:
    """Epochs that a run need not do again if it stops now. Those up to its last checkpoint, as reported, as was `judged` or kept before."""
    reported = reported or status.measured
    checkpoint = job.checkpoint if job is not None else None
    said = reported.epoch - reported.epoch % checkpoint.every_epochs if reported is not None and checkpoint is not None else 0
    return max(float(said), judged, epochs_kept(status))


def epochs_left(job: JobSpec, stop: LastPreemption) -> int:
    """What a stopped job has still to do; at least 1."""
    return max(1, math.ceil(job.model.epochs - stop.completed_epochs))


def begun(status: JobStatus, beneficiaries: tuple[str, ...], kept: float, now: float) -> LastPreemption:
    """A stop that begins now (Unix seconds)."""
    waited = status.last_preemption.waited_seconds if status.last_preemption is not None else 0.0
    return LastPreemption(timestamp(now), beneficiaries[:MAX_BENEFICIARIES], float(math.floor(kept)), waited)


def usable_gpus(
    snapshot: ClusterSnapshot, free_gpus: Mapping[str, int], pending: Iterable[PlanRequest], running: Iterable[PreemptibleJob]
) -> dict[str, int]:
    """Free GPUs by node where they differ from the snapshot, without those that no worker of these jobs could use.

    Rolling forward counts GPUs by kind, over all nodes: four left over on each of two nodes are no room for a worker of eight. Nodes of
    jobs that may be stopped keep all theirs: together with what such a job gives away they may be enough.
    """
    stoppable = list(running)
    sizes = {request.job.workers.gpus_per_worker for request in (*pending, *(job.running.request for job in stoppable))}
    may_grow = {name for job in stoppable for name in job.running.claims}
    usable = dict(free_gpus)
    for node in snapshot.nodes:
        free = free_gpus.get(node.name, node.free_gpus)
        most = max((free // size * size for size in sizes), default=free)
        if most < free and node.name not in may_grow:
            usable[node.name] = most
    return usable


def run_before_stop_seconds(status: JobStatus, policy: QueuePolicy) -> float:
    """Seconds that a job runs between two stops: the hold-down of the policy, once more for each stop so far.

    Without that, jobs that come and go would have one job stopped at every hold-down.
    """
    return float(policy.preemption.hold_down_seconds * (1 + status.preemptions))


def may_grow(running: Iterable[PreemptibleJob], free_gpus: int) -> bool:
    """Whether GPUs are free for another worker of a job that may resume with more."""
    return any(
        job.resizable
        and len(job.running.plan.workers) < job.running.request.job.workers.max_replicas
        and job.running.request.job.workers.gpus_per_worker <= free_gpus
        for job in running
    )


def shown_stop(advice: JobPreemption, since: str, why_not: str) -> ProposedPreemption:
    """Advice as the status tells it."""
    return ProposedPreemption(
        beneficiaries=advice.beneficiaries[:MAX_BENEFICIARIES],
        saved_seconds=short(advice.saved_seconds),
        cost_seconds=short(advice.price_seconds),
        first_proposed_time=since,
        workers=advice.workers,
        blocker=why_not[:256],
    )


def material(shown: ProposedPreemption, fresh: ProposedPreemption) -> bool:
    """Whether the difference is worth another write: others gain, another reason, or a saving that halved or doubled."""
    if (shown.beneficiaries, shown.workers, shown.blocker) != (fresh.beneficiaries, fresh.workers, fresh.blocker):
        return True
    return not shown.saved_seconds <= fresh.saved_seconds * MATERIAL_FACTOR <= shown.saved_seconds * MATERIAL_FACTOR**2


def proposed(stop: ProposedPreemption, own_key: str) -> Condition:
    """The condition that says so; the same advice gives the same words."""
    why_not = f"; not done because {stop.blocker}" if stop.blocker else ""
    message = (
        f"if this job stopped now, {_served(stop.beneficiaries, own_key, stop.workers)}: the mean time until all jobs end would be "
        f"{stop.saved_seconds:.4g} s shorter with all stops that are proposed, the price of this one, {stop.cost_seconds:.4g} s for the "
        f"restart and work done again, paid{why_not}"
    )
    reason = "AnotherWorkerCount" if stop.beneficiaries == (own_key,) and stop.workers is not None else "OthersGainMore"
    return Condition(type=PROPOSED_CONDITION, status="True", reason=reason, message=message[:2048])


def preemption_message(stop: LastPreemption, own_key: str) -> str:
    """A stop in words."""
    return f"stopped at {stop.start_time} so that {_served(stop.beneficiaries, own_key)}; about {stop.completed_epochs:.4g} epochs are kept"


def _served(beneficiaries: tuple[str, ...], own_key: str, workers: int | None = None) -> str:
    others = [key for key in beneficiaries if key != own_key]
    words = [f"{', '.join(others)} could start on its GPUs"] if others else []
    if own_key in beneficiaries:
        count = f"with {workers} workers" if workers is not None else "on other GPUs"
        words.append(f"it could continue at once {count}")
    return " and ".join(words) or "others could start on its GPUs"
