"""A clock that is set back while the operator runs: what is due after seconds is due after seconds."""

from __future__ import annotations

from typing import Final

import pytest

from hyperscale.control.apply.dependents import DependentRefusedError
from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.pending import KEPT_BACK_SECONDS, Pending
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.decision import Reason
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import MPIJOB_UID
from tests.corpus.queue_stage import Stage as QueueStage
from tests.corpus.watched_cluster import Cluster
from tests.unit.control.preemption_stage import SHORT, begun, stopped_status
from tests.unit.control.test_preflight_runner import Stage
from tests.unit.control.test_times_in_the_future import NOW, PREEMPTED, STOPPED, world_of
from tests.unit.control.test_world import CORA, mpijob, pod

HOUR: Final = 3600.0


async def test_a_refused_preflight_is_tried_again_after_half_a_minute() -> None:
    stage = Stage(DependentRefusedError("exceeded quota: q", Reason.QUOTA_EXCEEDED))
    await stage.look()
    stage.step_seconds = -HOUR
    stage.now += 31.0
    await stage.look()
    assert len(stage.writes.asked) == 2


async def test_preemption_is_weighed_again_after_its_period_and_after_a_failure() -> None:
    scene = await begun(mode="Advise")
    scene.planner.broken = True
    await scene.watch.check()
    scene.planner.broken = False
    scene.step_seconds = -HOUR
    await scene.later(31.0)
    await scene.watch.check()
    assert len(scene.planner.about_stops) == 2


async def test_a_queue_that_failed_is_asked_again_after_half_a_minute() -> None:
    scene = await begun()
    scene.planner.broken = True
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    assert scene.planning.admission.failed
    scene.step_seconds = -HOUR
    await scene.later(31.0)
    assert not scene.planning.admission.failed


async def test_a_waiting_job_is_asked_about_again_after_half_a_minute() -> None:
    stage = QueueStage(nodes=1, gpus=2)
    first, *waiting = (stage.add(f"job-{number}", epochs=1000) for number in range(3))
    assert first in await stage.run(first)
    await stage.run(*waiting)
    for _ in range(2):
        stage.planner.questions.clear()
        stage.step_seconds -= HOUR
        stage.now += 31.0
        await stage.run(*waiting)
        assert stage.planner.questions


@pytest.mark.parametrize("step_seconds", [0.0, -HOUR])
def test_a_job_that_gives_its_gpus_to_others_keeps_the_rest_back_for_a_minute_at_most(step_seconds: float) -> None:
    now = NOW
    stop = STOPPED | {"startTime": timestamp(NOW), "beneficiaries": ["team/x"]}
    cache = world_of(lambda: now, lastPreemption=stop, conditions=[PREEMPTED], mpiJobRef={"name": "cora", "uid": MPIJOB_UID})
    cache.see_mpijob(mpijob(suspended=True))
    cache.see_pod(pod("cora-worker-0", on="node-a"))
    pending = Pending(cache, JobReader(), lambda: now)
    assert pending.kept_back(Key("team", "other")) == CORA
    now += step_seconds + KEPT_BACK_SECONDS
    assert pending.kept_back(Key("team", "other")) is None


async def test_pods_that_never_end_hold_questions_about_stops_up_no_longer() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    assert scene.watch._under_way()
    scene.step_seconds = -HOUR
    await scene.later(301.0)
    assert not scene.watch._under_way()


async def test_running_jobs_are_judged_again_after_their_period() -> None:
    cluster = Cluster()
    await cluster.pass_time(20.0)
    asked = len(cluster.planner.asked)
    cluster.step_seconds = -HOUR
    await cluster.pass_time(10.0)
    assert len(cluster.planner.asked) > asked > 0
