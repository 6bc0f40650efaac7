"""Ranks that kube-scheduler leaves out, or whose pods never come: since when, how often, on which nodes, in whose words. Pure.

What is remembered lives in `status.scheduling`, so that a restarted operator continues where the last one stopped.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hyperscale.control.lifecycle.suspension import resumed_by_other
from hyperscale.model import constants
from hyperscale.model.decision import Reason
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.pods import PodView
from hyperscale.model.status import MAX_REFUSAL_LENGTH, MAX_REFUSED_NODES, JobStatus, StatusRefusedNode, StatusScheduling
from hyperscale.util.rfc3339 import timestamp, unix_seconds

PLACED_CONDITION: Final = "Placed"
REFUSED_SECONDS: Final = 1800.0
"""How long a job's plans leave a refused node out: what the scheduler missed there may have come since."""
FIRST_DELAY_SECONDS: Final = 10.0
MAX_DELAY_SECONDS: Final = 600.0
"""Between the releases of a job and its next plan, doubled each time."""
MAX_MESSAGE_LENGTH: Final = 1024
SILENT: Final = "the scheduler has given no reason"
NOTHING: Final = StatusScheduling()


def left_out(state: ReconcileInput) -> tuple[PodView, ...]:
    """Pods of the job that wait for nothing of the operator's and are on no node."""
    ours = (constants.PLACEMENT_GATE, constants.LAUNCHER_GATE)
    return tuple(
        pod
        for pod in (*state.gang.workers, *state.gang.launchers)
        if not pod.bound and not pod.terminating and not any(gate in pod.gates for gate in ours)
    )


def missing(state: ReconcileInput) -> tuple[int, ...]:
    """Indices of workers whose pods do not exist though the MPIJob is to run: their plan holds unused GPUs."""
    job = state.gang.mpijob
    if job is None or not job.gated or job.suspended or job.ending is not None:
        return ()
    there = {pod.index for pod in state.gang.workers}
    return tuple(index for index in range(job.workers) if index not in there)


def is_released(status: JobStatus, mpijob: MpiJobView | None) -> bool:
    """Whether a release was written down from which the job has not resumed; another who resumes the MPIJob ends it."""
    if mpijob is None or resumed_by_other(mpijob):
        return False
    return any((condition.type, condition.reason) == (PLACED_CONDITION, Reason.SCHEDULING_TIMEOUT) for condition in status.conditions)


def is_back(state: ReconcileInput) -> bool:
    """Whether a released job of an external queue has all its workers again, gated: its pods were deleted, not its MPIJob suspended."""
    ended = all(constants.PLACEMENT_GATE in pod.gates for pod in state.gang.workers) and not missing(state)
    mpijob = state.gang.mpijob
    return state.restart.released and mpijob is not None and bool(mpijob.holder) and ended


def seconds_left(state: ReconcileInput) -> float | None:
    """Until all ranks are released; None where none is left out or missing, or where that is not written down yet."""
    scheduling = state.job.status.scheduling
    if scheduling is None or not scheduling.waiting_start_time or not (left_out(state) or missing(state)):
        return None
    return max(0.0, unix_seconds(scheduling.waiting_start_time) + state.clock.scheduling_timeout_seconds - state.clock.now)


def delay_left(status: JobStatus, now: float) -> float:
    """Seconds until a released job may be planned again."""
    scheduling = status.scheduling
    if scheduling is None or not scheduling.last_release_time or not scheduling.releases:
        return 0.0
    delay = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (scheduling.releases - 1))
    return max(0.0, unix_seconds(scheduling.last_release_time) + delay - now)


def refused_nodes(status: JobStatus, now: float) -> dict[str, str]:
    """Nodes that plans of the job leave out now, with the scheduler's words."""
    scheduling = status.scheduling or NOTHING
    return {refused.node: refused.message for refused in scheduling.refused if now - unix_seconds(refused.refusal_time) < REFUSED_SECONDS}


