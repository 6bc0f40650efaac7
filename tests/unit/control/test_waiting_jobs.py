"""Jobs that wait for room: a refusal stands as long as what it rests on, and only those that room may help are asked."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.waiting import STANDS_SECONDS
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import Reason
from hyperscale.model.plan import NEVER_FITS, Infeasible
from hyperscale.model.status import ObjectReference, StateWord, to_wire
from tests.builders.seen import last_step
from tests.builders.seen import status as told
from tests.corpus.queue_stage import Stage, gpu_node

TOO_MANY = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 16}}}
BY_ARRIVAL = PolicySpec(queue=QueuePolicy(order=QueueOrder.ARRIVAL))


class Counting(Stage):
    """Counts what the planners are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        plan, turns = self.planner.plan, self.planner.turns

        async def counted_plan(*given: Any) -> Any:
            self.asked += 1
            return await plan(*given)

        async def counted_turns(*given: Any) -> Any:
            self.asked += 1
            return await turns(*given)

        setattr(self.planner, "plan", counted_plan)  # noqa: B010 - counted in place
        setattr(self.planner, "turns", counted_turns)  # noqa: B010 - counted in place

    async def refused(self, key: Key, policy: PolicySpec) -> Infeasible:
        answer = await self.ask(key, policy)
        self.planning.end_reconcile(key)
        assert isinstance(answer.outcome, Infeasible)
        return answer.outcome

    def pod(self, name: str, version: int, phase: str) -> None:
        """A pod of others on node-0; its changes make a new snapshot."""
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        metadata = {"namespace": "other", "name": name, "uid": name, "resourceVersion": str(version)}
        self.cache.see_pod({"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [container]}, "status": {"phase": phase}})


@pytest.mark.parametrize("policy", [PolicySpec(), BY_ARRIVAL], ids=["queue", "arrival"])
async def test_a_job_that_never_fits_is_asked_about_once_while_pods_come_and_go(policy: PolicySpec) -> None:
    stage = Counting()
    keys = [stage.add(f"huge-{number}", workers=TOO_MANY) for number in range(5)]
    first = [await stage.refused(key, policy) for key in keys]
    assert {refusal.reason for refusal in first} == {NEVER_FITS}
    asked = stage.asked
    for round_ in range(10):
        stage.pod("other", 10 + round_, "Running" if round_ % 2 == 0 else "Succeeded")
        stage.now += 30.0
        assert [await stage.refused(key, policy) for key in keys] == first
    assert stage.asked == asked


@pytest.mark.parametrize("policy", [PolicySpec(), BY_ARRIVAL], ids=["queue", "arrival"])
async def test_it_is_asked_about_again_when_what_decides_that_changes(policy: PolicySpec) -> None:
    stage = Counting()
    key = stage.add("huge", workers=TOO_MANY)
    await stage.refused(key, policy)
    for change in ("node", "spec", "policy", "time"):
        asked = stage.asked
        if change == "node":
            stage.cache.see_node(gpu_node("node-9", 8))
        elif change == "spec":
            stage.add("huge", version=2, workers=TOO_MANY | {"maxReplicas": 3})
        elif change == "policy":
            policy = msgspec.structs.replace(policy, topology_levels=("example.com/rack",))
        else:
            stage.now += STANDS_SECONDS
        await stage.refused(key, policy)
        assert stage.asked > asked, change


@pytest.mark.parametrize("workers", [TOO_MANY, {"minReplicas": 8, "maxReplicas": 8}], ids=["fits never", "does not fit now"])
async def test_jobs_that_wait_keep_no_cluster_of_earlier_for_themselves(workers: dict[str, Any]) -> None:
    stage = Counting()
    assert await stage.run(stage.add("running", epochs=10**6))
    before = clusters_in_memory()
    for number in range(6):
        stage.pod("other", 10 + number, "Running" if number % 2 == 0 else "Succeeded")
        await stage.refused(stage.add(f"waiting-{number}", epochs=10 + number, workers=workers), PolicySpec())
    assert clusters_in_memory() <= before + 1


def clusters_in_memory() -> int:
    gc.collect()
    return sum(type(one) is ClusterSnapshot for one in gc.get_objects())


async def test_a_node_that_is_large_enough_ends_the_refusal() -> None:
    stage = Counting()
    key = stage.add("huge", workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 16}}})
    assert (await stage.refused(key, PolicySpec())).never
    assert key not in stage.planning.waiting.to_ask()
    stage.cache.see_node(gpu_node("node-9", 16))
    assert key in stage.planning.waiting.to_ask()
    assert not isinstance((await stage.ask(key)).outcome, Infeasible)


async def test_a_node_that_is_cordoned_does_not_end_it() -> None:
    stage = Counting()
    key = stage.add("huge", workers=TOO_MANY)
    await stage.refused(key, PolicySpec())
    cordoned = gpu_node("node-1", 2)
    cordoned["metadata"]["resourceVersion"] = "99"
    cordoned["spec"] = {"unschedulable": True}
    assert stage.cache.see_node(cordoned)
    assert key not in stage.planning.waiting.to_ask()


def test_jobs_that_ended_or_cannot_be_used_are_not_asked_when_gpus_come_free() -> None:
    stage = Stage()
    waiting = stage.add("waiting")
    over = told(StateWord.SUCCEEDED, observed_generation=1, mpi_job_ref=ObjectReference("over", "mpi-over"))
    bad = told(StateWord.PENDING, last_step(str(Reason.INVALID_SPEC)), observed_generation=1)
    for name, status in (("over", over), ("bad", bad)):
        stage.add(name)
        record = stage.cache.jobs[Key("team", name)].resource
        record["metadata"]["resourceVersion"] = "2"
        stage.cache.see_job({**record, "status": to_wire(status)})
    assert stage.planning.waiting.to_ask() == [waiting]
    assert stage.cache.unfinished == {waiting, Key("team", "bad")}


def test_a_bad_job_whose_spec_was_corrected_waits_again() -> None:
    stage = Stage()
    key = stage.add("job")
    record = stage.cache.jobs[key].resource
    bad = to_wire(told(StateWord.PENDING, last_step(str(Reason.INVALID_SPEC)), observed_generation=1))
    for version, generation, waits in ((2, 1, False), (3, 2, True)):
        metadata = record["metadata"] | {"resourceVersion": str(version), "generation": generation}
        stage.cache.see_job({**record, "metadata": metadata, "status": bad})
        assert (key in stage.cache.waiting) == waits
