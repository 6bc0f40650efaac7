"""The next step of one job: a chain of named, pure checks over one consistent look at the world.

No clock, no API, no logging in here. The first check that has an opinion decides; the order is the meaning. The module is longer than
others because the chain is read as one text, from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from hyperscale.control.lifecycle.movable import obstacle, resizable, resizes, strays
from hyperscale.control.lifecycle.run_messages import told as told_of_run
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION, run_is_over, told
from hyperscale.control.lifecycle.suspension import awaits_report, resumed_by_other, suspended_by_other
from hyperscale.control.lifecycle.unscheduled import delay_left, is_back, seconds_left, words
from hyperscale.model import constants
from hyperscale.model.api.job import Approval, JobSpec, PlacementMode, PlannerChoice
from hyperscale.model.decision import (
    BeginMove,
    BeginStop,
    CreateMpiJob,
    Decision,
    DeletePods,
    EnsurePartitions,
    FindWorkload,
    MakePlan,
    OpenLauncher,
    Reason,
    ReconcileInput,
    ReleaseGang,
    ReleaseWorkers,
    SetSuspend,
    Stop,
    Wait,
)
from hyperscale.model.pods import PodView
from hyperscale.util.rfc3339 import timestamp, unix_seconds

PARTITION_POLL_SECONDS: Final = 5.0
"""How often a partition Job is read while no pod event came; its pods' events ask at once."""
PARTITION_ENDING_SECONDS: Final = 1.0
"""The same once its pod has ended: the Job says so a moment later."""
REPLAN_AFTER_SECONDS: Final = 30.0
"""How soon a job without room asks again when no event came; capacity events ask at once. What never fits asks when nodes change."""


def decide(seen: ReconcileInput) -> Decision:
    """The next step for one job, from one consistent look at the world."""
    decision = next((found for check in CHAIN if (found := check(seen)) is not None), None) or _steady(seen)
    left = seconds_left(seen)
    if left is None or not isinstance(decision, Wait):
        return decision
    again = decision.retry_after_seconds
    return replace(decision, retry_after_seconds=left if again is None else min(left, again))


def deleted(seen: ReconcileInput) -> Decision | None:
    """The owner reference takes the MPIJob along; nothing is created for what is going away."""
    return Stop(Reason.DELETED) if seen.deleting else None


def name_is_taken(seen: ReconcileInput) -> Decision | None:
    """An MPIJob of that name that is not ours is never touched."""
    if seen.mpijob is None or seen.mpijob.owner_uid == seen.metadata.uid:
        return None
    whose = "of another owner" if seen.mpijob.owner_uid else "that this operator did not make"
    return Stop(
        Reason.NAME_CONFLICT,
        f'an MPIJob "{seen.metadata.name}" {whose} exists in namespace {seen.metadata.namespace}; delete it or rename this job',
    )


def unreadable_mpijob(seen: ReconcileInput) -> Decision | None:
    """An MPIJob of ours that cannot be read may run: nothing is done about it, and no second one is made."""
    if seen.mpijob is None or not seen.mpijob.fault:
        return None
    name, fault = seen.metadata.name, seen.mpijob.fault
    return Stop(Reason.UNREADABLE_MPIJOB, f'the MPIJob "{name}" cannot be read: {fault}; delete it, and the operator creates it again')


def spec_is_bad(seen: ReconcileInput) -> Decision | None:
    """Nothing is created from a spec that cannot be read; what runs already goes on."""
    if seen.fault is None:
        return None
    return Stop(Reason.INVALID_SPEC, f"{seen.fault.path}: {seen.fault.message}")


def finished(seen: ReconcileInput) -> Decision | None:
    """A run ends once: neither a restart nor the MPIJob's TTL starts it again."""
    if seen.mpijob is not None:
        for condition, reason in (("Succeeded", Reason.SUCCEEDED), ("Failed", Reason.FAILED)):
            if seen.mpijob.is_true(condition):
                return Stop(reason, told_of_run(seen, condition)[1])
        return None
    if run_is_over(seen.status):
        return Stop(Reason(seen.status.phase.value), "the MPIJob is gone; this run has ended")
    return None


