"""Claims of running jobs by node: always those of the pods of now, and counted again only where a pod changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.running_jobs import BINDING_SECONDS, LATE_RATIO, ClaimIndex
from hyperscale.model.admission_query import Claim, claims_of
from hyperscale.model.api.measured import Measured
from hyperscale.model.plan import Plan
from hyperscale.model.pods import WORKER, PodView
from hyperscale.planner.check.drained_snapshot import added
from tests.corpus.queue_stage import Stage
from tests.unit.control.test_short_steps import worker

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
