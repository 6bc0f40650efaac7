"""A clock that is set back while the operator runs: what is due after seconds is due after seconds."""

from __future__ import annotations

from typing import Final

from hyperscale.control.apply.dependents import DependentRefusedError
from hyperscale.model.decision import Reason
from tests.corpus.watched_cluster import Cluster
from tests.unit.control.preemption_stage import SHORT, begun
from tests.unit.control.test_preflight_runner import Stage

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


async def test_running_jobs_are_judged_again_after_their_period() -> None:
    cluster = Cluster()
    await cluster.pass_time(20.0)
    asked = len(cluster.planner.asked)
    cluster.step_seconds = -HOUR
    await cluster.pass_time(10.0)
    assert len(cluster.planner.asked) > asked > 0