def leaving_mpijob(seen: ReconcileInput) -> Decision | None:
    """An MPIJob that is being deleted holds its name and its GPUs until it is gone."""
    if seen.mpijob is not None and seen.mpijob.deleting:
        return Wait(Reason.CREATING, "the previous MPIJob of this name is still being deleted")
    return None


def suspended_by_another(seen: ReconcileInput) -> Decision | None:
    """Leave an MPIJob suspended that another than the operator suspended, whatever the operator had begun."""
    job = seen.mpijob
    if job is None or not suspended_by_other(job, seen.status):
        return None
    if not seen.workload_looked:
        return FindWorkload(Reason.SUSPENDED_EXTERNALLY)
    where = f"{seen.metadata.name} -n {seen.metadata.namespace}"
    if seen.workload:
        return Wait(
            Reason.QUEUED_BY_KUEUE,
            f'Kueue Workload "{seen.workload}" holds the MPIJob, which has no queue label; '
            f"admit it, or choose a LocalQueue: kubectl label mpijob {where} {constants.KUEUE_QUEUE_LABEL}=QUEUE",
        )
    who = f' by "{job.suspender}"' if job.suspender else ""
    patch = '{"spec":{"runPolicy":{"suspend":false}}}'
    return Wait(
        Reason.SUSPENDED_EXTERNALLY,
        f"the MPIJob was suspended{who}, not by this operator; it continues when the MPIJob is resumed: "
        f"kubectl patch mpijob {where} --type merge -p '{patch}'",
        retry_after_seconds=None if seen.workload is None else REPLAN_AFTER_SECONDS,
    )


def moving(seen: ReconcileInput) -> Decision | None:
    """A move that was written down is carried through: stop, wait until the old pods are gone, start on the new plan."""
    if not seen.moving or seen.mpijob is None or seen.plan is None or _job(seen).run_policy.suspend:
        return None
    if not seen.plan_recorded:
        return Wait(Reason.MOVING, "the new plan is being written down", retry_after_seconds=0.0)
    if seen.mpijob.holder:  # a queue that was named meanwhile
        return None if seen.mpijob.suspended else _stay(seen)
    if seen.mpijob.suspended:
        if left := sum(1 for pod in seen.pods if not pod.finished):
            return stuck_on_lost_node(seen) or Wait(Reason.MOVING, f"{left} pods of the old placement are still ending")
        return SetSuspend(Reason.MOVING, "starts on the new plan", suspend=False)
    if resumed_by_other(seen.mpijob):
        return _stay(seen) or SetSuspend(Reason.MOVING, "the MPIJob was resumed, not by this operator", suspend=False)
    if resizes(seen):
        change = f"with {len(seen.plan.workers)} workers instead of {seen.mpijob.workers}"
        return SetSuspend(Reason.MOVING, f"stops because it goes on {change}", suspend=True)
    if away := strays(seen):
        return SetSuspend(Reason.MOVING, f"stops because {len(away)} workers change their node", suspend=True)
    return None


def preempted(seen: ReconcileInput) -> Decision | None:
    """A stop that was written down is carried through; then the job waits for its turn like others, and goes on on a plan made anew."""
    job, stop = seen.mpijob, seen.status.last_stop
    if not seen.preempted or stop is None or job is None or job.holder or _job(seen).run_policy.suspend:
        return None
    if not seen.stop_recorded:
        return Wait(Reason.PREEMPTED, told(stop, seen.metadata.key), retry_after_seconds=0.0)
    if not job.suspended:
        return SetSuspend(Reason.PREEMPTED, told(stop, seen.metadata.key), suspend=True)
    if left := sum(1 for pod in seen.pods if not pod.finished):
        return stuck_on_lost_node(seen) or Wait(Reason.PREEMPTED, f"{left} of its pods are still ending")
    step = _ask(seen, MakePlan(Reason.PREEMPTED, workers_fixed=None if resizable(_job(seen), job) else job.workers))
    return replace(step, reason=Reason.PREEMPTED) if isinstance(step, Wait) else step


