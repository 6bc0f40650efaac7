"""A rank that the scheduler leaves out: all ranks are released, planned again without the node that refused, and not for ever."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.controller.context import is_progress
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.unscheduled import REFUSED_SECONDS, begun, delay_left, is_released, refused_nodes
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import DeletePods, MakePlan, Reason, ReleaseGang, ReleaseWorkers, SetSuspend, Stop, Wait
from hyperscale.model.plan import Infeasible
from hyperscale.model.status import StateWord, StatusScheduling, read_status, to_wire
from tests.builders.seen import changed, condition, job_spec, launcher, mpijob, status, worker
from tests.unit.control.timeout_cases import NOW, QUEUED, RELEASED, TIMEOUT, WORDS, at, gone, placed, released, waiting


def test_since_when_a_rank_waits_is_written_down_and_the_deadline_is_looked_at() -> None:
    first = waiting(0, status=status(StateWord.STARTING))
    told = derive(first, decide(first))
    assert told.scheduling is not None
    assert told.scheduling.waiting_start_time == at(0)
    later = waiting(100)
    decision = decide(later)
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == TIMEOUT - 100
    assert derive(later, decision).scheduling == later.job.status.scheduling


def test_a_rank_that_waits_too_long_releases_all_ranks_in_the_schedulers_own_words() -> None:
    decision = decide(waiting(TIMEOUT))
    assert isinstance(decision, ReleaseGang)
    assert WORDS in decision.message
    assert "cora-worker-1" in decision.message
    assert not isinstance(decide(waiting(TIMEOUT - 1)), ReleaseGang)


@pytest.mark.parametrize(
    "pods",
    [
        (worker(0, node="node-a"), worker(1, node="node-b")),
        (worker(0, node="node-a"), worker(1, terminating=True, unschedulable=WORDS)),
        (worker(0, gated=True), worker(1, gated=True)),
    ],
    ids=["all placed", "already ending", "behind our gate"],
)
def test_nothing_is_released_while_no_rank_is_left_out(pods: tuple[Any, ...]) -> None:
    look = waiting(TIMEOUT, pods=pods)
    decision = decide(look)
    assert not isinstance(decision, ReleaseGang)
    known = derive(look, decision).scheduling
    assert known is None or not known.waiting_start_time


def test_a_launcher_that_is_left_out_counts_too_and_so_does_a_gate_of_others() -> None:
    full = (worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    decision = decide(waiting(TIMEOUT, pods=(launcher(unschedulable="0/12 nodes are available: too many pods."), *full)))
    assert isinstance(decision, ReleaseGang)
    assert "too many pods" in decision.message
    held = worker(1, gates=("example.com/quota",))
    assert "example.com/quota" in decide(waiting(TIMEOUT, pods=(full[0], held))).message


def test_jobs_that_the_scheduler_places_alone_have_no_deadline() -> None:
    assert not isinstance(decide(waiting(TIMEOUT, mpijob=mpijob(gated=False))), ReleaseGang)


def test_what_is_remembered_names_the_node_and_survives_a_restart() -> None:
    known = begun(waiting(TIMEOUT))
    (refused,) = known.refused
    assert (known.releases, refused.node, refused.message) == (1, "node-b", WORDS)
    written = status(StateWord.STARTING, RELEASED, scheduling=known)
    assert read_status(to_wire(written)) == written
    assert is_released(written, mpijob())
    assert not is_released(written, mpijob(suspend_intent=True)), "another resumed it"


@pytest.mark.parametrize(
    "words", ["", '0/12 nodes are available: persistentvolumeclaim "state" not found.'], ids=["a silent scheduler", "a missing claim"]
)
def test_no_node_is_left_out_where_the_scheduler_spoke_of_none(words: str) -> None:
    look = waiting(TIMEOUT, pods=(worker(0, node="node-a"), worker(1, unschedulable=words)))
    assert isinstance(decide(look), ReleaseGang)
    assert begun(look).refused == ()


def test_nothing_happens_before_the_release_is_written_down() -> None:
    look = released(release_recorded=False)
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 0.0
    told = derive(look, decision)
    assert (placed(told).reason, WORDS in placed(told).message) == ("SchedulingTimeout", True)
    assert is_released(told, mpijob())
    before = waiting(TIMEOUT)
    assert not is_progress(before.job.status, told), "a person hears of it"


def test_then_the_mpijob_is_suspended_so_that_no_rank_holds_gpus() -> None:
    decision = decide(released())
    assert isinstance(decision, SetSuspend)
    assert decision.suspend
    ending = decide(released(mpijob=mpijob(suspended=True)))
    assert isinstance(ending, Wait)
    assert "2 of its pods are still ending" in ending.message


def test_when_its_pods_are_gone_it_is_planned_again_with_the_same_number_of_workers() -> None:
    decision = decide(gone())
    assert isinstance(decision, MakePlan)
    assert (decision.reason, decision.workers_fixed) == (Reason.SCHEDULING_TIMEOUT, 2)
    free = decide(gone(mpijob=mpijob(suspended=True, resizable=True)))
    assert isinstance(free, MakePlan)
    assert free.workers_fixed is None


def test_each_further_try_waits_twice_as_long() -> None:
    delays = [delay_left(gone(releases=count, ago=0.0).job.status, NOW) for count in (1, 2, 3, 20)]
    assert delays == [10.0, 20.0, 40.0, 600.0]
    decision = decide(gone(ago=3.0))
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 7.0


def test_after_so_many_tries_only_a_person_helps_and_nothing_is_held() -> None:
    look = gone(releases=4)
    decision = decide(look)
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.PLAN_CHANGES_EXHAUSTED
    assert WORDS in decision.message
    assert "spec.recovery.maxPlanChanges (3)" in decision.message
    assert isinstance(decide(gone(job=job_spec(recovery={"maxPlanChanges": 4}), releases=4)), MakePlan)
    assert isinstance(decide(gone(job=job_spec(recovery={"maxPlanChanges": 0}))), Stop)


def test_without_room_elsewhere_it_says_what_is_missing_and_keeps_the_schedulers_words() -> None:
    look = gone(refusal=Infeasible(reason="InsufficientGPUs", message="needs 2 GPUs; 1 found"))
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.reason == "InsufficientGPUs"
    assert WORDS in placed(derive(look, decision)).message


def test_a_person_who_suspends_the_job_is_obeyed_and_the_count_begins_anew() -> None:
    look = gone(job=job_spec(runPolicy={"suspend": True}), releases=4)
    assert decide(look).reason == Reason.SUSPENDED
    known = derive(look, decide(look)).scheduling
    assert known is None or known.releases == 0


def test_once_it_runs_earlier_releases_count_no_more() -> None:
    full = (launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    look = released(released=False, pods=full, mpijob=mpijob(conditions={"Running": (True, "MPIJobRunning", "")}))
    known = derive(look, decide(look)).scheduling
    assert known is not None
    assert (known.releases, known.message) == (0, "")
    assert known.refused, "the node stays left out"


def test_a_refused_node_is_forgotten_after_a_while() -> None:
    known = released(ago=100.0).job.status
    assert refused_nodes(known, NOW) == {"node-b": WORDS}
    assert refused_nodes(known, NOW + REFUSED_SECONDS) == {}
    late = gone(ago=REFUSED_SECONDS + 1.0)
    told = derive(late, decide(late)).scheduling
    assert told is not None
    assert told.refused == ()


def test_an_mpijob_of_a_queue_is_not_suspended_its_pods_are_deleted() -> None:
    decision = decide(released(mpijob=QUEUED))
    assert isinstance(decision, DeletePods)
    assert decision.pod_uids == ("worker-0", "worker-1")
    ending = released(mpijob=QUEUED, pods=(worker(0, node="node-a", terminating=True), worker(1, gated=True)))
    assert decide(ending).reason == Reason.SCHEDULING_TIMEOUT


def test_gated_again_its_ranks_are_planned_anew_and_wait_their_delay() -> None:
    gated = (worker(0, gated=True), worker(1, gated=True))
    back = released(mpijob=QUEUED, pods=gated)
    decision = decide(back)
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed == 2
    told = derive(back, decision)
    assert placed(told).reason == "RanksWaiting"
    after = changed(back, released=False, release_recorded=False, status=told)
    assert isinstance(decide(after), ReleaseWorkers)
    soon = msgspec.structs.replace(
        told, scheduling=msgspec.structs.replace(told.scheduling or StatusScheduling(), last_release_time=at(-3))
    )
    held = decide(changed(after, status=soon))
    assert isinstance(held, Wait)
    assert held.retry_after_seconds == 7.0


def test_a_move_whose_ranks_find_no_node_ends_with_the_release() -> None:
    look = released(
        migrating=True, status=status(StateWord.STARTING, RELEASED, condition("Migrating"), scheduling=released().job.status.scheduling)
    )
    assert not [each for each in derive(look, decide(look)).conditions if each.type == "Migrating"]
