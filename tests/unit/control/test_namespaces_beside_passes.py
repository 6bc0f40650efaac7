"""Preflights and searches for alternatives: namespaces take turns, so that many jobs of one delay no other by more than a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler import namespace_queue
from hyperscale.control.scheduler.namespace_queue import MAX_WAITING_EACH, LaterPasses
from hyperscale.control.scheduler.preflight_runner import WORKERS, PreflightRunner
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.observed.reconcile_input import ReconcileInput
from tests.builders.seen import changed, seen
from tests.unit.control.test_person_choices import CHOICE, TRAINING, SearchStage
from tests.unit.control.test_preflight_runner import METADATA, SPEC, Stage, wire


class Gate:
    """Writes that answer only when they may; who was asked for, in order."""

    def __init__(self) -> None:
        self.asked, self.most, self.now = list[Key](), 0, list[Key]()
        self.may = asyncio.Event()

    async def ensure_preflight(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        self.asked.append(key)
        self.now.append(key)
        self.most = max(self.most, len(self.now))
        await self.may.wait()
        self.now.remove(key)
        await asyncio.sleep(0)


def many(count: int) -> list[Key]:
    return [Key("many", f"job-{number}") for number in range(count)]


def consider(stage: Stage, runner: PreflightRunner, key: Key) -> None:
    """A pass over a job whose preflight is open."""
    resource = wire()
    stage.cache.see_job({**resource, "metadata": {**resource["metadata"], "name": key.name, "namespace": key.namespace}})
    runner.consider(key, changed(replace(seen(SPEC), preflight=runner.view(key, SPEC, METADATA))))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_many_preflights_of_a_namespace_delay_another_by_those_in_hand() -> None:
    stage, gate = Stage(), Gate()
    runner = PreflightRunner(stage.context, gate)
    for key in many(MAX_WAITING_EACH + 50):
        consider(stage, runner, key)
    working = asyncio.create_task(runner.run())
    await settled()
    consider(stage, runner, Key("victim", "cora"))
    gate.may.set()
    await settled()
    working.cancel()
    assert gate.asked.index(Key("victim", "cora")) <= 2 * WORKERS
    assert len(gate.asked) <= MAX_WAITING_EACH + 1
    assert gate.most == WORKERS


async def test_a_job_is_seen_to_by_one_worker_at_a_time() -> None:
    stage, gate = Stage(), Gate()
    runner = PreflightRunner(stage.context, gate)
    working = asyncio.create_task(runner.run())
    for _ in range(5):
        consider(stage, runner, Key("team", "cora"))
        stage.now += 100.0
        await settled()
    assert gate.asked == [Key("team", "cora")]
    gate.may.set()
    await settled()
    stage.now += 100.0
    consider(stage, runner, Key("team", "cora"))
    await settled()
    working.cancel()
    assert gate.asked == [Key("team", "cora")] * 2


async def test_a_job_that_is_gone_leaves_the_line() -> None:
    stage, gate = Stage(), Gate()
    runner = PreflightRunner(stage.context, gate)
    gate.may.set()
    consider(stage, runner, Key("team", "cora"))
    runner.forget(Key("team", "cora"))
    working = asyncio.create_task(runner.run())
    await settled()
    working.cancel()
    assert gate.asked == []


async def test_a_slow_api_server_for_one_job_stops_no_other() -> None:
    stage, gate = Stage(), Gate()
    runner = PreflightRunner(stage.context, gate)
    working = asyncio.create_task(runner.run())
    for key in (Key("a", "slow"), Key("b", "next")):
        consider(stage, runner, key)
        await settled()
    working.cancel()
    assert gate.now == [Key("a", "slow"), Key("b", "next")]


async def test_a_job_that_found_no_place_is_looked_at_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = list[Callable[[], None]]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda seconds, call, *more: timers.append(lambda: call(*more)))
    woken = list[Key]()
    later = LaterPasses(woken.append)
    for _ in range(3):
        later.ask(Key("many", "last"), 5.0)
    assert len(timers) == 1
    timers.pop()()
    assert woken == [Key("many", "last")]
    later.ask(Key("many", "last"), 5.0)
    assert len(timers) == 1


async def test_a_full_namespace_asks_for_another_pass_of_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Key]()
    monkeypatch.setattr(namespace_queue.LaterPasses, "ask", lambda self, key, seconds: asked.append(key))
    stage = Stage()
    runner = PreflightRunner(stage.context, Gate())
    keys = many(MAX_WAITING_EACH + 2)
    for key in keys:
        consider(stage, runner, key)
    assert asked == keys[-2:]


async def test_many_searches_of_a_namespace_delay_another_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SearchStage(monkeypatch)
    state = seen(job=TRAINING, plan=CHOICE, plan_recorded=True)
    victim = Key("victim", "cora")
    for key in [*many(MAX_WAITING_EACH + 5), victim]:
        stage.search.consider(key, state, PolicySpec())
    working = asyncio.create_task(stage.search.run())
    for _ in range(200_000):
        await asyncio.sleep(0)
        if victim in stage.woken:
            break
    working.cancel()
    assert stage.woken.index(victim) <= 1
