"""What an evaluation learns of the queue beside its job: sizes and times, no names."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.scheduler.queue_beside import queue_beside
from hyperscale.model.api.policy import QueueOrder
from tests.unit.control.preemption_stage import LONG, Scene


async def test_the_running_job_is_in_the_queue_of_others_and_not_in_its_own() -> None:
    scene = Scene()
    await scene.begin()
    planning, snapshot = scene.planning, scene.cache.snapshot(scene.policy, scene.now)
    others = queue_beside(scene.cache, scene.reader, planning.pending, planning.running, LONG, scene.policy, snapshot)
    assert others is not None
    assert others.running == ()
    assert others.total_gpus == sum(node.allocatable_gpus for node in snapshot.nodes)


async def test_waiting_jobs_are_listed_once_their_length_is_known() -> None:
    scene = Scene()
    await scene.begin()
    planning, snapshot = scene.planning, scene.cache.snapshot(scene.policy, scene.now)
    other = LONG._replace(name="another")
    found = queue_beside(scene.cache, scene.reader, planning.pending, planning.running, other, scene.policy, snapshot)
    assert found is not None
    assert [share.slots for share in found.running] == [2]
    assert [(job.slots_per_worker, job.options[0].workers) for job in found.waiting] == [(1, 2)]
    assert LONG.name not in str(found)
    (entry,) = planning.pending.others(None, scene.policy)
    entry.run_seconds, entry.asked = None, False
    assert queue_beside(scene.cache, scene.reader, planning.pending, planning.running, other, scene.policy, snapshot) is None


async def test_jobs_that_wait_outside_the_queue_make_it_unknown() -> None:
    scene = Scene()
    await scene.begin()
    planning, snapshot = scene.planning, scene.cache.snapshot(scene.policy, scene.now)
    other = LONG._replace(name="another")
    arrival = replace(scene.policy, queue=replace(scene.policy.queue, order=QueueOrder.ARRIVAL))
    for policy in (arrival, replace(scene.policy, seed=7)):
        assert queue_beside(scene.cache, scene.reader, planning.pending, planning.running, other, policy, snapshot) is None