def gang_released(seen: ReconcileInput) -> Decision | None:
    """Carry a written release through: end all pods, wait a while, plan again without the nodes that were refused.

    The MPIJob of an external queue is not suspended; its pods are deleted, and come back gated (kueue.md, rule 6).
    """
    job, known = seen.mpijob, seen.status.scheduling
    if not seen.released or job is None or known is None or _job(seen).run_policy.suspend or is_back(seen):
        return None
    if not seen.release_recorded:
        return Wait(Reason.SCHEDULING_TIMEOUT, known.message, retry_after_seconds=0.0)
    if job.holder:
        going = tuple(sorted(pod.uid for pod in seen.workers if not pod.terminating and constants.PLACEMENT_GATE not in pod.gates))
        ending = f"{len(seen.workers)} workers are ending; {known.message}"
        return DeletePods(Reason.SCHEDULING_TIMEOUT, known.message, pod_uids=going) if going else Wait(Reason.SCHEDULING_TIMEOUT, ending)
    if not job.suspended:
        return SetSuspend(Reason.SCHEDULING_TIMEOUT, known.message, suspend=True)
    if left := sum(1 for pod in seen.pods if not pod.finished):
        return stuck_on_lost_node(seen) or Wait(Reason.SCHEDULING_TIMEOUT, f"{left} of its pods are still ending; {known.message}")
    workers = None if resizable(_job(seen), job) else job.workers
    return _held_back(seen) or _ask(seen, MakePlan(Reason.SCHEDULING_TIMEOUT, known.message, workers_fixed=workers))


def resizable_again(seen: ReconcileInput) -> Decision | None:
    """After a suspension a job may go on with any number of workers that it allows; its plan comes first, for its pods follow from it."""
    job = seen.mpijob
    if job is None or not job.suspended or _job(seen).run_policy.suspend or not resizable(_job(seen), job):
        return None
    if left := sum(1 for pod in seen.pods if not pod.finished):
        return stuck_on_lost_node(seen) or Wait(Reason.RESUMED, f"{left} of its pods are still ending")
    return _ask(seen, MakePlan(Reason.RESUMED, "planned anew after a suspension"))


def suspended_before_start(seen: ReconcileInput) -> Decision | None:
    """A suspended job that has no MPIJob yet is neither planned nor created."""
    if seen.mpijob is None and _job(seen).run_policy.suspend:
        return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to plan and start the job")
    return None


def suspension_differs(seen: ReconcileInput) -> Decision | None:
    """Carry `suspend` to the MPIJob once for each change, unless a queue owns it (kueue.md, rule 1).

    Another who resumes the MPIJob is not overruled, which might go on for ever: the gates stay closed instead.
    """
    job, wanted = seen.mpijob, _job(seen).run_policy.suspend
    if job is None or job.holder:
        return None
    step = SetSuspend(Reason.SUSPENDED if wanted else Reason.RESUMED, "as spec.runPolicy.suspend says", suspend=wanted)
    if not resumed_by_other(job):
        return step if job.suspended != wanted else None
    if wanted:
        return Wait(
            Reason.RESUMED_EXTERNALLY,
            "the MPIJob was resumed, not by this operator, while spec.runPolicy.suspend is true; its gated pods wait. "
            "Set spec.runPolicy.suspend to false to go on, or suspend the MPIJob",
        )
    return None if awaits_report(seen.status) else step


def queued(seen: ReconcileInput) -> Decision | None:
    """Suspended means queued, not failed: the plan's reservations lapse, it is made anew on admission (kueue.md, rule 6)."""
    if seen.mpijob is None or not seen.mpijob.suspended:
        return None
    if seen.mpijob.queue:
        return Wait(Reason.QUEUED, f'waiting for queue "{seen.mpijob.queue}"')
    return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to go on")


def lacks_plan(seen: ReconcileInput) -> Decision | None:
    """Plan before anything exists; without room say what is missing and ask again."""
    if _unplanned(seen) or seen.plan is not None or (seen.mpijob is not None and not seen.mpijob.gated):
        return None
    return _ask(seen, MakePlan(Reason.PLANNING, workers_fixed=seen.mpijob.workers if seen.mpijob else None))


