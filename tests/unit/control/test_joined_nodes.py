"""A node that joins: running jobs move to it where that pays, and the next decision about pending jobs uses it."""

from __future__ import annotations

import pytest

from hyperscale.model.plan import Plan
from tests.corpus.queue_stage import Stage, gpu_node, taken
from tests.corpus.watched_cluster import CORA, NODES, Cluster, node

SLOW = "node-b"
"""A node of the running job whose links got ten times slower."""


async def without_choice(mode: str) -> Cluster:
    """The job's own two nodes only."""
    cluster = Cluster(mode=mode)
    cluster.cache.replace("Node", [node(name) for name in NODES[:2]])
    await cluster.pass_time(120.0, slow=[SLOW])
    return cluster


@pytest.mark.parametrize("mode", ["Advise", "Automatic"])
async def test_a_running_job_is_offered_a_node_that_joined(mode: str) -> None:
    cluster = await without_choice(mode)
    before = cluster.watch.view(CORA)
    assert before is None or (before.proposal, before.plan) == (None, None), "there is no other node yet"
    cluster.cache.replace("Node", [node(name) for name in NODES[:3]])
    await cluster.pass_time(120.0, slow=[SLOW])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert CORA in cluster.woken
    if mode == "Automatic":
        assert view.plan is not None
        assert [worker.node for worker in view.plan.workers] == ["node-a", "node-c"]
    else:
        assert view.proposal is not None
        assert view.plan is None


async def test_jobs_that_wait_start_together_on_nodes_that_joined() -> None:
    stage = Stage(nodes=1)
    first, second, third = (stage.add(f"job-{number}", epochs=100 + number) for number in range(3))
    plan = (await stage.ask(first)).outcome
    assert isinstance(plan, Plan)
    assert not isinstance((await stage.ask(second)).outcome, Plan)
    stage.start(first, plan)
    stage.cache.replace("Node", [gpu_node(f"node-{number}", 2) for number in range(3)])
    plans = await stage.run(second, third)
    assert set(plans) == {second, third}
    assert set(taken(plans)) == {"node-1", "node-2"}
