"""The chain of checks, one sentence a rule."""

from __future__ import annotations

import pytest

from hyperscale.control.decide.chain import decide
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.decision import CreateMpiJob, DeletePods, MakePlan, OpenLauncher, Reason, ReleaseWorkers, SetSuspend, Stop, Wait
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput, SpecFault
from hyperscale.model.plan import NEVER_FITS, Infeasible
from hyperscale.model.status import StateWord
from tests.builders.seen import GONE, MEASURED, STARTED, UID, changed, condition, job_spec, launcher, mpijob, plan, seen, status, worker

NO_ROOM = Infeasible(reason="InsufficientGPUs", message="needs 2 GPUs, 1 is free")
TWO = plan("node-a", "node-b")


def placed(**changes: object) -> ReconcileInput:
    """Both ranks run where the plan says."""
    base = seen(
        mpijob=mpijob(),
        plan=TWO,
        plan_recorded=True,
        pods=(launcher(gated=True), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True)),
    )
    return changed(base, **changes)


def test_a_new_job_is_planned_before_anything_exists() -> None:
    assert isinstance(decide(seen()), MakePlan)


def test_a_planned_job_gets_its_mpijob() -> None:
    assert isinstance(decide(seen(plan=TWO, metrics=MEASURED)), CreateMpiJob)


def test_a_job_without_room_says_what_is_missing_and_asks_again() -> None:
    decision = decide(seen(refusal=NO_ROOM))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.message) == ("InsufficientGPUs", NO_ROOM.message)
    assert decision.retry_after_seconds


def test_a_job_that_never_fits_is_stalled_and_asks_again_only_when_something_changes() -> None:
    look = seen(refusal=Infeasible(reason=NEVER_FITS, message="no node has 16 GPUs"))
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == ("NeverFits", None)
    assert {"Stalled", "Planned"} <= {each.type for each in derive(look, decision).conditions}


def test_a_job_whose_mpijob_belongs_to_someone_else_is_left_alone() -> None:
    decision = decide(seen(mpijob=mpijob(owner_uid="somebody")))
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.NAME_CONFLICT


def test_forged_labels_do_not_make_an_mpijob_ours() -> None:
    assert decide(seen(mpijob=mpijob(owner_uid="", plan=TWO))).reason == Reason.NAME_CONFLICT


def test_a_deleted_job_creates_nothing() -> None:
    assert decide(seen(deleting=True)).reason == Reason.DELETED


def test_a_spec_that_cannot_be_read_stops_with_its_path() -> None:
    decision = decide(changed(seen(), job=None, fault=SpecFault("spec.workers.maxReplicas", "2 is below spec.workers.minReplicas: 4")))
    assert isinstance(decision, Stop)
    assert decision.message.startswith("spec.workers.maxReplicas: 2 is below")


@pytest.mark.parametrize("state", [StateWord.SUCCEEDED, StateWord.FAILED])
@pytest.mark.parametrize(
    "view",
    [mpijob(owner_uid="another"), mpijob(owner_uid=""), mpijob(fault="spec.mpiReplicaSpecs is absent")],
    ids=["of-another-owner", "without-an-owner", "unreadable"],
)
def test_a_run_that_ended_stays_ended_when_another_mpijob_takes_its_name(state: StateWord, view: MpiJobView) -> None:
    ended = status(state, condition(state.value), mpi_job_ref=STARTED, completion_time="2026-01-01T01:00:00Z")
    before = seen(status=ended, mpijob=view, plan=TWO)
    decision = decide(before)
    assert isinstance(decision, Stop)
    assert decision.reason == Reason(state.value)
    written = derive(before, decision)
    assert (written.state, written.mpi_job_ref, written.completion_time) == (state, STARTED, ended.completion_time)
    after = seen(status=written, plan=TWO)
    assert decide(after).reason == Reason(state.value), "the other MPIJob is gone: nothing is planned or created"


@pytest.mark.parametrize("state", [StateWord.SUCCEEDED, StateWord.FAILED])
def test_a_finished_job_whose_mpijob_was_removed_by_its_ttl_is_not_run_again(state: StateWord) -> None:
    decision = decide(seen(status=status(state, mpi_job_ref=STARTED), plan=TWO))
    assert isinstance(decision, Stop)
    assert decision.reason == str(state)


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_the_mpijobs_end_is_the_jobs_end(end: str) -> None:
    assert decide(placed(mpijob=mpijob(conditions={end: (True, f"MPIJob{end}", "")}))).reason == end


def test_a_job_without_planner_gets_its_mpijob_unplanned() -> None:
    assert isinstance(decide(seen(job_spec(planner="None"))), CreateMpiJob)


def test_a_suspended_job_is_neither_planned_nor_created() -> None:
    decision = decide(seen(job_spec(runPolicy={"suspend": True})))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.SUSPENDED