def spec_changed_before_start(seen: ReconcileInput) -> Decision | None:
    """A plan for another generation is void as long as nothing was created from it."""
    if seen.mpijob is not None or seen.plan is None or not _planned_generation_differs(seen):
        return None
    return _ask(seen, MakePlan(Reason.SPEC_CHANGED, "the spec changed since the plan was made"))


def plan_only(seen: ReconcileInput) -> Decision | None:
    """The plan is the result."""
    if seen.mpijob is None and _job(seen).plan_only:
        return Wait(Reason.PLAN_ONLY, "spec.planOnly is true; set it to false to run this plan")
    return None


def plan_no_longer_fits(seen: ReconcileInput) -> Decision | None:
    """A planned node went away, filled up or was cordoned before anything was created.

    Where the parts of the plan could not be written another node does not help: the job waits for a new spec or a new partition Job.
    """
    view = seen.partition
    refused = view is not None and view.failed and view.key == seen.partition_key
    if seen.mpijob is not None or not seen.misfits or refused:
        return None
    return _ask(seen, MakePlan(Reason.PLAN_STALE, _told(seen)))


def awaits_approval(seen: ReconcileInput) -> Decision | None:
    """A person decides, and decides on one plan: a later plan needs its own approval."""
    if seen.mpijob is not None or seen.plan is None or _job(seen).approval is not Approval.MANUAL:
        return None
    approved = seen.metadata.annotations.get(constants.APPROVED_PLAN_ANNOTATION, "")
    if approved == seen.plan.plan_id:
        return None
    command = constants.approval_command(seen.metadata.namespace, seen.metadata.name, seen.plan.plan_id)
    was = f"plan {approved} was approved, but it is no longer the plan; " if approved else ""
    return Wait(Reason.AWAITING_APPROVAL, f"{was}approve with: {command}")


def lacks_partitions(seen: ReconcileInput) -> Decision | None:
    """Where a volume is named the parts of the training graph are on it before any worker starts."""
    return _partitions(seen) if seen.mpijob is None else None


def lacks_mpijob(seen: ReconcileInput) -> Decision | None:
    """Everything is decided: create it, with the plan written on it."""
    return CreateMpiJob(Reason.CREATING) if seen.mpijob is None else None


def resumed(seen: ReconcileInput) -> Decision | None:
    """After a suspension the old plan is only a memory: the pods are new and the cluster has moved. So is one for another MPIJob's size."""
    stops = ("Suspended", PREEMPTED_CONDITION)
    was_suspended = any(condition.type in stops and condition.status == "True" for condition in seen.status.conditions)
    was_suspended |= any(condition.reason == Reason.SCHEDULING_TIMEOUT for condition in seen.status.conditions) and not seen.moving
    if not (was_suspended or resizes(seen)) or seen.plan is None or any(pod.bound for pod in seen.workers) or not _gated(seen):
        return None
    if seen.metrics is not None:
        return None  # planned anew in this very pass
    assert seen.mpijob is not None
    return _ask(seen, MakePlan(Reason.RESUMED, "planned anew after a suspension", workers_fixed=seen.mpijob.workers))


def stuck_on_lost_node(seen: ReconcileInput) -> Decision | None:
    """Pods that can never end by themselves: pinned to a node that is gone, or Terminating on an unreachable one (opt-in)."""
    recovery = _job(seen).recovery
    if not recovery.replace_lost_workers:
        return None
    misfit_nodes = {misfit.node for misfit in seen.misfits}
    strays = [pod.uid for pod in seen.workers if _pinned_unbound(pod, seen, misfit_nodes)]
    if strays and seen.status.replans < recovery.max_replans:
        return DeletePods(Reason.NODE_LOST, f"{_told(seen)}; their waiting pods are replaced", pod_uids=tuple(sorted(strays)))
    limit_seconds = recovery.force_delete_after_seconds
    if limit_seconds is None:
        return None
    server_now = seen.now + seen.server_ahead_seconds
    stuck = [
        pod.uid
        for pod in seen.pods
        if pod.terminating and pod.node in seen.unreachable_nodes and server_now - unix_seconds(pod.deletion) >= limit_seconds
    ]
    return DeletePods(Reason.NODE_LOST, "stuck on an unreachable node", pod_uids=tuple(sorted(stuck)), force=True) if stuck else None


