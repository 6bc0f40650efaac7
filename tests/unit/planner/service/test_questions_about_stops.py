"""Running jobs that others need the GPUs of, judged by a real planner process, and by one that fails at it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim, QueuedJob
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import JobPreemption, PreemptibleJob, PreemptionAnswer, PreemptionQuestion, RunningJob
from hyperscale.planner.check.queue_check import unsound_stops
from hyperscale.planner.service.process import ENVIRONMENT, STOPS_FAILED, PlannerProcess
from tests.builders.clusters import gpu_node, snapshot, training
from tests.builders.placement import plan

ROOT = Path(__file__).resolve().parents[4]
FAKE = Path(__file__).with_name("fake_planner.py")
POLICY = PolicySpec()
BUSY = snapshot(gpu_node("a1", requested_gpus=1, load=0.95))


def asked(name: str, epochs: int) -> PlanRequest:
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 128, "epochs": epochs}
    return PlanRequest(job_key=f"team/{name}", job=training(model=model, workers={"minReplicas": 1, "maxReplicas": 1}))


def question(pending_epochs: int, held_seconds: float = 10_000.0) -> PreemptionQuestion:
    """A long job has the only GPU, another waits."""
    running = RunningJob(replace(asked("long", 100_000), workers_fixed=1), plan("a1"), {"a1": Claim(gpus=1)}, 100_000.0, 10.0)
    return PreemptionQuestion(
        pending=(QueuedJob(asked("other", pending_epochs), waited_seconds=60.0),),
        running=(PreemptibleJob(running, held_seconds=held_seconds),),
        claims={"a1": Claim(gpus=1)},
        deadline_seconds=30.0,
    )


async def test_a_real_planner_process_has_a_long_job_stopped_for_a_short_one_and_for_no_longer_one() -> None:
    process = PlannerProcess(environment=dict(ENVIRONMENT) | {"PYTHONPATH": f"{ROOT}/operator"})
    try:
        stops = await process.preempt(question(1000), BUSY, POLICY)
        assert stops is not None
        (stop,) = stops.stops
        assert (stop.key, stop.beneficiaries) == ("team/long", ("team/other",))
        assert stop.saved_seconds > stop.price_seconds > POLICY.migration.restart_seconds
        assert await process.preempt(question(1_000_000), BUSY, POLICY) == PreemptionAnswer()
        assert await process.preempt(question(1000, held_seconds=1.0), BUSY, POLICY) == PreemptionAnswer()
    finally:
        await process.stop()


async def test_a_planner_that_dies_over_it_is_counted_and_all_jobs_go_on() -> None:
    failures: list[str] = []
    environment = dict(ENVIRONMENT) | {"PYTHONPATH": str(ROOT)}
    process = PlannerProcess((sys.executable, str(FAKE), "good"), environment=environment, on_failure=failures.append)
    try:
        assert await process.preempt(question(1000), BUSY, POLICY) is None
        assert failures == [STOPS_FAILED]
    finally:
        await process.stop()


GOOD = JobPreemption("team/long", ("team/other",), saved_seconds=100.0, price_seconds=70.0)


@pytest.mark.parametrize(
    ("stops", "says"),
    [
        ((GOOD,), None),
        ((GOOD, GOOD), "answered 2 times"),
        ((replace(GOOD, key="team/other"),), "was not asked about"),
        ((replace(GOOD, beneficiaries=()),), "go to no job"),
        ((replace(GOOD, beneficiaries=("team/stranger",)),), "go to no job"),
        ((replace(GOOD, saved_seconds=0.0),), "saves 0.0 s"),
        ((replace(GOOD, price_seconds=float("nan")),), "saves 100.0 s for nan s"),
    ],
)
def test_advice_that_cannot_be_acted_on_is_refused(stops: tuple[JobPreemption, ...], says: str | None) -> None:
    wrong = unsound_stops(PreemptionAnswer(stops), question(1000))
    assert (wrong == ()) if says is None else (says in "; ".join(wrong))