def words(state: ReconcileInput) -> str:
    """Which pods are left out, and what the scheduler says of the first; else which do not exist, and where to look."""
    pods = left_out(state)
    if not pods and state.gang.mpijob is not None and (indices := missing(state)):
        return _missing_words(state, state.gang.mpijob, indices)
    shown = ", ".join(pod.name for pod in pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
    return f"{shown} on no node {state.clock.scheduling_timeout_seconds} s after the gates opened: {_said(pods)}"


def begun(state: ReconcileInput) -> StatusScheduling:
    """What is remembered of a release that begins now."""
    scheduling, time = state.job.status.scheduling or NOTHING, timestamp(state.clock.now)
    fresh = {
        node: StatusRefusedNode(node, pod.unschedulable[:MAX_REFUSAL_LENGTH], time)
        for pod in left_out(state)
        if (node := _refusing_node(state, pod))
    }
    kept = [refused for refused in _lasting(scheduling, state.clock.now) if refused.node not in fresh]
    refused = tuple([*kept, *fresh.values()][-MAX_REFUSED_NODES:])
    return StatusScheduling(
        releases=scheduling.releases + 1, last_release_time=time, message=words(state)[:MAX_MESSAGE_LENGTH], refused=refused
    )


def observed(state: ReconcileInput) -> StatusScheduling | None:
    """What is remembered after a pass: since when a pod is left out or missing, and nothing of earlier releases once the job runs."""
    scheduling = state.job.status.scheduling or NOTHING
    waits = _places(state) and (left_out(state) or missing(state))
    since = (scheduling.waiting_start_time or timestamp(state.clock.now)) if waits else ""
    kept = replace(scheduling, waiting_start_time=since, refused=_lasting(scheduling, state.clock.now))
    kept = replace(kept, releases=0, last_release_time="", message="") if _ends_releases(state) else kept
    return None if kept == NOTHING else kept


def _places(state: ReconcileInput) -> bool:
    """Whether the ranks of the job's own MPIJob are to run now; one that another owner made says nothing of this job."""
    job = state.gang.mpijob
    own = job is not None and job.owner_uid == state.job.metadata.uid
    return job is not None and own and job.gated and not job.suspended and not state.restart.released


def _ends_releases(state: ReconcileInput) -> bool:
    """Whether earlier releases count no longer: the job runs, or its user suspends it."""
    job, spec = state.gang.mpijob, state.job.parsed
    return (job is not None and job.is_true("Running")) or (spec is not None and spec.run_policy.suspend)


def _missing_words(state: ReconcileInput, job: MpiJobView, indices: tuple[int, ...]) -> str:
    name, namespace = state.job.metadata.name, state.job.metadata.namespace
    shown = ", ".join(f"{name}-worker-{index}" for index in indices[:3]) + (f" and {len(indices) - 3} more" if len(indices) > 3 else "")
    cause = (
        f"mpi-operator cannot create them, its events say why (a quota, an admission webhook): kubectl get events -n {namespace}"
        if job.conditions
        else "mpi-operator has not taken up the MPIJob: check that it runs and that spec.runPolicy.managedBy names no other controller"
    )
    after = f"{state.clock.scheduling_timeout_seconds} s after they were due"
    return f"{len(indices)} of {job.workers} worker pods ({shown}) do not exist {after}; {cause}"


def _lasting(scheduling: StatusScheduling, now: float) -> tuple[StatusRefusedNode, ...]:
    return tuple(refused for refused in scheduling.refused if now - unix_seconds(refused.refusal_time) < REFUSED_SECONDS)


def _refusing_node(state: ReconcileInput, pod: PodView) -> str:
    """The planned node of a worker that the scheduler refused there; "" where it said nothing, or spoke of no node."""
    index, plan = pod.index, state.plan.in_force
    if index is None or plan is None or index >= len(plan.workers) or not pod.unschedulable:
        return ""
    return "" if "persistentvolumeclaim" in pod.unschedulable.lower() else plan.node_of(index)


def _said(pods: tuple[PodView, ...]) -> str:
    gated = next((pod for pod in pods if pod.gates), None)
    if gated is not None:
        return f"{gated.name} has the scheduling gate {gated.gates[0]}, which is not the operator's"
    return next((pod.unschedulable for pod in pods if pod.unschedulable), SILENT)