def rank_left_out(seen: ReconcileInput) -> Decision | None:
    """Release all ranks where one has no pod, or the scheduler has not placed it, in time: the others would hold GPUs for nothing."""
    if seen.mpijob is None or not seen.mpijob.gated or seconds_left(seen) != 0.0:
        return None
    return ReleaseGang(Reason.SCHEDULING_TIMEOUT, words(seen))


def lacks_new_partitions(seen: ReconcileInput) -> Decision | None:
    """New shares for a replaced worker need new parts before its gate opens; the same shares have theirs already."""
    if not _gated(seen) or seen.misfits or not seen.plan_recorded:
        return None
    return _partitions(seen)


def gates_closed(seen: ReconcileInput) -> Decision | None:
    """Open the gates once every worker's pod exists and its node still has room: all or none (faults.md, 12 and 13)."""
    waiting = _gated(seen)
    plan = seen.plan
    if not waiting or plan is None:
        return None
    present = {pod.index for pod in seen.workers if not pod.terminating}
    if len(present) < len(plan.workers):
        return Wait(Reason.PODS_MISSING, f"{len(present)} of {len(plan.workers)} worker pods exist")
    if any(constants.KUEUE_TOPOLOGY_GATE in pod.gates for pod in waiting):
        return Wait(Reason.WAITING_FOR_QUEUE, "the queue has not assigned its topology domain yet")
    if seen.misfits:
        return _replan_waiting(seen, waiting)
    if not seen.plan_recorded:
        return Wait(Reason.PLAN_UNRECORDED, retry_after_seconds=0.0)
    if (wait := _held_back(seen)) is not None:
        return wait
    placed = [pod for pod in seen.workers if pod.bound]
    if placed and not _job(seen).recovery.replace_lost_workers:
        return Stop(Reason.WORKER_LOST, "spec.recovery.replaceLostWorkers is false: the replacement pods stay gated")
    reason = Reason.REPLACING if placed else Reason.PLACING
    return ReleaseWorkers(reason, nodes={pod.uid: plan.node_of(pod.index) for pod in waiting if pod.index is not None})


def launcher_closed(seen: ReconcileInput) -> Decision | None:
    """The launcher starts when every worker is Ready, also after a suspension (mpi-operator#615)."""
    gated = [pod.uid for pod in seen.launchers if constants.LAUNCHER_GATE in pod.gates and not pod.terminating]
    if not gated or seen.mpijob is None:
        return None
    ready = sum(1 for pod in seen.workers if pod.ready and not pod.terminating)
    if ready < seen.mpijob.workers:
        return Wait(Reason.WORKERS_STARTING, f"{ready} of {seen.mpijob.workers} workers are ready")
    return OpenLauncher(Reason.OPENING_LAUNCHER, pod_uids=tuple(sorted(gated)))


def stop_pays(seen: ReconcileInput) -> Decision | None:
    """A running job without which others end so much sooner that its own delay is paid for is stopped, if it may be."""
    if seen.stop is None or not seen.stop.due or seen.moving or seen.mpijob is None or not seen.mpijob.is_true("Running"):
        return None
    if obstacle(_job(seen), seen.mpijob, seen.status.replans):
        return None
    return BeginStop(Reason.PREEMPTED)


def move_pays(seen: ReconcileInput) -> Decision | None:
    """A running job whose better placement has paid for long enough, and that may be stopped and started, is moved."""
    if seen.move is None or seen.move.plan is None or seen.moving or seen.mpijob is None or not seen.mpijob.is_true("Running"):
        return None
    if obstacle(_job(seen), seen.mpijob, seen.status.replans):
        return None
    return BeginMove(Reason.MOVING, "a better placement pays for the restart", plan=seen.move.plan)


