"""What the queue knows of the jobs so far: a new process takes it up from the jobs that have started."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.arrivals_so_far import MOST_RECALLED
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.model import constants
from hyperscale.model.history.corrections import RunAlone
from hyperscale.util.rfc3339 import timestamp
from tests.corpus.queue_stage import CREATED, POLICY, Stage

EPOCHS = (100, 10, 1000, 30, 400, 20, 60, 500)


def restarted(stage: Stage) -> Pending:
    """A process that finds the jobs as they are."""
    return Pending(stage.cache, stage.reader, lambda: stage.now)


async def started(stage: Stage) -> None:
    """Eight jobs, of which some have started."""
    keys = [stage.add(f"job-{number}", epochs=epochs, created=CREATED + 10.0 * number) for number, epochs in enumerate(EPOCHS)]
    stage.now = CREATED + 100.0
    plans = await stage.run(*keys)
    assert 0 < len(plans) < len(keys)
    for key, plan in plans.items():
        stage.start(key, plan, {"Running": True}, timestamp(stage.now))
    stage.now += 60.0


async def test_the_mean_run_is_the_same_after_a_restart() -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    before = stage.planning.pending.arrivals
    restarted_planning = Planning(stage.context, stage.planner)
    stage.planning = restarted_planning
    waiting = sorted(stage.cache.unstarted)
    assert restarted_planning.pending.arrivals.arrivals == len(EPOCHS) - len(waiting)
    await stage.ask(waiting[0])
    after = restarted_planning.pending.arrivals
    assert after.arrivals == before.arrivals == len(EPOCHS)
    assert after.run_seconds == pytest.approx(before.run_seconds, rel=0.35), "those that wait are counted after those that started"
    assert after.interval_seconds == pytest.approx(before.interval_seconds, rel=0.2)


async def test_jobs_that_got_poor_nodes_are_no_longer_by_that_after_a_restart() -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    before = restarted(stage).arrivals
    for key in sorted(set(stage.cache.jobs) - set(stage.cache.unstarted)):
        view = stage.cache.mpijobs[key]
        assert view.plan is not None
        assert view.plan.runs_alone
        predicted = msgspec.structs.replace(view.plan.predicted, epoch_seconds=10.0 * view.plan.predicted.epoch_seconds)
        stage.cache.mpijobs[key] = msgspec.structs.replace(view, plan=msgspec.structs.replace(view.plan, predicted=predicted))
    assert restarted(stage).arrivals == before


@pytest.mark.parametrize("absurd", [RunAlone(0, 100.0), RunAlone(10**9, 100.0), RunAlone(1, 1e15)], ids=["no", "too many", "too long"])
async def test_a_run_alone_that_cannot_be_does_not_count(absurd: RunAlone) -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    before = restarted(stage).arrivals
    for key in sorted(set(stage.cache.jobs) - set(stage.cache.unstarted)):
        view = stage.cache.mpijobs[key]
        assert view.plan is not None
        runs = (*view.plan.runs_alone, absurd)
        stage.cache.mpijobs[key] = msgspec.structs.replace(view, plan=msgspec.structs.replace(view.plan, runs_alone=runs))
    assert restarted(stage).arrivals == before


async def test_only_jobs_that_the_queue_started_count() -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    count = restarted(stage).arrivals.arrivals
    stage.add("pending")
    stage.add("elsewhere", labels={constants.KUEUE_QUEUE_LABEL: "batch"})
    stage.add("unreadable", model={"architecture": "GCN", "epochs": -1})
    assert restarted(stage).arrivals.arrivals == count


async def test_ended_jobs_are_not_parsed_for_it_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    count = restarted(stage).arrivals.arrivals
    monkeypatch.setattr(stage.reader, "read", None)
    assert restarted(stage).arrivals.arrivals == count > 0


@pytest.mark.parametrize("predicted", [{"epoch_seconds": 1e15}, {"cost_model": None}], ids=["absurd", "by an earlier cost model"])
async def test_a_plan_of_no_possible_or_another_models_length_does_not_count(predicted: dict[str, float | None]) -> None:
    stage = Stage(nodes=4, gpus=2)
    await started(stage)
    count = restarted(stage).arrivals.arrivals
    key = next(key for key in sorted(stage.cache.jobs) if key not in stage.cache.unstarted)
    view = stage.cache.mpijobs[key]
    assert view.plan is not None
    earlier = msgspec.structs.replace(view.plan.predicted, **predicted)
    changed = msgspec.structs.replace(view.plan, predicted=earlier, runs_alone=())
    stage.cache.mpijobs[key] = msgspec.structs.replace(view, plan=changed)
    assert restarted(stage).arrivals.arrivals == count - 1


async def test_the_newest_started_jobs_are_recalled_once() -> None:
    stage = Stage(nodes=64, gpus=16)
    keys = [stage.add(f"job-{number:03d}", created=CREATED + number) for number in range(MOST_RECALLED + 20)]
    stage.now = CREATED + 1000.0
    plans = await stage.run(*keys)
    plans |= await stage.run(*(key for key in keys if key not in plans))
    assert len(plans) == len(keys)
    pending = restarted(stage)
    assert pending.arrivals.arrivals == MOST_RECALLED
    assert pending.arrivals.interval_seconds == pytest.approx(1.0, rel=0.2)
    assert pending.since_last_arrival() == stage.now - (CREATED + len(keys) - 1)
    del stage.cache.jobs[Key("team", "job-100")]
    assert pending.arrivals.arrivals == MOST_RECALLED


async def test_gaps_between_waiting_jobs_are_what_they_were_after_a_restart() -> None:
    stage = Stage(nodes=4, gpus=2)
    keys = [stage.add(f"job-{number:02d}", epochs=10, created=CREATED + 10.0 * number) for number in range(30)]
    stage.now = CREATED + 400.0
    plans = await stage.run(*keys)
    begun = [key for number, key in enumerate(keys) if number % 3 == 0]
    some = next(iter(plans.values()))
    for key in begun:
        stage.start(key, plans.get(key, some), {"Running": True}, timestamp(stage.now))
    pending = restarted(stage)
    assert pending.arrivals.interval_seconds == pytest.approx(10.0, rel=0.1), "the first has none before it"
    waiting = sorted(pending.others(None, POLICY), key=lambda entry: entry.waits_since)
    assert len(waiting) == 30 - pending.arrivals.arrivals >= 15
    assert {job.gap_seconds for job in pending.queued(waiting)} == {10.0}
    assert pending.since_last_arrival() == pytest.approx(110.0)


async def restarted_beside(waiting: dict[str, float], **fields: Any) -> Pending:
    """A process that finds some jobs that have started, one each minute, and others that wait; the latter came at these seconds."""
    stage = Stage(nodes=4, gpus=2)
    begun = [stage.add(f"started-{number:02d}", epochs=10, created=CREATED + 60.0 * number) for number in range(1, 9)]
    stage.now = CREATED + 600.0
    plans = await stage.run(*begun)
    some = next(iter(plans.values()))
    for key in begun:
        stage.start(key, plans.get(key, some), {"Running": True}, timestamp(stage.now))
    for name, second in waiting.items():
        stage.add(name, epochs=10, created=CREATED + second, **(fields if name.startswith("other") else {}))
    return restarted(stage)


def gaps(pending: Pending) -> list[float | None]:
    waiting = sorted(pending.others(None, POLICY), key=lambda entry: (entry.waits_since, entry.key))
    return [job.gap_seconds for job in pending.queued(waiting)]


async def test_a_waiting_job_of_the_same_second_as_the_oldest_started_one_has_no_gap() -> None:
    pending = await restarted_beside({"a-sweep": 60.0})
    assert gaps(pending) == [0.0]
    assert pending.arrivals.interval_seconds < 60.0 + 1.0


async def test_waiting_jobs_that_are_older_than_all_started_ones_have_their_gaps() -> None:
    assert gaps(await restarted_beside({"w-1": 10.0, "w-2": 30.0, "w-3": 50.0})) == [0.0, 20.0, 20.0]


async def test_jobs_that_the_queue_does_not_start_take_nobodys_gap() -> None:
    pending = await restarted_beside({"other": 590.0, "waits": 600.0}, runPolicy={"suspend": True})
    assert gaps(pending)[-1] == 120.0
