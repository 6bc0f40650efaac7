"""The event loop turns while many jobs are read and many pods are counted, and what has not changed is not counted again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import product
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.pod_index import PodIndex
from hyperscale.control.cache.records import Key
from hyperscale.control.controller import manager as operators
from hyperscale.control.scheduler import queue_entry
from hyperscale.control.settings import Settings
from hyperscale.model.pods import LAUNCHER, WORKER, PodView
from hyperscale.util import slices
from tests.corpus.queue_stage import Stage, gpu_node


class Turns:
    """Counts turns of the event loop, and what happens in each."""

    def __init__(self) -> None:
        self.number = 0
        self.happened: Counter[int] = Counter()

    def note(self) -> None:
        self.happened[self.number] += 1

    async def count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Every pause is due."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1.0)
    return Turns()


async def test_a_question_about_many_new_jobs_reads_one_of_them_a_turn(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, read = Stage(), queue_entry.read_entry
    keys = [stage.add(f"job-{number:02d}") for number in range(20)]

    def noted(*given: object, **named: object) -> object:
        turns.note()
        return read(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(queue_entry, "read_entry", noted)
    counting = asyncio.create_task(turns.count())
    await stage.ask(keys[0])
    counting.cancel()
    assert sum(turns.happened.values()) == len(keys)
    assert max(turns.happened.values()) <= 2


def worker(job: Key, index: int, *, node: str = "node-0", gpus: int = 1) -> dict[str, object]:
    labels = {
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-index": str(index),
    }
    owner = {"uid": f"mpi-{job.name}", "name": job.name, "kind": "MPIJob", "controller": True}
    metadata = {"namespace": job.namespace, "name": f"{job.name}-worker-{index}", "uid": f"{job.name}-{index}", "labels": labels}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {**metadata, "resourceVersion": "1", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def counted(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Notes every pod that is asked what it holds."""
    holds = PodView.holds_resources.fget  # type: ignore[attr-defined]

    def noted(pod: PodView) -> bool:
        turns.note()
        return bool(holds(pod))

    monkeypatch.setattr(PodView, "holds_resources", property(noted))
    return turns


async def test_pods_of_running_jobs_are_counted_job_by_job_and_once(counted: Turns) -> None:
    stage = Stage(nodes=4, gpus=4)
    stage.cache.replace("Node", [gpu_node("node-0", 16)])
    for job in [stage.add(f"run-{number}", workers={"minReplicas": 2, "maxReplicas": 2}) for number in range(5)]:
        (plan,) = (await stage.run(job)).values()
        stage.start(job, plan)
        for index in range(2):
            stage.cache.see_pod(worker(job, index))
    waits = stage.add("waits", workers={"minReplicas": 9, "maxReplicas": 9})
    running = stage.planning.running
    counted.happened.clear()
    counting = asyncio.create_task(counted.count())
    await running.tally()
    counting.cancel()
    assert max(counted.happened.values()) <= 2
    assert sum(counted.happened.values()) == 10
    assert waits in stage.cache.unstarted
    snapshot = stage.cache.snapshot(stage.reader.policy_named("default", {}), stage.now)
    counted.happened.clear()
    (claim,) = running.claims(snapshot).values()
    assert claim.gpus == 10
    assert claim.further["pods"] == 10
    assert not counted.happened


def pod_of(job: str, number: int, owner: str, launches: bool) -> PodView:
    role, index = (LAUNCHER, None) if launches else (WORKER, number)
    return PodView(namespace="team", name=f"{job}-{number}", owner_uid=owner, owner_kind="MPIJob", job_name=job, role=role, index=index)


def ranked(pods: Iterable[PodView], job: str, owner: str) -> list[PodView]:
    """The pods of a job's MPIJob by role, rank and name."""
    own = [pod for pod in pods if (pod.job_name, pod.owner_uid) == (job, owner)]
    return sorted(own, key=lambda pod: (pod.role, pod.index or 0, pod.name))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.sampled_from(["m", "n"]), st.booleans(), st.booleans())))
def test_ranked_pods_are_those_of_now_after_any_changes(changes: list[tuple[str, int, str, bool, bool]]) -> None:
    index, truth = PodIndex(), dict[Key, PodView]()
    for job, number, owner, launches, gone in changes:
        pod = pod_of(job, number, owner, launches)
        name = Key("team", pod.name)
        index.put(name, None if gone else pod)
        truth.pop(name, None)
        if not gone:
            truth[name] = pod
        for each, uid in product("abc", "mn"):
            found = index.ranked(Key("team", each), uid)
            assert list(found) == ranked(truth.values(), each, uid)
            assert not found or index.ranked(Key("team", each), uid) is found, "what has not changed is not sorted again"


async def test_ten_thousand_ended_jobs_are_appointed_in_many_turns(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    running = operators.Operator(ApiClient(Mock(), 1.0), Settings())
    queue = running.queue
    add = queue.add_later

    def noted(key: Key) -> None:
        turns.note()
        add(key)

    monkeypatch.setattr(queue, "add_later", noted)
    counting = asyncio.create_task(turns.count())
    await running._enqueue({Key("team", f"ended-{number}") for number in range(100)})
    counting.cancel()
    assert len(queue) == 100
    assert max(turns.happened.values()) == 1
