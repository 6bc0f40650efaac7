"""Release: give back all GPUs of a gang after the scheduler left one of its pods out."""

from __future__ import annotations

from hyperscale.control.decide.plan_job import request_plan
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.lifecycle.movable import resizable
from hyperscale.control.lifecycle.unscheduled import delay_left, is_back, seconds_left, words
from hyperscale.model import constants
from hyperscale.model.decision import Decision, DeletePods, MakePlan, Reason, ReleaseGang, SetSuspend, Stop, Wait
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import GangState, ReconcileInput


def gang_released(state: ReconcileInput) -> Decision | None:
    """Carry a recorded release through: end all pods, wait, plan again without the nodes that the scheduler rejected.

    The MPIJob of an external queue is not suspended; its pods are deleted and return gated.
    """
    job, gang, restart = state.job, state.gang, state.restart
    mpijob, release = gang.mpijob, job.status.scheduling
    if not restart.released or mpijob is None or release is None or job.spec.run_policy.suspend or is_back(state):
        return None
    if not restart.release_recorded:
        return Wait(Reason.SCHEDULING_TIMEOUT, release.message, retry_after_seconds=0.0)
    if mpijob.holder:
        return _delete_ungated(gang, release.message)
    if not mpijob.suspended:
        return SetSuspend(Reason.SCHEDULING_TIMEOUT, release.message, suspend=True)
    if left := gang.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.SCHEDULING_TIMEOUT, f"{left} of its pods are still ending; {release.message}")
    return delay_of_release(state) or _replan(state, mpijob, release.message)


def _replan(state: ReconcileInput, mpijob: MpiJobView, message: str) -> Decision:
    """Request another plan, with as many workers unless the MPIJob can be resized."""
    workers = None if resizable(state.job.spec, mpijob) else mpijob.workers
    return request_plan(state, MakePlan(Reason.SCHEDULING_TIMEOUT, message, workers_fixed=workers))


def _delete_ungated(gang: GangState, message: str) -> Decision:
    """Delete the workers whose gate was opened; then wait until they have ended."""
    ungated = tuple(sorted(pod.uid for pod in gang.workers if not pod.terminating and constants.PLACEMENT_GATE not in pod.gates))
    if ungated:
        return DeletePods(Reason.SCHEDULING_TIMEOUT, message, pod_uids=ungated)
    return Wait(Reason.SCHEDULING_TIMEOUT, f"{len(gang.workers)} workers are ending; {message}")


def rank_left_out(state: ReconcileInput) -> Decision | None:
    """Release the gang when a rank has no pod or no node in time: the other ranks reserve GPUs without using them."""
    mpijob = state.gang.mpijob
    if mpijob is None or not mpijob.gated or seconds_left(state) != 0.0:
        return None
    return ReleaseGang(Reason.SCHEDULING_TIMEOUT, words(state))


def delay_of_release(state: ReconcileInput) -> Stop | Wait | None:
    """Return the wait until a released gang may try again, or the stop after too many releases in a row; None: it may try now."""
    job = state.job
    release, limit = job.status.scheduling, job.spec.recovery.max_plan_changes
    if release is None or not release.releases:
        return None
    if release.releases > limit:
        times = f"{release.releases} times in a row" if release.releases > 1 else "once"
        used = f"spec.recovery.maxPlanChanges ({limit}) allows no other try; correct the cause, then raise it or suspend and resume the job"
        return Stop(Reason.PLAN_CHANGES_EXHAUSTED, f"all ranks were released {times}, {used}. Last: {release.message}")
    left = delay_left(job.status, state.clock.now)
    return Wait(Reason.SCHEDULING_TIMEOUT, release.message, retry_after_seconds=left) if left > 0.0 else None