@pytest.mark.parametrize("wanted", [True, False])
def test_suspend_is_carried_to_the_mpijob(wanted: bool) -> None:
    decision = decide(seen(job_spec(runPolicy={"suspend": wanted}), mpijob=mpijob(suspended=not wanted), plan=TWO))
    assert isinstance(decision, SetSuspend)
    assert decision.suspend is wanted


def test_suspend_is_never_written_on_an_mpijob_that_a_queue_owns() -> None:
    for suspended in (True, False):
        job = job_spec(runPolicy={"suspend": not suspended})
        decision = decide(seen(job, mpijob=mpijob(suspended=suspended, queue="gpu"), plan=TWO, plan_recorded=True))
        assert not isinstance(decision, SetSuspend)


def test_suspended_by_its_queue_means_queued_not_failed() -> None:
    decision = decide(placed(mpijob=mpijob(suspended=True, queue="gpu")))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.QUEUED


def test_after_a_suspension_the_plan_is_made_anew_with_the_same_worker_count() -> None:
    look = placed(
        pods=(worker(0, gated=True), worker(1, gated=True)), status=status(StateWord.QUEUED, condition("Suspended"), mpi_job_ref=STARTED)
    )
    decision = decide(look)
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed == 2
    assert isinstance(decide(changed(look, metrics=MEASURED, plan_recorded=False)), Wait)


def test_a_job_that_never_starts_ends_with_the_plan() -> None:
    assert decide(seen(job_spec(startPolicy="Never"), plan=TWO, metrics=MEASURED)).reason == Reason.START_POLICY_NEVER


def test_manual_approval_waits_and_says_the_command() -> None:
    decision = decide(seen(job_spec(startPolicy="Manual"), plan=TWO, metrics=MEASURED))
    assert decision.reason == Reason.AWAITING_APPROVAL
    assert f"{constants.APPROVED_PLAN_ANNOTATION}={TWO.plan_id}" in decision.message


def test_approval_of_another_plan_does_not_count() -> None:
    metadata = JobMetadata(namespace="team", name="cora", uid=UID, generation=1, annotations={constants.APPROVED_PLAN_ANNOTATION: "feed"})
    assert decide(seen(job_spec(startPolicy="Manual"), plan=TWO, metrics=MEASURED, metadata=metadata)).reason == Reason.AWAITING_APPROVAL


def test_an_approved_plan_runs() -> None:
    annotations = {constants.APPROVED_PLAN_ANNOTATION: TWO.plan_id}
    metadata = JobMetadata(namespace="team", name="cora", uid=UID, generation=1, annotations=annotations)
    look = seen(
        job_spec(startPolicy="Manual"),
        plan=TWO,
        plan_recorded=True,
        metadata=metadata,
        status=status(StateWord.PLANNED, condition("Planned")),
    )
    assert isinstance(decide(look), CreateMpiJob)


def test_an_approved_plan_whose_node_went_away_is_made_anew() -> None:
    decision = decide(seen(job_spec(startPolicy="Manual"), plan=TWO, misfits=(GONE,)))
    assert isinstance(decision, MakePlan)
    assert decision.reason == Reason.PLAN_STALE


def test_a_changed_spec_voids_a_plan_from_which_nothing_was_created() -> None:
    metadata = JobMetadata(namespace="team", name="cora", uid=UID, generation=2)
    look = seen(
        job_spec(startPolicy="Never"), plan=TWO, metadata=metadata, status=status(StateWord.PLANNED, condition("Planned", generation=1))
    )
    decision = decide(look)
    assert isinstance(decision, MakePlan)
    assert decision.reason == Reason.SPEC_CHANGED


def test_a_plan_of_an_earlier_spec_is_not_carried_out_where_there_is_none_for_the_present_one() -> None:
    metadata = JobMetadata(
        namespace="team", name="cora", uid=UID, generation=2, annotations={constants.APPROVED_PLAN_ANNOTATION: TWO.plan_id}
    )
    larger = job_spec(startPolicy="Manual", workers={"minReplicas": 4, "maxReplicas": 4})
    planned = status(StateWord.PLANNED, condition("Planned", generation=1), plan=TWO)
    refused = seen(larger, plan=TWO, metadata=metadata, status=planned, refusal=Infeasible("InsufficientGPUs", "4 GPUs are needed"))
    told = derive(refused, decide(refused))
    assert told.plan is None
    assert isinstance(decide(seen(larger, plan=told.plan, metadata=metadata, status=told)), MakePlan)


def test_no_gate_opens_while_a_rank_has_no_pod() -> None:
    decision = decide(placed(pods=(worker(0, gated=True),)))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.PODS_MISSING


def test_all_gates_open_together_each_rank_onto_its_planned_node() -> None:
    decision = decide(placed(pods=(launcher(gated=True), worker(0, gated=True), worker(1, gated=True))))
    assert isinstance(decision, ReleaseWorkers)
    assert decision.nodes == {"worker-0": "node-a", "worker-1": "node-b"}


