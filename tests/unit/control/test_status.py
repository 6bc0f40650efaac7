"""What a pass tells people."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import ReconcileContext, event_for
from hyperscale.control.decide.chain import decide
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import Reason, Stop, Wait
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible
from hyperscale.model.status import JobStatus, StateWord, StatusColumns, read_status, to_wire
from tests.builders.seen import MEASURED, UID, changed, job_spec, launcher, mpijob, plan, seen, worker
from tests.builders.seen import status as written

TWO = plan("node-a", "node-b")


def conditions(status: JobStatus) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in status.conditions}


def after(look: ReconcileInput) -> JobStatus:
    return derive(look, decide(look))


def test_a_plan_from_fresh_measurements_is_not_degraded() -> None:
    status = derive(seen(plan=TWO, metrics=MEASURED), Wait(Reason.STARTING))
    assert conditions(status)["Planned"] == ("True", "PlanAccepted")
    assert conditions(status)["Degraded"] == ("False", "MetricsAvailable")


def test_a_plan_without_prometheus_is_degraded_with_the_reason() -> None:
    metrics = MetricsState(available=False, reason="PrometheusUnreachable", message="connection refused")
    planned = msgspec.structs.replace(TWO, fallbacks=("LinksEstimatedFromLabels",))
    status = derive(seen(plan=planned, metrics=metrics), Wait(Reason.STARTING))
    degraded = next(condition for condition in status.conditions if condition.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "PrometheusUnreachable")
    assert "LinksEstimatedFromLabels" in degraded.message


def test_what_the_planning_pass_said_of_degradation_stays_in_later_passes() -> None:
    metrics = MetricsState(available=False, reason="MetricsStale", message="10 minutes old")
    first = derive(seen(plan=TWO, metrics=metrics), Wait(Reason.STARTING))
    later = derive(seen(plan=TWO, plan_recorded=True, status=first, mpijob=mpijob()), Wait(Reason.STARTING))
    assert conditions(later)["Degraded"] == ("True", "MetricsStale")


def test_without_room_the_job_is_pending_and_says_why() -> None:
    status = after(seen(refusal=Infeasible(reason="InsufficientGPUs", message="needs 8, 6 are free. Try workers.maxReplicas: 6.")))
    assert status.state is StateWord.PENDING
    assert conditions(status)["Planned"] == ("False", "InsufficientGPUs")
    assert status.reason == "InsufficientGPUs"


@pytest.mark.parametrize("reason", [Reason.INVALID_SPEC, Reason.NAME_CONFLICT, Reason.INVALID_POD_TEMPLATE, Reason.PLAN_CHANGES_EXHAUSTED])
def test_what_only_a_person_can_mend_is_stalled_not_reconciling(reason: Reason) -> None:
    status = derive(seen(), Stop(reason, "see here"))
    assert conditions(status)["Stalled"] == ("True", str(reason))
    assert "Reconciling" not in conditions(status)


def test_a_running_job_is_neither_stalled_nor_reconciling() -> None:
    look = seen(
        plan=TWO,
        plan_recorded=True,
        mpijob=mpijob(conditions={"Running": (True, "MPIJobRunning", "")}),
        pods=(launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True)),
    )
    status = after(look)
    assert status.state is StateWord.RUNNING
    assert shown(status).ready == "2/2"
    assert not {"Stalled", "Reconciling"} & conditions(status).keys()
    assert conditions(status)["Placed"] == ("True", "AllRanksBound")


MANUAL = job_spec(startPolicy="Manual")


def approving(plan_id: str) -> JobMetadata:
    return JobMetadata(namespace="team", name="cora", uid=UID, generation=1, annotations={constants.APPROVED_PLAN_ANNOTATION: plan_id})


def test_a_plan_is_told_to_be_approved_as_soon_as_it_is_and_not_before() -> None:
    assert "Approved" not in conditions(after(seen(MANUAL)))
    assert conditions(after(seen(MANUAL, plan=TWO)))["Approved"] == ("False", "AwaitingApproval")
    assert conditions(after(seen(MANUAL, plan=TWO, metadata=approving("another"))))["Approved"] == ("False", "AwaitingApproval")
    approved = after(seen(MANUAL, plan=TWO, metadata=approving(TWO.plan_id)))
    assert told(approved, "Approved") == ("True", "PlanApproved", f"plan {TWO.plan_id}")


def test_a_started_job_stays_approved_by_its_first_plan_also_when_the_plan_changes_and_the_run_ends() -> None:
    first = after(seen(MANUAL, plan=TWO, metadata=approving(TWO.plan_id)))
    other = plan("node-a", "node-c")
    runs = after(seen(MANUAL, plan=other, plan_recorded=True, mpijob=mpijob(), status=first, metadata=approving(TWO.plan_id)))
    done = mpijob(conditions={"Succeeded": (True, "MPIJobSucceeded", "")})
    ends = after(seen(MANUAL, plan=other, plan_recorded=True, mpijob=done, status=runs, metadata=approving(TWO.plan_id)))
    over = after(seen(MANUAL, plan=other, plan_recorded=True, status=ends, metadata=approving(TWO.plan_id)))
    assert told(runs, "Approved") == told(over, "Approved") == told(first, "Approved")


def test_without_a_manual_start_nothing_is_told_of_approval() -> None:
    assert "Approved" not in conditions(after(seen(plan=TWO)))
    assert "Approved" not in conditions(after(seen(plan=TWO, plan_recorded=True, mpijob=mpijob())))


def ended(kind: str, reason: str, *, before: JobStatus | None = None) -> JobStatus:
    """Status of a job whose MPIJob has ended and whose pods are cleaned away, as mpi-operator 0.8 leaves both."""
    over = mpijob(
        conditions={
            kind: (True, reason, f"MPIJob team/cora has ended: {reason}"),
            "Running": (False, "MPIJobRunning", "MPIJob team/cora is running."),
        },
        completion_time="2026-01-01T01:00:00Z",
    )
    return after(seen(plan=TWO, plan_recorded=True, mpijob=over, status=before or JobStatus()))


def shown(status: JobStatus) -> StatusColumns:
    return status.columns or StatusColumns()


def told(status: JobStatus, kind: str) -> tuple[str, str, str]:
    return next((one.status, one.reason, one.message) for one in status.conditions if one.type == kind)


def test_a_finished_job_counts_no_ready_workers() -> None:
    assert shown(ended("Succeeded", "MPIJobSucceeded")).ready == ""
    assert shown(ended("Failed", "MPIJobFailed")).ready == ""


HALF_WAY = Measured(epoch=1, epochs=2, accuracy=0.8181, epoch_seconds=0.0098765)


def test_columns_show_units_and_no_more_digits_than_the_figures_are_worth() -> None:
    slow = msgspec.structs.replace(TWO, predicted=msgspec.structs.replace(TWO.predicted, epoch_seconds=0.00715468061))
    status = after(seen(plan=slow, plan_recorded=True, mpijob=mpijob(), measured=HALF_WAY))
    assert to_wire(status)["columns"] == {"ready": "0/2", "epoch": "1/2", "accuracy": "81.8%", "predicted": "7.2ms", "measured": "9.88ms"}


def test_what_is_unknown_has_no_column() -> None:
    assert "columns" not in to_wire(after(seen()))


def test_a_second_pass_over_an_unchanged_world_gives_the_same_status_so_that_nothing_is_written() -> None:
    look = seen(plan=TWO, plan_recorded=True, mpijob=mpijob(), pods=(worker(0, node="node-a"), worker(1, node="node-b")))
    first = after(look)
    assert after(changed(look, status=first, now=look.clock.now + 3600)) == first


def test_transition_times_move_only_with_the_status_of_a_condition() -> None:
    first = derive(seen(plan=TWO, metrics=MEASURED, mpijob=mpijob()), Wait(Reason.STARTING))
    running = mpijob(conditions={"Running": (True, "MPIJobRunning", "")})
    second = derive(seen(plan=TWO, plan_recorded=True, status=first, mpijob=running, now=2_000_000.0), Wait(Reason.RUNNING))
    times = {
        c.type: (c.last_transition_time, d.last_transition_time) for c in first.conditions for d in second.conditions if c.type == d.type
    }
    assert times["Planned"][0] == times["Planned"][1]
    assert times["Running"][0] != times["Running"][1]


def test_the_status_written_is_the_status_read_back() -> None:
    status = derive(seen(plan=TWO, metrics=MEASURED, mpijob=mpijob(), pods=(worker(0, node="node-a"),)), Wait(Reason.STARTING))
    assert read_status(msgspec.json.decode(msgspec.json.encode(to_wire(status)))) == status


def test_what_is_unknown_of_a_rank_is_left_out_of_the_written_status_not_null() -> None:
    unlabelled = msgspec.structs.replace(TWO, workers=tuple(msgspec.structs.replace(one, product=None) for one in TWO.workers))
    wire = msgspec.json.encode(to_wire(derive(seen(plan=unlabelled, metrics=MEASURED), Wait(Reason.STARTING))))
    assert b"null" not in wire


@given(st.lists(st.text(alphabet="abcdefgh-", min_size=1, max_size=12), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_plan_recorded_in_status_comes_back_whole(nodes: list[str]) -> None:
    original = plan(*nodes)
    assert read_status(to_wire(JobStatus(plan=original))).plan == original


STAND_IN = Measured(epoch=9, epochs=9, accuracy=0.99, finished=True, generated=True)


def message(status: JobStatus, kind: str) -> str:
    return next(condition.message for condition in status.conditions if condition.type == kind)


@pytest.mark.parametrize("kind", ["Running", "Succeeded"])
def test_a_job_that_trains_on_a_stand_in_says_so_and_what_to_set(kind: str) -> None:
    job = mpijob(conditions={kind: (True, f"MPIJob{kind}", "the MPIJob's own words")})
    status = after(seen(plan=TWO, plan_recorded=True, mpijob=job, measured=STAND_IN))
    said = message(status, kind)
    assert said.startswith("trained on a generated graph of Cora's size, because Cora was not found")
    assert "set HYPERSCALE_DATASETS" in said
    assert said.endswith("; the MPIJob's own words")
    assert to_wire(status)["measured"] == {"epoch": 9, "epochs": 9, "accuracy": 0.99, "finished": True, "generated": True}


@pytest.mark.parametrize(
    ("measured", "begins"), [(STAND_IN, "trained on a generated graph of Cora's size"), (None, "the MPIJob's own words")]
)
def test_the_event_of_a_jobs_end_says_what_its_condition_says(measured: Measured | None, begins: str) -> None:
    job = mpijob(conditions={"Succeeded": (True, "MPIJobSucceeded", "the MPIJob's own words")})
    look = seen(plan=TWO, plan_recorded=True, mpijob=job, measured=measured)
    told = event_for(ReconcileContext(Key("team", "cora"), PolicySpec(), 0.0), look, decide(look), written(StateWord.RUNNING), after(look))
    assert told is not None
    assert (told.reason, told.message) == ("Succeeded", message(after(look), "Succeeded"))
    assert told.message.startswith(begins)
    assert len(told.message) <= 1024, "what an event holds"


def test_the_words_about_a_stand_in_stay_when_the_launcher_or_the_mpijob_is_gone() -> None:
    job = mpijob(conditions={"Succeeded": (True, "MPIJobSucceeded", "")})
    first = after(seen(plan=TWO, plan_recorded=True, mpijob=job, measured=STAND_IN))
    second = after(seen(plan=TWO, plan_recorded=True, mpijob=job, status=first))
    third = after(seen(plan=TWO, plan_recorded=True, status=second))
    assert message(first, "Succeeded") == message(second, "Succeeded") == message(third, "Succeeded")


def test_a_job_whose_spec_was_broken_meanwhile_still_says_that_its_graph_was_a_stand_in() -> None:
    job = mpijob(conditions={"Running": (True, "MPIJobRunning", "")})
    look = changed(seen(mpijob=job, measured=STAND_IN), job=None)
    assert "the builtin graph was not found" in message(derive(look, Wait(Reason.RUNNING)), "Running")


def test_other_messages_of_the_mpijob_are_passed_on_as_they_are() -> None:
    real = msgspec.structs.replace(STAND_IN, generated=False)
    for kind, measured in (("Running", real), ("Succeeded", real), ("Failed", STAND_IN)):
        job = mpijob(conditions={kind: (True, "Reason", "own words")})
        assert message(after(seen(plan=TWO, plan_recorded=True, mpijob=job, measured=measured)), kind) == "own words"


def test_a_status_from_before_stand_ins_were_told_is_read() -> None:
    told = read_status({"phase": "Succeeded", "measured": {"epoch": 9, "epochs": 9, "accuracy": 0.8, "finished": True}})
    assert told.measured == Measured(epoch=9, epochs=9, accuracy=0.8, finished=True)


def test_a_status_broken_by_hand_is_replaced_not_feared() -> None:
    assert read_status({"phase": "Nonsense", "conditions": 7}) == JobStatus()
