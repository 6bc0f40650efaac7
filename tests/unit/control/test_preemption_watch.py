"""Jobs that wait beside one that runs: who is stopped, told of, left alone, and how the stopped job comes to its turn again."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.lifecycle.movable import ADVISES
from hyperscale.model.api.measured import Measured
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import JobStatus
from tests.unit.control.preemption_stage import EPOCHS, LONG, SHORT, Scene, begun, stopped_status


async def test_what_a_stopped_job_keeps_is_what_it_said_last_and_not_what_was_predicted_when_it_was_judged() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.cache.progress[LONG] = Measured(epoch=EPOCHS - 5, epochs=EPOCHS)
    last = stopped_status(scene).last_preemption
    assert last is not None
    assert last.completed_epochs == EPOCHS - 10


async def test_a_long_job_is_told_to_stop_for_a_short_one() -> None:
    scene = await begun()
    assert SHORT in scene.cache.unstarted
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is not None
    assert view.due
    assert scene.woken == [LONG]
    (question,) = scene.planner.about_stops
    assert [job.running.request.job.workers.min_replicas for job in question.running] == [2], "it continues with as many workers as it had"


async def test_a_stopped_job_says_for_whom_it_stopped_and_how_far_it_was() -> None:
    scene = await begun()
    await scene.watch.check()
    stop = stopped_status(scene).last_preemption
    assert stop is not None
    assert stop.beneficiaries == (str(SHORT),)
    assert 0.0 < stop.completed_epochs < EPOCHS


async def test_a_stopped_job_waits_in_the_queue_once_its_pods_have_ended() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    assert LONG not in scene.cache.unstarted
    scene.see_mpijob(suspended=True)
    assert LONG not in scene.cache.unstarted, "its pods still end"
    scene.see_pods(gone=True)
    assert LONG in scene.cache.unstarted


async def stopped() -> Scene:
    """The long job has stopped and its pods have ended."""
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    scene.see_pods(gone=True)
    return scene


async def test_a_stopped_job_starts_again_after_the_job_that_it_stopped_for() -> None:
    scene = await stopped()
    held = await scene.ask_for(LONG, preempted=True)
    assert isinstance(held.outcome, Infeasible), "the short one goes first"
    assert SHORT in scene.woken
    taken = await scene.ask_for(SHORT)
    assert isinstance(taken.outcome, Plan)
    scene.start(SHORT, taken.outcome)
    scene.cache.jobs.pop(SHORT)
    scene.cache.mpijobs.pop(SHORT)
    scene.cache.assume(SHORT, None)
    answer = await scene.ask_for(LONG, preempted=True)
    assert isinstance(answer.outcome, Plan)
    assert len(answer.outcome.workers) == 2


async def test_the_queue_knows_what_is_left_of_a_stopped_job_and_counts_its_waiting_from_its_stop() -> None:
    scene = await begun()
    scene.cache.progress[LONG] = Measured(epoch=EPOCHS // 2, epochs=EPOCHS)
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    scene.see_pods(gone=True)
    await scene.later(30.0)
    await scene.ask_for(LONG, preempted=True)
    queued = {job.request.job_key: job for job in scene.planner.questions[-1].jobs}[str(LONG)]
    assert queued.request.job.model.epochs == EPOCHS // 2
    assert (queued.request.job.workers.min_replicas, queued.request.job.workers.max_replicas, queued.request.workers_fixed) == (2, 2, 2)
    assert queued.waited_seconds == pytest.approx(30.0, abs=1.5)
    assert queued.gap_seconds is None, "it is no new arrival"


async def test_advice_is_told_once_and_stops_nobody() -> None:
    scene = await begun(mode="Advise")
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is not None
    assert not view.due
    assert view.proposal is not None
    assert (view.proposal.beneficiaries, view.proposal.blocker) == ((str(SHORT),), ADVISES)
    assert view.proposal.saved_seconds > 0.0
    assert scene.watch.begin(LONG, scene.policy) is None
    assert scene.plan is not None
    scene.see_long(JobStatus(plan=scene.plan, proposed_preemption=view.proposal))
    scene.woken.clear()
    for _ in range(10):
        await scene.later(10.0)
        await scene.ask_for(SHORT)
        await scene.watch.check()
    assert scene.woken.count(LONG) == 0, "the same advice is not told again"
    assert len(scene.planner.about_stops) > 3
    assert scene.outcomes() == {"Proposed": 1.0}


async def test_advice_is_taken_back_when_nobody_waits_any_more_or_the_policy_is_off() -> None:
    for change in ("gone", "off"):
        scene = await begun(mode="Advise")
        await scene.watch.check()
        view = scene.watch.view(LONG)
        assert view is not None
        assert scene.plan is not None
        scene.see_long(JobStatus(plan=scene.plan, proposed_preemption=view.proposal))
        scene.woken.clear()
        await scene.later(60.0)
        if change == "gone":
            scene.cache.see_job({**scene.cache.jobs[SHORT].resource, "status": {}}, deleted=True)
        else:
            scene.set_policy({"queue": {"preemption": {"mode": "Never"}}})
        await scene.watch.check()
        after = scene.watch.view(LONG)
        assert after is not None
        assert after.proposal is None
        assert scene.woken == [LONG]


async def test_after_a_restart_what_was_told_stays_as_it_was() -> None:
    scene = await begun(mode="Advise")
    await scene.watch.check()
    told = scene.watch.view(LONG)
    assert told is not None
    assert scene.plan is not None
    scene.see_long(JobStatus(plan=scene.plan, proposed_preemption=told.proposal))
    scene.watch._evaluations.clear()
    scene.woken.clear()
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    again = scene.watch.view(LONG)
    assert again is not None
    assert again.proposal == told.proposal
    assert scene.woken == []


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "Never"},
        {"queue": {"order": "Arrival"}},
        {"checkpoint": None},
        {"placement": {"mode": "Preferred"}},
        {"migration": {"restartSeconds": 86_400}},
        {"queue": {"preemption": {"mode": "Automatic", "holdDownSeconds": 7200}}},
    ],
    ids=["off", "order of arrival", "no checkpoint", "not strict", "too dear", "just started"],
)
async def test_nobody_is_stopped(given: dict[str, Any]) -> None:
    scene = await begun(**given)
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is None or not (view.due or view.proposal)
    assert LONG not in scene.woken
