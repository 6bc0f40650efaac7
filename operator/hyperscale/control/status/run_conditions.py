"""The conditions of a job's run: its summary, and whether it runs, is placed and is suspended. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hyperscale.control.lifecycle.run_messages import run_condition
from hyperscale.control.lifecycle.unscheduled import PLACED_CONDITION, is_back
from hyperscale.control.status.reason_sets import ENDED, SUSPENDED
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import Decision, Reason
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import SUMMARY_CONDITION

FINISHED = "Finished"
"""Reason of what is over because the run has ended."""
MAX_MESSAGE = 2048


def run_conditions(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> list[Condition | None]:
    """The summary and the conditions that follow the MPIJob `job`; after the end those of a finished job, also when the MPIJob is gone."""
    if decision.reason in ENDED:
        return [*_finished(state, decision, job)]
    summary = Condition(SUMMARY_CONDITION, "Unknown", str(decision.reason), decision.message[:MAX_MESSAGE])
    if job is None:
        return [
            summary,
            state.job.status.condition(PLACED_CONDITION) if state.job.status.mpi_job_ref is not None else None,
            _suspended(decision, job),
        ]
    running = new_condition("Running", job.is_true("Running"), *run_condition(state, "Running"), otherwise="Starting")
    return [summary, running, _placed(state, job), _suspended(decision, job)]


def new_condition(kind: str, true: bool, reason: str = "", message: str = "", otherwise: str = "Unknown") -> Condition:
    """A condition that is True or False, not dated yet; `otherwise` is the reason where none is given."""
    return Condition(type=kind, status="True" if true else "False", reason=reason or otherwise, message=message[:MAX_MESSAGE])


def _finished(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> Iterator[Condition]:
    """The conditions of a finished job: neither running nor placed nor suspended any more."""
    end = str(decision.reason)
    reason, message = _told_of_end(state, decision, job)
    yield new_condition(SUMMARY_CONDITION, decision.reason == Reason.SUCCEEDED, end, message)
    if decision.reason == Reason.FAILED:
        yield new_condition("Failed", True, reason, message, otherwise=end)
    for kind in ("Running", PLACED_CONDITION, "Suspended"):
        yield new_condition(kind, False, FINISHED)


def _told_of_end(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> tuple[str, str]:
    """Reason and message of the end: the MPIJob's own, and once it is gone as they were written before."""
    kind = str(decision.reason)
    if job is not None and job.is_true(kind):
        return run_condition(state, kind)
    before = state.job.status.condition(kind)
    return (before.reason, before.message) if before is not None else (kind, decision.message)


def _placed(state: ReconcileInput, job: MpiJobView) -> Condition | None:
    """Whether every rank has a node; None where the job is not gated or its MPIJob is suspended."""
    if not job.gated:
        return None
    release = state.job.status.scheduling
    if state.restart.released and not is_back(state) and release is not None:
        return new_condition(PLACED_CONDITION, False, str(Reason.SCHEDULING_TIMEOUT), release.message)
    if job.suspended:
        return None
    placed = sum(1 for pod in state.gang.workers if pod.bound)
    complete = placed == job.workers
    return new_condition(PLACED_CONDITION, complete, "AllRanksBound" if complete else "RanksWaiting", f"{placed} of {job.workers}")


def _suspended(decision: Decision, job: MpiJobView | None) -> Condition | None:
    if decision.reason in SUSPENDED:
        return new_condition("Suspended", True, str(decision.reason), decision.message)
    if decision.reason == Reason.RESUMED_EXTERNALLY:
        return new_condition("Suspended", False, str(decision.reason), decision.message)
    return new_condition("Suspended", False, "NotSuspended") if job is not None and not job.suspended else None