def test_no_gate_opens_for_a_plan_that_a_crash_would_forget() -> None:
    decision = decide(placed(plan_recorded=False, pods=(worker(0, gated=True), worker(1, gated=True))))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.PLAN_UNRECORDED


def test_no_gate_opens_while_the_queue_still_assigns_the_topology() -> None:
    held = worker(0, gated=True, gates=(constants.PLACEMENT_GATE, constants.KUEUE_TOPOLOGY_GATE))
    assert decide(placed(pods=(held, worker(1, gated=True)))).reason == Reason.WAITING_FOR_QUEUE


def test_a_planned_node_that_went_away_before_release_means_a_new_plan_of_the_same_size() -> None:
    decision = decide(placed(pods=(worker(0, gated=True), worker(1, gated=True)), misfits=(GONE,)))
    assert isinstance(decision, MakePlan)
    assert (decision.workers_fixed, decision.pinned, decision.excluded_nodes) == (2, {}, ("node-b",))
    assert not decision.counts_as_replan


def test_a_replacement_pod_goes_back_to_its_node_while_that_fits() -> None:
    decision = decide(placed(pods=(worker(0, node="node-a", ready=True), worker(1, gated=True))))
    assert isinstance(decision, ReleaseWorkers)
    assert decision.nodes == {"worker-1": "node-b"}


def test_only_the_lost_rank_is_planned_anew() -> None:
    decision = decide(placed(pods=(worker(0, node="node-a", ready=True), worker(1, gated=True)), misfits=(GONE,)))
    assert isinstance(decision, MakePlan)
    assert decision.pinned == {0: "node-a"}
    assert decision.counts_as_replan


def test_when_replans_are_used_up_the_job_waits_for_a_person() -> None:
    look = placed(
        pods=(worker(0, node="node-a", ready=True), worker(1, gated=True)),
        misfits=(GONE,),
        status=status(StateWord.RUNNING, plan_changes=3),
    )
    assert decide(look).reason == Reason.PLAN_CHANGES_EXHAUSTED


def test_lost_workers_stay_gated_where_replacement_is_switched_off() -> None:
    look = placed(job=job_spec(recovery={"replaceLostWorkers": False}), pods=(worker(0, node="node-a"), worker(1, gated=True)))
    assert decide(look).reason == Reason.WORKER_LOST


def test_a_pod_pinned_to_a_node_that_is_gone_is_deleted_so_that_it_comes_back_gated() -> None:
    decision = decide(placed(pods=(worker(0, node="node-a"), worker(1)), misfits=(GONE,)))
    assert isinstance(decision, DeletePods)
    assert decision.pod_uids == ("worker-1",)
    assert not decision.force


@pytest.mark.parametrize(
    ("opted_in", "tainted", "overdue"), [(True, True, True), (False, True, True), (True, False, True), (True, True, False)]
)
def test_force_deletion_needs_the_opt_in_the_taint_and_the_time(opted_in: bool, tainted: bool, overdue: bool) -> None:
    stuck = worker(1, node="node-b", terminating=True, deletion="1970-01-12T13:44:00Z" if overdue else "1970-01-12T13:46:30Z")
    look = placed(
        job=job_spec(recovery={"forceDeleteAfterSeconds": 60} if opted_in else {}),
        pods=(worker(0, node="node-a"), stuck),
        unreachable_nodes=("node-b",) if tainted else (),
    )
    decision = decide(look)
    assert (isinstance(decision, DeletePods) and decision.force) is (opted_in and tainted and overdue)


@pytest.mark.parametrize(("ahead_seconds", "overdue"), [(0.0, True), (-3600.0, False), (3600.0, True)])
def test_the_time_of_a_forced_deletion_is_the_api_servers(ahead_seconds: float, overdue: bool) -> None:
    stuck = worker(1, node="node-b", terminating=True, deletion="1970-01-12T13:44:00Z")
    look = placed(
        job=job_spec(recovery={"forceDeleteAfterSeconds": 60}),
        pods=(worker(0, node="node-a"), stuck),
        unreachable_nodes=("node-b",),
        server_ahead_seconds=ahead_seconds,
    )
    assert isinstance(decide(look), DeletePods) is overdue


def test_the_launcher_waits_until_every_worker_is_ready() -> None:
    decision = decide(placed(pods=(launcher(gated=True), worker(0, node="node-a", ready=True), worker(1, node="node-b"))))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.WORKERS_STARTING


def test_the_launcher_starts_when_every_worker_is_ready() -> None:
    decision = decide(placed())
    assert isinstance(decision, OpenLauncher)
    assert decision.pod_uids == ("launcher",)


def test_a_running_job_is_left_in_peace() -> None:
    decision = decide(placed(mpijob=mpijob(conditions={"Running": (True, "MPIJobRunning", "")}), pods=(launcher(), *placed().gang.workers)))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.RUNNING


def test_an_mpijob_that_is_being_deleted_is_waited_for() -> None:
    assert isinstance(decide(placed(mpijob=mpijob(deleting=True))), Wait)
