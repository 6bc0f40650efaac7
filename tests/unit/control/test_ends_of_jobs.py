"""Condition Succeeded sums a job up until its run ends, and what the conditions of a finished job are."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.stoppable import run_is_over
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import Reason, Stop, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible
from hyperscale.model.status import STATES_WITHOUT_MPIJOB, JobStatus, StateWord, read_status, to_wire
from tests.builders.seen import MEASURED, STARTED, launcher, mpijob, plan, seen, status, worker

TWO = plan("node-a", "node-b")
RUNS = {"Running": (True, "MPIJobRunning", "MPIJob team/cora is running.")}
ENDS = {
    "Succeeded": {"Succeeded": (True, "MPIJobSucceeded", "MPIJob team/cora successfully completed.")},
    "Failed": {"Failed": (True, "BackoffLimitExceeded", "Job has reached the backoff limit")},
}
ACTIVE = ("Reconciling", "Migrating", "Preempted", "MigrationProposed", "PreemptionProposed")


def after(look: ReconcileInput) -> JobStatus:
    return derive(look, decide(look))


def reasons(of: JobStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in of.conditions}


def told(of: JobStatus, kind: str) -> Condition:
    return next(one for one in of.conditions if one.type == kind)


def running(**changes: Any) -> ReconcileInput:
    pods = (launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    return seen(plan=TWO, plan_recorded=True, metrics=MEASURED, **{"mpijob": mpijob(conditions=RUNS), "pods": pods, **changes})


def ended(end: str, before: JobStatus | None = None) -> JobStatus:
    """Of a job whose MPIJob has ended and whose pods are cleaned away, as mpi-operator leaves both."""
    over = mpijob(conditions={**ENDS[end], "Running": (False, "MPIJobRunning", "MPIJob team/cora is running.")})
    return after(seen(plan=TWO, plan_recorded=True, mpijob=over, status=before or after(running())))


def test_until_the_run_ends_the_summary_is_unknown_with_the_reason_and_the_message_of_the_last_step() -> None:
    refused = after(seen(refusal=Infeasible(reason="InsufficientGPUs", message="needs 8, 6 are free")))
    summary = told(refused, "Succeeded")
    assert (summary.status, summary.reason, summary.message) == ("Unknown", "InsufficientGPUs", "needs 8, 6 are free")
    assert reasons(after(running()))["Succeeded"] == ("Unknown", "Running")


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.SUCCEEDED, Reason.FAILED}))
def test_every_step_is_summed_up_with_its_reason(reason: Reason) -> None:
    written = derive(seen(), Wait(reason))
    assert reasons(written)["Succeeded"] == ("Unknown", str(reason))
    assert written.reason == reason


def test_the_time_of_the_summary_moves_only_when_the_run_ends() -> None:
    first = derive(seen(), Wait(Reason.PLANNING))
    second = derive(running(status=first, now=2_000_000.0), Wait(Reason.RUNNING))
    over = derive(running(mpijob=mpijob(conditions=ENDS["Succeeded"]), status=second, now=3_000_000.0), Stop(Reason.SUCCEEDED))
    times = [told(each, "Succeeded").last_transition_time for each in (first, second, over)]
    assert times[0] == times[1] != times[2]


@pytest.mark.parametrize("end", sorted(ENDS))
def test_nothing_of_a_finished_job_runs_or_is_placed_or_is_suspended(end: str) -> None:
    written = ended(end)
    over = reasons(written)
    assert [over[kind] for kind in ("Running", "Placed", "Suspended")] == [("False", "Finished")] * 3
    assert not over.keys() & set(ACTIVE)
    assert written.state == end


def test_a_job_that_succeeded_says_so_in_one_condition() -> None:
    over = ended("Succeeded")
    assert reasons(over)["Succeeded"] == ("True", "Succeeded")
    assert told(over, "Succeeded").message == ENDS["Succeeded"]["Succeeded"][2]
    assert not reasons(over).keys() & {"Failed", "Stalled"}


def test_a_job_that_failed_is_stalled_and_keeps_the_mpijobs_reason_and_the_launchers_last_line() -> None:
    failed = launcher(phase="Failed", termination="out of memory")
    look = running(mpijob=mpijob(conditions=ENDS["Failed"]), pods=(failed,), status=after(running()))
    over = after(look)
    assert [reasons(over)[kind] for kind in ("Succeeded", "Failed", "Stalled")] == [
        ("False", "Failed"),
        ("True", "BackoffLimitExceeded"),
        ("True", "Failed"),
    ]
    last_line = "Job has reached the backoff limit; the launcher's last line: out of memory"
    assert told(over, "Failed").message == told(over, "Succeeded").message == last_line


@pytest.mark.parametrize("end", sorted(ENDS))
def test_what_is_told_of_the_plan_that_ran_stays(end: str) -> None:
    before = after(running())
    over = ended(end, before)
    assert {kind: reasons(over)[kind] for kind in ("Planned", "Degraded")} == {
        "Planned": ("True", "PlanAccepted"),
        "Degraded": ("False", "MetricsAvailable"),
    }


@pytest.mark.parametrize("end", sorted(ENDS))
def test_a_finished_job_stays_as_told_once_its_mpijob_is_gone(end: str) -> None:
    first = ended(end)
    later = after(seen(plan=TWO, plan_recorded=True, status=first))
    kept = [one for one in later.conditions if one.type != "Stalled"]
    assert kept == [one for one in first.conditions if one.type != "Stalled"]
    assert (later.state, later.reason) == (first.state, first.reason) == (end, end)
    assert after(seen(plan=TWO, plan_recorded=True, status=later)) == later, "nothing more is written"


def test_a_running_job_whose_mpijob_was_deleted_is_not_told_to_run() -> None:
    gone = derive(seen(plan=TWO, plan_recorded=True, status=after(running())), Wait(Reason.CREATING))
    assert "Running" not in reasons(gone)
    assert gone.state is StateWord.PENDING


def former(end: str, **changes: Any) -> JobStatus:
    """The status of a finished job as the version before this one wrote it, read back."""
    kept = [
        {"type": "Placed", "status": "True", "reason": "AllRanksBound", "message": "2 of 2"},
        {"type": "Running", "status": "False", "reason": end, "message": "finished"},
        {"type": end, "status": "True", "reason": f"MPIJob{end}", "message": "the MPIJob's own words"},
    ]
    wire = {"observedGeneration": 1, "phase": end, "reason": end, "conditions": kept, "mpiJobRef": {"name": "cora", "uid": "mpijob-uid"}}
    return read_status({**wire, **changes})


@pytest.mark.parametrize("end", sorted(ENDS))
@pytest.mark.parametrize("phase", ["as it ended", "Pending", None], ids=str)
@pytest.mark.parametrize(
    "view", [None, mpijob(owner_uid="another"), mpijob(fault="spec is absent")], ids=["gone", "another's", "unreadable"]
)
def test_a_run_that_ended_under_the_former_version_stays_ended_whatever_its_phase_said(end: str, phase: str | None, view: Any) -> None:
    before = former(end, phase=end if phase == "as it ended" else phase)
    assert run_is_over(before)
    look = seen(status=before, mpijob=view, plan=TWO, plan_recorded=True)
    decision = decide(look)
    assert (type(decision), decision.reason) == (Stop, end)
    over = derive(look, decision)
    assert reasons(over)["Succeeded"] == ("True" if end == "Succeeded" else "False", end)
    assert [reasons(over)[kind] for kind in ("Running", "Placed", "Suspended")] == [("False", "Finished")] * 3
    assert told(over, "Succeeded").message == "the MPIJob's own words"
    assert (before.state, before.reason) == (over.state, over.reason) == (end, end), "the end is neither counted nor told again"


def test_a_phase_alone_ends_nothing() -> None:
    unfinished = read_status({"phase": "Succeeded", "reason": "Succeeded", "mpiJobRef": {"name": "cora", "uid": "mpijob-uid"}})
    assert not run_is_over(unfinished)
    assert not run_is_over(replace(former("Succeeded"), mpi_job_ref=None)), "no run of this job has ended"


@pytest.mark.parametrize("state", sorted(StateWord))
def test_the_state_is_read_from_the_conditions_and_survives_writing(state: StateWord) -> None:
    written = status(state, mpi_job_ref=STARTED)
    assert written.state is state
    assert read_status(to_wire(written)).state is state
    assert not {"phase", "reason"} & to_wire(written).keys()


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((("Running", "False"),), StateWord.QUEUED),
        ((("Running", "True"), ("Suspended", "True")), StateWord.QUEUED),
        ((("Running", "True"), ("Suspended", "False")), StateWord.RUNNING),
        ((("Suspended", "True"),), StateWord.PENDING),
    ],
    ids=["stopped", "still-running", "running", "suspended-before-the-start"],
)
def test_a_job_is_queued_while_its_mpijob_is_suspended(conditions: tuple[tuple[str, Any], ...], state: StateWord) -> None:
    assert JobStatus(conditions=tuple(Condition(kind, value, "Test") for kind, value in conditions)).state is state


def test_the_reasons_that_tell_a_state_are_reasons_of_steps() -> None:
    assert set(Reason) >= STATES_WITHOUT_MPIJOB.keys()


@pytest.mark.parametrize("reason", [Reason.MIGRATING, Reason.NODE_LOST])
def test_a_suspended_job_that_migrates_is_starting(reason: Reason) -> None:
    kinds = (
        Condition("Succeeded", "Unknown", str(reason)),
        Condition("Migrating", "True", "Migrating"),
        Condition("Running", "False", "Test"),
    )
    assert JobStatus(conditions=kinds).state is StateWord.STARTING
