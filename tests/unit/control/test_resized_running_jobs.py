"""A job that runs with fewer workers than it may have, on a cluster where nothing waits: when it is asked about, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.lifecycle.stoppable import proposed, shown_stop
from hyperscale.model.running_query import JobPreemption
from tests.unit.control.preemption_stage import LONG, Scene

LARGE: dict[str, Any] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": 1_000_000},
    "dataset": {
        "source": {"persistentVolumeClaim": {"claimName": "graph"}},
        "vertices": 2_449_029,
        "edges": 123_718_280,
        "featureSize": 100,
        "classes": 47,
    },
}
GROWS = JobPreemption("team/long", ("team/long",), saved_seconds=500.0, price_seconds=70.0, workers=2)


async def alone(workers: int, resizable: bool, mode: str = "Automatic") -> Scene:
    stage = Scene(mode, **LARGE)
    await stage.begin_alone(workers, resizable)
    await stage.watch.check()
    return stage


async def test_a_job_that_may_resume_with_more_workers_is_asked_about_with_all_its_counts() -> None:
    stage = await alone(1, resizable=True)
    (question,) = stage.planner.about_stops
    (job,) = question.running
    workers = job.running.request.job.workers
    assert (job.resizable, workers.min_replicas, workers.max_replicas, question.pending) == (True, 1, 2, ())
    view = stage.watch.view(LONG)
    assert view is not None
    assert view.due
    last = stage.watch.begin(LONG, stage.policy)
    assert last is not None
    assert last.beneficiaries == ("team/long",)


async def test_in_mode_advise_it_only_says_so() -> None:
    stage = await alone(1, resizable=True, mode="Advise")
    view = stage.watch.view(LONG)
    assert view is not None
    assert view.proposal is not None
    assert (view.due, view.proposal.workers) == (False, 2)


@pytest.mark.parametrize(("workers", "resizable"), [(2, True), (1, False)])
async def test_a_job_that_has_all_its_workers_or_must_keep_its_count_is_not_asked_about(workers: int, resizable: bool) -> None:
    stage = await alone(workers, resizable)
    assert stage.planner.about_stops == []


async def test_a_job_does_not_grow_while_a_job_of_another_policy_waits() -> None:
    stage = Scene("Automatic", **LARGE)
    await stage.begin_alone(1, resizable=True)
    policy = {"metadata": {"name": "other", "uid": "q", "generation": 1}, "spec": {"seed": 7}}
    stage.cache.see_policy(policy)
    stage.add("short", epochs=10, workers={"minReplicas": 2, "maxReplicas": 2}, policyRef={"name": "other"})
    await stage.watch.check()
    assert stage.planner.about_stops == []


def test_the_condition_names_the_worker_count() -> None:
    condition = proposed(shown_stop(GROWS, "2026-01-01T00:00:00Z", ""), "team/long")
    assert condition.reason == "AnotherWorkerCount"
    assert "it could continue at once with 2 workers" in condition.message