CHAIN: Final[tuple[Callable[[ReconcileInput], Decision | None], ...]] = (
    deleted,
    name_is_taken,
    unreadable_mpijob,
    finished,
    spec_is_bad,
    leaving_mpijob,
    suspended_by_another,
    moving,
    preempted,
    gang_released,
    resizable_again,
    suspended_before_start,
    suspension_differs,
    queued,
    lacks_plan,
    spec_changed_before_start,
    plan_only,
    plan_no_longer_fits,
    awaits_approval,
    lacks_partitions,
    lacks_mpijob,
    resumed,
    stuck_on_lost_node,
    rank_left_out,
    lacks_new_partitions,
    gates_closed,
    launcher_closed,
    stop_pays,
    move_pays,
)


def _steady(seen: ReconcileInput) -> Decision:
    """Nothing left to decide: say how far the pods are."""
    assert seen.mpijob is not None
    if seen.mpijob.is_true("Running"):
        return Wait(Reason.RUNNING)
    ready = sum(1 for pod in seen.workers if pod.ready)
    unschedulable = next((pod.unschedulable for pod in seen.workers if pod.unschedulable), "")
    return Wait(Reason.STARTING, f"{ready} of {seen.mpijob.workers} workers are ready{'; ' + unschedulable if unschedulable else ''}")


def _held_back(seen: ReconcileInput) -> Decision | None:
    """No further try of a job that the scheduler refused too often, and none before its delay is over."""
    known, limit = seen.status.scheduling, _job(seen).recovery.max_replans
    if known is None or not known.releases:
        return None
    if known.releases > limit:
        times = f"{known.releases} times in a row" if known.releases > 1 else "once"
        used = f"spec.recovery.maxReplans ({limit}) allows no other try; correct the cause, then raise it or suspend and resume the job"
        return Stop(Reason.REPLANS_EXHAUSTED, f"all ranks were released {times}, {used}. Last: {known.message}")
    left = delay_left(seen.status, seen.now)
    return Wait(Reason.SCHEDULING_TIMEOUT, known.message, retry_after_seconds=left) if left > 0.0 else None


def _stay(seen: ReconcileInput) -> Decision | None:
    """Another resumed the MPIJob before its workers had moved: those that still run stay, and the plan follows them."""
    assert seen.mpijob is not None
    if not (resizes(seen) or strays(seen)):
        return None
    if left := sum(1 for pod in seen.workers if pod.terminating):
        return Wait(Reason.MOVING, f"{left} pods of the old placement are still ending")
    message = "the MPIJob was resumed, not by this operator, before its workers had moved"
    pinned = {pod.index: pod.node for pod in seen.workers if pod.bound and pod.index is not None}
    return _ask(seen, MakePlan(Reason.PLAN_STALE, message, workers_fixed=seen.mpijob.workers, pinned=pinned))


def _replan_waiting(seen: ReconcileInput, waiting: list[PodView]) -> Decision:
    """Only workers that still wait are planned again; the others keep node and data."""
    assert seen.mpijob is not None
    recovery = _job(seen).recovery
    waiting_indices = {pod.index for pod in waiting}
    pinned = {pod.index: pod.node for pod in seen.workers if pod.bound and pod.index is not None and pod.index not in waiting_indices}
    if pinned and seen.status.replans >= recovery.max_replans:
        return Stop(Reason.REPLANS_EXHAUSTED, f"{_told(seen)}, and spec.recovery.maxReplans ({recovery.max_replans}) is used up; raise it")
    step = MakePlan(
        Reason.PLAN_STALE,
        _told(seen),
        workers_fixed=seen.mpijob.workers,
        pinned=pinned,
        excluded_nodes=tuple(sorted({misfit.node for misfit in seen.misfits} - set(pinned.values()))),
        counts_as_replan=bool(pinned),
    )
    due = _shrinks_at(seen)
    asked = _ask(seen, replace(step, may_shrink=due is not None and seen.now >= due))
    if due is None or seen.now >= due or not isinstance(asked, Wait):
        return asked
    message = f"{asked.message.removesuffix('.')}; from {timestamp(due)} on it may go on with fewer workers"
    return replace(asked, message=message, retry_after_seconds=min(REPLAN_AFTER_SECONDS, due - seen.now))


