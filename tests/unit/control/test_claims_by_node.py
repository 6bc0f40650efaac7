"""Claims of running jobs by node: always those of the pods of now, and counted again only where a pod changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.running_jobs import BINDING_SECONDS, ENDING, GRACE_SECONDS, LATE_RATIO, OVERDUE_SECONDS, ClaimIndex
from hyperscale.model.admission_query import Claim, claims_of
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.plan import Plan
from hyperscale.model.pods import WORKER, PodView
from hyperscale.planner.check.drained_snapshot import added
from tests.corpus.queue_stage import Stage, gpu_node
from tests.unit.control.test_short_steps import worker

HEAVY = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": 1000}
LARGE = {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
SLOW = PolicySpec(gpus=(GpuModel(product="NVIDIA-A100-SXM4-80GB", gigaflops=100),))
"""So slow that every further worker pays."""
JOBS = tuple(Key("team", name) for name in "abc")


def pod(job: Key, index: int, node: int) -> PodView:
    return PodView(
        namespace=job.namespace, name=f"{job.name}-{index}", role=WORKER, node=f"node-{node}", phase="Running", gpus=1, cpu_cores=0.5
    )


@given(st.lists(st.tuples(st.sampled_from(JOBS), st.lists(st.integers(0, 3), max_size=4))))
def test_claims_are_those_of_the_pods_of_now_after_any_changes(changes: list[tuple[Key, list[int]]]) -> None:
    index, truth = ClaimIndex(), dict[Key, tuple[PodView, ...]]()
    for job, nodes in changes:
        kept = {one.name: one for one in truth.get(job, ())}
        fresh = (pod(job, number, node) for number, node in enumerate(nodes))
        truth[job] = tuple(kept[one.name] if kept.get(one.name) == one else one for one in fresh)
        index.set(job, truth[job])
        before = index.total()
        copy = dict(before)
        assert list(before.items()) == list(added(claims_of(truth[key]) for key in sorted(truth)).items())
        index.keep_only(JOBS[:2])
        truth.pop(JOBS[2], None)
        assert index.total() == added(claims_of(truth[key]) for key in sorted(truth))
        assert before == copy, "a question in progress keeps the claims that it was built with"


async def test_a_pod_that_ends_has_only_its_own_node_counted_again() -> None:
    stage = Stage(nodes=2, gpus=2)
    job = stage.add("run", workers={"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 2}}})
    (plan,) = (await stage.run(job)).values()
    stage.start(job, plan)
    for index in range(2):
        ran = worker(job, index, node=plan.node_of(index), gpus=2)
        stage.cache.see_pod(ran)
    policy = stage.reader.policy_named("default", {})
    before = stage.planning.running.claims(stage.cache.snapshot(policy, stage.now))
    stage.cache.see_pod(ran, deleted=True)
    after = stage.planning.running.claims(stage.cache.snapshot(policy, stage.now))
    other = plan.node_of(0)
    assert (set(before), set(after)) == ({other, plan.node_of(1)}, {other})
    assert after[other] is before[other]


@pytest.mark.parametrize(("seconds", "known"), [(0.0, True), (BINDING_SECONDS + 1.0, False)], ids=["just started", "a pod waits"])
async def test_the_jobs_that_end_next_say_what_they_leave_and_no_others_do(seconds: float, known: bool) -> None:
    stage = Stage(nodes=3, gpus=2)
    jobs = [stage.add(f"run-{number}", epochs=10 * (number + 1), workers={"minReplicas": 1, "maxReplicas": 1}) for number in range(6)]
    plans = await stage.run(*jobs)
    plans |= await stage.run(*(job for job in jobs if job not in plans))
    for job, plan in plans.items():
        stage.start(job, plan)
    for job in jobs[1:]:
        stage.cache.see_pod(worker(job, 0, node=plans[job].node_of(0), gpus=1))
    stage.planning.running.shares()  # seen to run from here on
    stage.now += seconds
    shares = stage.planning.running.shares()
    assert [share.key for share in shares] == [str(job) for job in jobs]
    assert [bool(share.claims) for share in shares] == [known, True, True, True, False, False], "of the first no pod is bound"
    if known:
        assert shares[0].claims == {plans[jobs[0]].node_of(0): Claim(gpus=1)}, "its pods are about to be bound where they were planned"
    assert shares[1].claims == claims_of(stage.cache.pods_of(jobs[1], stage.cache.live[jobs[1]].uid))


async def test_a_job_on_its_way_to_its_mpijob_will_leave_what_its_newest_plan_says() -> None:
    stage = Stage(nodes=2, gpus=2)
    job = stage.add("run")
    plan = (await stage.ask(job)).outcome
    assert isinstance(plan, Plan)
    (share,) = stage.planning.running.shares()
    assert share.claims == {node: Claim(gpus=gpus) for node, gpus in plan.gpus_by_node().items()}


async def test_a_report_whose_end_is_past_says_nothing_any_more() -> None:
    stage = Stage(nodes=1, gpus=2)
    job = stage.add("run", epochs=1000)
    (plan,) = (await stage.run(job)).values()
    stage.start(job, plan)
    began = stage.now
    stage.cache.progress[job] = Measured(epoch=999, epochs=1000, epoch_seconds=30.0)

    def left() -> float:
        return stage.planning.running.shares()[0].remaining_seconds

    assert left() == 30.0
    stage.now += 20.0
    assert left() == 10.0
    stage.now += 86_400.0
    late = LATE_RATIO * (stage.now - began)
    assert left() == pytest.approx(late, rel=1e-3), "it ran a day, however short it was predicted"
    stage.cache.progress[job] = Measured(epoch=1000, epochs=1000, epoch_seconds=30.0)
    assert left() == pytest.approx(late, rel=1e-3), "all epochs are done and it still runs"


def deletion(kind: str, job: Key, uid: str) -> dict[str, Any]:
    """The last event of an object."""
    return {"metadata": {"namespace": job.namespace, "name": job.name, "uid": uid, "resourceVersion": "8"}, "kind": kind}


async def one_run(stage: Stage, gpus: int = 2) -> tuple[Key, Plan]:
    """A job of two workers that runs."""
    job = stage.add("run", workers={"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": gpus}}})
    (plan,) = (await stage.run(job)).values()
    for index in range(2):
        stage.cache.see_pod(worker(job, index, node=plan.node_of(index), gpus=gpus))
    return job, plan


STOPS: dict[str, Callable[[Stage, Key, Plan], object]] = {
    "ended": lambda stage, job, plan: stage.start(job, plan, conditions={"Succeeded": True}),
    "MPIJob deleted": lambda stage, job, _: stage.cache.see_mpijob(deletion("MPIJob", job, "mpi-run"), deleted=True),
    "job deleted": lambda stage, job, _: stage.cache.see_job(deletion("GNNTrainingJob", job, "uid-run"), deleted=True),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS.keys())
async def test_pods_of_a_job_that_has_just_stopped_are_about_to_end_until_it_is_plain_that_they_stay(
    stop: Callable[[Stage, Key, Plan], object],
) -> None:
    stage = Stage(nodes=2, gpus=2)
    job, plan = await one_run(stage)
    policy = stage.reader.policy_named("default", {})
    held = stage.planning.running.claims(stage.cache.snapshot(policy, stage.now))
    stop(stage, job, plan)
    stage.now += 10.0
    (share,) = stage.planning.running.shares()
    assert (share.key, share.gpus, share.remaining_seconds) == (ENDING, 4, GRACE_SECONDS - 10.0)
    assert share.claims == held == stage.planning.running.claims(stage.cache.snapshot(policy, stage.now)), "they are no others' pods"
    stage.cache.see_pod(worker(job, 0, node=plan.node_of(0), gpus=2), deleted=True)
    (share,) = stage.planning.running.shares()
    assert (share.gpus, set(share.claims)) == (2, {plan.node_of(1)})
    stage.now += GRACE_SECONDS + OVERDUE_SECONDS
    assert stage.planning.running.shares() == (), "a pod that is kept, or stuck, is nothing to wait for"
    assert stage.planning.running.claims(stage.cache.snapshot(policy, stage.now)) == {}


async def test_pods_of_others_are_nothing_to_wait_for_whatever_their_labels_say() -> None:
    stage = Stage(nodes=2, gpus=2)
    job, plan = await one_run(stage)
    forged = worker(job, 5, node="node-0", gpus=2)
    owner = {"uid": "job-of-a-stranger", "name": "x", "kind": "Job", "controller": True}
    forged["metadata"] = {**forged["metadata"], "name": "forged", "ownerReferences": [owner]}  # type: ignore[dict-item] # read as JSON
    stage.cache.see_pod(forged)
    stage.start(job, plan, conditions={"Succeeded": True})
    (share,) = stage.planning.running.shares()
    assert share.gpus == 4


async def test_a_job_that_runs_again_after_a_stop_is_a_running_job() -> None:
    stage = Stage(nodes=2, gpus=2)
    job, plan = await one_run(stage)
    stage.start(job, plan, conditions={"Failed": True})
    stage.start(job, plan)
    assert [share.key for share in stage.planning.running.shares()] == [str(job)]


async def test_a_run_whose_start_is_not_noted_is_nothing_to_wait_for_after_a_minute() -> None:
    stage = Stage(nodes=2, gpus=2)
    job = stage.add("run")
    (plan,) = (await stage.run(job)).values()
    stage.start(job, plan, start_time="")
    assert stage.planning.running.shares()[0].claims
    stage.now += BINDING_SECONDS + 1.0
    assert not stage.planning.running.shares()[0].claims


async def test_a_job_waits_for_pods_that_end_instead_of_taking_the_small_node_that_is_free() -> None:
    large, small = gpu_node("large", 8), gpu_node("small", 1)
    stage = Stage(nodes=0)
    stage.cache.replace("Node", [large, small])
    ended_run = stage.add("run", workers={"minReplicas": 8, "maxReplicas": 8})
    (plan,) = (await stage.run(ended_run)).values()
    for index in range(8):
        stage.cache.see_pod(worker(ended_run, index, node="large", gpus=1))
    waiting = stage.add("waiting", workers={"minReplicas": 1, "maxReplicas": 8}, model=HEAVY, dataset=LARGE)
    stage.start(ended_run, plan, conditions={"Succeeded": True})
    answer = await stage.ask(waiting, SLOW)
    assert not isinstance(answer.outcome, Plan)
    assert answer.turn is not None
    assert "other jobs end in 30 s" in answer.turn.message
    stage.now += GRACE_SECONDS + OVERDUE_SECONDS + 1.0
    started = (await stage.ask(waiting, SLOW)).outcome
    assert isinstance(started, Plan)
    assert set(started.gpus_by_node()) == {"small"}, "the pods stay, and nothing else runs"
    for index in range(8):
        stage.cache.see_pod(worker(ended_run, index, node="large", gpus=1), deleted=True)
    stage.planning.end_reconcile(waiting)
    started = (await stage.ask(waiting, SLOW)).outcome
    assert isinstance(started, Plan)
    assert set(started.gpus_by_node()) == {"large"}
