"""When no preemption is weighed, when one is void, and whom it holds back meanwhile."""

from __future__ import annotations

import msgspec

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.stoppable import usable_gpus
from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.running_query import PreemptibleJob, RunningJob
from hyperscale.model.status import to_wire
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import plan as seen_plan
from tests.corpus.queue_stage import CREATED, Stage
from tests.unit.control.preemption_stage import LONG, SHORT, begun, request_of, stopped_status


async def test_nothing_is_asked_without_measurements_or_while_somebody_waits_for_a_plan_or_the_queue_failed() -> None:
    scene = await begun()
    scene.cache.snapshots.reading = MetricsReading(scene.now + 1.0, MetricsState(available=False, reason="MetricsStale"))
    await scene.watch.check()
    await scene.later(2.0)
    async with scene.planning._lock:
        await scene.watch.check()
    scene.planner.broken = True
    await scene.later(60.0)
    scene.add("third", epochs=10)
    await scene.ask_for(Key("team", "third"))
    scene.planner.broken = False
    assert scene.planning.admission.failed
    await scene.watch.check()
    assert scene.planner.about_stops == []


async def test_the_queue_is_heard_first() -> None:
    scene = await begun()
    scene.now = CREATED + 3600.0
    record = scene.cache.jobs[SHORT].resource
    metadata = {**record["metadata"], "name": "new", "uid": "uid-new", "creationTimestamp": timestamp(scene.now)}
    scene.cache.see_job({"metadata": metadata, "spec": record["spec"]})
    await scene.later(1.0)
    await scene.watch.check()
    assert scene.planner.about_stops == []
    await scene.later(10.0)
    await scene.watch.check()
    assert len(scene.planner.about_stops) == 1


async def test_a_planner_that_fails_is_left_alone_for_a_while_and_a_question_rests_after_an_answer() -> None:
    scene = await begun(mode="Advise")
    scene.planner.broken = True
    for _ in range(25):
        await scene.watch.check()
        await scene.later(1.0)
    assert len(scene.planner.about_stops) == 1
    scene.planner.broken = False
    for _ in range(25):
        await scene.watch.check()
        await scene.later(1.0)
    assert 2 <= len(scene.planner.about_stops) <= 4


async def test_a_stop_is_void_when_those_who_would_gain_are_gone() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.cache.see_job({**scene.cache.jobs[SHORT].resource, "status": {}}, deleted=True)
    assert scene.watch.begin(LONG, scene.policy) is None
    assert scene.outcomes() == {"Abandoned": 1.0}
    view = scene.watch.view(LONG)
    assert view is not None
    assert not view.due


async def test_a_stop_is_void_when_the_policy_only_advises_by_then() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.set_policy({"queue": {"preemption": {"mode": "Advise", "holdDownSeconds": 60}}})
    assert scene.watch.begin(LONG, scene.policy) is None


async def test_a_pod_that_never_ends_does_not_stop_all_questions() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    assert scene.watch._under_way()
    await scene.later(301.0)
    assert not scene.watch._under_way()


async def test_a_job_that_just_went_on_is_not_stopped_again() -> None:
    scene = await begun()
    await scene.watch.check()
    status = stopped_status(scene)
    scene.see_long(msgspec.structs.replace(status, conditions=()))
    scene.see_mpijob(suspended=False, start_time=timestamp(scene.now + 10.0))
    await scene.later(40.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is None or not view.due
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    early = scene.watch.view(LONG)
    assert early is None or not early.due, "it was stopped once: the hold-down is twice as long"
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    again = scene.watch.view(LONG)
    assert again is not None
    assert again.due, "after that it may be stopped again"


async def test_gpus_that_no_job_of_the_question_could_use_do_not_count_as_free() -> None:
    scene = Stage(nodes=3, gpus=4)
    snapshot = scene.cache.snapshot(PolicySpec(), scene.now)
    wants = [request_of(scene, "three", 3), request_of(scene, "two", 2)]
    assert usable_gpus(snapshot, {}, wants, ()) == {}, "two workers of two"
    assert usable_gpus(snapshot, {}, wants[:1], ()) == {"node-0": 3, "node-1": 3, "node-2": 3}
    assert usable_gpus(snapshot, {"node-0": 2, "node-1": 0}, wants[:1], ()) == {"node-0": 0, "node-1": 0, "node-2": 3}
    plan = seen_plan("node-2")
    runs = PreemptibleJob(RunningJob(request_of(scene, "runs", 3), plan, {"node-2": Claim(gpus=1)}))
    assert usable_gpus(snapshot, {"node-2": 2}, wants[:1], [runs]) == {"node-0": 3, "node-1": 3, "node-2": 2}, "with what it gives away"


async def test_of_two_that_stop_for_one_the_first_without_pods_does_not_start_again_before_the_other() -> None:
    scene = await begun()
    await scene.watch.check()
    status = stopped_status(scene)
    scene.see_long(status)
    scene.see_mpijob(suspended=True)
    twin = Key("team", "twin")
    record = scene.cache.jobs[LONG].resource
    metadata = {**record["metadata"], "name": "twin", "uid": "uid-twin"}
    scene.cache.see_job({"metadata": metadata, "spec": record["spec"], "status": to_wire(status)})
    view = msgspec.structs.replace(scene.cache.mpijobs[LONG], name="twin", uid="mpi-twin", owner_uid="uid-twin")
    scene.cache.mpijobs[twin] = view
    scene.cache._recount(twin)
    assert twin in scene.cache.unstarted
    assert scene.cache.releasing == {LONG}
    answer = await scene.ask_for(twin, preempted=True)
    assert answer.outcome is None
    assert answer.turn is not None
    assert (answer.turn.reason, answer.turn.message) == ("WaitingForAdmission", "team/long is giving its GPUs to others")
    await scene.ask_for(SHORT)
    assert [job.request.job_key for job in scene.planner.questions[-1].jobs] == [str(SHORT)], "nor by the question of another"
    scene.see_pods(gone=True)
    assert scene.cache.releasing == set()
    await scene.ask_for(twin, preempted=True)
    assert scene.woken[-1] == SHORT, "those for whom they stopped go first"


async def test_who_is_kept_back_waits_a_minute_at_most() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    other = scene.add("other", epochs=20)
    pending = scene.planning.pending
    assert pending.kept_back(other) == LONG
    assert pending.kept_back(SHORT) is None
    await scene.later(61.0)
    assert pending.kept_back(other) is None


async def test_while_a_stop_is_under_way_nothing_more_is_asked() -> None:
    scene = await begun()
    await scene.watch.check()
    await scene.later(60.0)
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    await scene.later(60.0)
    await scene.watch.check()
    assert len(scene.planner.about_stops) == 1