def _shrinks_at(seen: ReconcileInput) -> float | None:
    """Unix seconds from which a job whose lost workers find no room may go on with fewer workers; None: never."""
    job, spec = seen.mpijob, _job(seen)
    after_seconds = spec.recovery.shrink_after_seconds
    if job is None or after_seconds is None or not spec.recovery.replace_lost_workers or not resizable(spec, job):
        return None
    if job.workers <= spec.workers.min or obstacle(spec, job, seen.status.replans):
        return None
    placed = next((condition for condition in seen.status.conditions if condition.type == "Placed" and condition.status == "False"), None)
    return (unix_seconds(placed.last_transition_time) if placed is not None else seen.now) + after_seconds


def _ask(seen: ReconcileInput, step: MakePlan) -> Decision:
    """Ask for a plan; where this pass has asked already and been refused, or told to wait for its turn, say why and ask again later."""
    turn = seen.turn
    if seen.refusal is not None:
        again = None if seen.refusal.never else REPLAN_AFTER_SECONDS
        return Wait(seen.refusal.reason, seen.refusal.message, retry_after_seconds=again)
    if turn is not None and turn.reason and seen.metrics is None:
        retry = min(REPLAN_AFTER_SECONDS, turn.retry_after_seconds or REPLAN_AFTER_SECONDS)
        return Wait(turn.reason, turn.message, retry_after_seconds=retry)
    return step


def _partitions(seen: ReconcileInput) -> Decision | None:
    """None once the parts are written. The Job is read at most once a pass: it is not watched, its pods are."""
    view = seen.partition
    if not seen.partition_key or (view is not None and view.key == seen.partition_key and view.succeeded):
        return None
    if not seen.partition_looked:
        return EnsurePartitions(Reason.PARTITIONING)
    if view is None or view.key != seen.partition_key or view.deleting:
        return Wait(Reason.PARTITIONING, "the previous partition Job is still being deleted", retry_after_seconds=PARTITION_ENDING_SECONDS)
    last = next((pod for pod in reversed(seen.partition_pods) if pod.owner_uid == view.uid), None)
    if view.failed:
        told = last.termination.strip() if last is not None else ""
        return Stop(Reason.PARTITIONING_FAILED, told or view.message or "the partition Job failed")
    if last is not None and last.finished:
        return Wait(Reason.PARTITIONING, "the partition Job is ending", retry_after_seconds=PARTITION_ENDING_SECONDS)
    waiting = last.unschedulable if last is not None else ""
    message = f"the partition Job's pod waits: {waiting}" if waiting else "the partition Job writes the parts of the training graph"
    return Wait(Reason.PARTITIONING, message, retry_after_seconds=PARTITION_POLL_SECONDS)


def _job(seen: ReconcileInput) -> JobSpec:
    """The parsed spec; `spec_is_bad` comes first in the chain for every caller."""
    assert seen.job is not None
    return seen.job


def _unplanned(seen: ReconcileInput) -> bool:
    return _job(seen).planner is PlannerChoice.NONE


def _gated(seen: ReconcileInput) -> list[PodView]:
    """Worker pods that wait for their node."""
    return [pod for pod in seen.workers if constants.PLACEMENT_GATE in pod.gates and not pod.terminating]


def _pinned_unbound(pod: PodView, seen: ReconcileInput, misfit_nodes: set[str]) -> bool:
    """The pod was sent to a node that cannot take it any more, before it got there."""
    if pod.bound or pod.gates or pod.terminating or seen.plan is None or pod.index is None or pod.index >= len(seen.plan.workers):
        return False
    strict = _job(seen).placement.mode is PlacementMode.STRICT
    return strict and seen.plan.node_of(pod.index) in misfit_nodes


def _planned_generation_differs(seen: ReconcileInput) -> bool:
    """The recorded plan was made for another generation of the spec."""
    planned = next((condition for condition in seen.status.conditions if condition.type == "Planned"), None)
    return planned is not None and seen.metrics is None and planned.observed_generation != seen.metadata.generation


def _told(seen: ReconcileInput) -> str:
    """The misfits in words."""
    return "; ".join(f"{misfit.node}: {misfit.message or misfit.reason}" for misfit in seen.misfits[:3])
