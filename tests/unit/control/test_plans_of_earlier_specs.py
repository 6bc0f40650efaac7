"""A recorded plan of an earlier spec starts no job before the queue's, unless a person decides on it or an MPIJob has it."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.cache.records import Key
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus
from hyperscale.util.rfc3339 import timestamp
from tests.corpus.queue_stage import CREATED, POLICY, Stage

BOUND_SECONDS = float(POLICY.queue.starvation_seconds)


def planned_before(stage: Stage, generation: int, made: Plan, **spec: Any) -> Key:
    """A job without an MPIJob whose status has a plan of its first generation."""
    accepted = Condition("Planned", "True", "PlanAccepted", observed_generation=1, last_transition_time=timestamp(stage.now))
    told = JobStatus(observed_generation=1, plan=made, conditions=(accepted,))
    return stage.add("planned", created=stage.now, version=generation, status=told, **SMALL, **spec)


SMALL: dict[str, Any] = {"epochs": 10**6, "workers": {"minReplicas": 2, "maxReplicas": 2}}


async def test_a_plan_that_nothing_follows_from_is_no_way_around_the_queue() -> None:
    stage = Stage(nodes=1, gpus=4)
    stage.now = CREATED + 3.0 * BOUND_SECONDS
    held = stage.add("held", created=stage.now, **SMALL)
    made = (await stage.run(held))[held]
    stage.add("starving", workers={"minReplicas": 4, "maxReplicas": 4})
    planned = planned_before(stage, 1, made, startPolicy="Never")
    assert stage.cache.plans_of(planned).in_force == made
    released = planned_before(stage, 2, made)
    answer = await stage.ask(released)
    assert stage.cache.plans_of(released).in_force is None
    assert answer.turn is not None
    assert answer.turn.reason == Reason.WAITING_FOR_ADMISSION


@pytest.mark.parametrize(("generation", "spec", "kept"), [(1, {}, True), (2, {}, False), (2, {"startPolicy": "Manual"}, True)])
async def test_a_recorded_plan_is_void_after_a_spec_change_unless_a_person_decides_on_it(
    generation: int, spec: dict[str, Any], kept: bool
) -> None:
    stage = Stage()
    made = (await stage.run(stage.add("other", **SMALL)))[Key("team", "other")]
    assert (stage.cache.plans_of(planned_before(stage, generation, made, **spec)).recorded == made) is kept


async def test_the_plan_of_an_mpijob_stays_after_a_spec_change() -> None:
    stage = Stage()
    made = (await stage.run(stage.add("other", **SMALL)))[Key("team", "other")]
    started = planned_before(stage, 2, made)
    stage.start(started, made)
    assert stage.cache.plans_of(started).recorded == made
