"""Running jobs judged by a real planner process, and by one that fails at it."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.running_query import MigrationQuestion, RunningJob
from hyperscale.planner.service.process import ENVIRONMENT, MOVES_FAILED, PlannerProcess
from tests.builders.clusters import both_ways, gpu_node, link, snapshot, training
from tests.builders.placement import plan, request

ROOT = Path(__file__).resolve().parents[4]
FAKE = Path(__file__).with_name("fake_planner.py")
NAMES = ["a1", "a2", "a3"]
JOB = training(workers={"minReplicas": 2, "maxReplicas": 2})
POLICY = PolicySpec()


def question(running: Plan) -> MigrationQuestion:
    asked = request(JOB, workers_fixed=2)
    return MigrationQuestion(
        (RunningJob(asked, running, {worker.node: Claim(gpus=1) for worker in running.workers}, 100_000.0, 10.0),), 30.0
    )


def slowed(plan: Plan) -> tuple[ClusterSnapshot, list[str]]:
    """The plan's nodes in use, every link of its second node slow, one node spare; and the nodes that a better plan takes."""
    first, second = (worker.node for worker in plan.workers)
    (spare,) = set(NAMES) - {first, second}
    nodes = [gpu_node(name, requested_gpus=1, load=0.95) if name != spare else gpu_node(name, load=0.0) for name in NAMES]
    links = [link(a, b, *((1e-2, 1e7) if second in (a, b) else (1e-4, 1e9))) for a, b in permutations(NAMES, 2)]
    return snapshot(*nodes, links=tuple(links)), [first, spare]


async def test_a_real_planner_process_plans_a_job_and_later_finds_it_a_better_place() -> None:
    well = snapshot(*(gpu_node(name) for name in NAMES), links=both_ways(NAMES, latency_seconds=1e-4, bandwidth_bytes_per_second=1e9))
    process = PlannerProcess(environment=dict(ENVIRONMENT) | {"PYTHONPATH": f"{ROOT}/operator"})
    try:
        made = await process.plan(request(JOB, deadline_seconds=30.0), well, POLICY)
        assert isinstance(made, Plan)
        now, better = slowed(made)
        moves = await process.moves(question(made), now, POLICY)
        assert moves is not None
        (advice,) = moves.advice
        assert advice.plan is not None
        assert [worker.node for worker in advice.plan.workers] == better
        assert advice.saved_seconds > advice.price_seconds > 0.0
    finally:
        await process.stop()


async def test_a_planner_that_dies_over_it_is_counted_and_the_jobs_stay() -> None:
    failures: list[str] = []
    environment = dict(ENVIRONMENT) | {"PYTHONPATH": str(ROOT)}
    process = PlannerProcess((sys.executable, str(FAKE), "good"), environment=environment, on_failure=failures.append)
    seen = snapshot(*(gpu_node(name) for name in NAMES))
    try:
        assert await process.moves(question(plan("a1", "a2")), seen, POLICY) is None
        assert failures == [MOVES_FAILED]
    finally:
        await process.stop()
