"""Jobs beyond the starvation bound in one decision: how many workers they start with, and that the deadline holds for them too."""

from __future__ import annotations

from functools import partial

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, Option, PendingJob, QueueRunningJob
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

BOUND_SECONDS = 1000
NODES = [f"n{index}" for index in range(12)]
SEEN = snapshot(*(gpu_node(name, free=1) for name in NODES), links=both_ways(NODES, latency_seconds=1e-5, bandwidth_bytes_per_second=2e10))
BUSY = (RunningShare("team/running", 1, 1e4),)


def job(name: str, waited: float, most: int) -> QueuedJob:
    model = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 1024, "epochs": 1000}
    workers = {"minReplicas": 1, "maxReplicas": most, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return QueuedJob(PlanRequest(job_key=f"team/{name}", job=training(model=model, workers=workers)), waited)


def decide(jobs: tuple[QueuedJob, ...], queue: QueuePolicy, starts_before_hurry: int | None = None) -> AdmissionResult:
    """`starts_before_hurry`: time runs out once this number of final plans was made."""
    policy, made = PolicySpec(queue=queue), 0

    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), policy, expired=expired)

    desk = PlacementOracle(build(SEEN, policy), policy, place)
    final = desk.final

    def counted(request: PlanRequest) -> Plan | Infeasible:
        nonlocal made
        made += 1
        return final(request)

    desk.final = counted  # type: ignore[method-assign]
    if starts_before_hurry is not None:
        desk.hurried = partial(lambda limit: made >= limit, starts_before_hurry)
    return take_turns(AdmissionRequest(jobs=jobs, running=BUSY), desk, policy.queue, choosers(policy.queue))


def test_a_job_beyond_the_bound_starts_with_the_thrifty_worker_count() -> None:
    others = tuple(job(f"other{number}", 1.0 + number, most=1) for number in range(3))
    thrifty = QueuePolicy(starvation_seconds=BOUND_SECONDS, min_scaling_exponent=0.9)
    wasteful = QueuePolicy(starvation_seconds=BOUND_SECONDS, min_scaling_exponent=0.0)
    for waited in (1.5 * BOUND_SECONDS, 3.0 * BOUND_SECONDS):
        few, many = (decide((job("late", waited, most=12), *others), queue).starts[0] for queue in (thrifty, wasteful))
        assert few.key == many.key == "team/late"
        assert len(few.plan.workers) < len(many.plan.workers)


def test_late_jobs_are_no_reason_to_pass_the_deadline() -> None:
    late = tuple(job(f"late{number}", 3.0 * BOUND_SECONDS + number, most=1) for number in range(6))
    turns = decide(late, QueuePolicy(starvation_seconds=BOUND_SECONDS), starts_before_hurry=2)
    assert [start.key for start in turns.starts] == ["team/late5", "team/late4"], "those that waited longest"
    assert {hold.key for hold in turns.holds} == {f"team/late{number}" for number in range(4)}


def test_the_agent_calls_no_nodes_good_that_the_policy_refuses() -> None:
    late = PendingJob("late", (Option(2, 20_000.0, 10_000.0, 1.0, 0.5),), 1.0, 1.2 * BOUND_SECONDS)
    short = PendingJob("short", (Option(1, 100.0, 100.0, 1.0, 1.0),), 1.0, 10.0)
    cluster = ClusterState(2, 8, 1.0, ArrivalHistory(50, 600.0, 5000.0, 20_000.0))

    def compared(max_start_slowdown: float) -> set[str | None]:
        """Jobs among the agent's candidates."""
        policy = QueuePolicy(order=QueueOrder.LEARNED, starvation_seconds=BOUND_SECONDS, max_start_slowdown=max_start_slowdown)
        agent = choosers(policy).agent
        assert agent is not None
        return {score.job for score in agent([late, short], [QueueRunningJob("running", 4, 50.0)], cluster).scores}

    assert compared(2.35) == {"late"}, "twice the best time is good enough, so the late job goes first"
    assert "short" in compared(1.2)


def test_the_agent_starts_nothing_on_nodes_that_a_stricter_policy_refuses() -> None:
    poor = PendingJob("poor", (Option(2, 30_000.0, 10_000.0, 1.0, 0.5),), 1.0, 10.0)
    cluster = ClusterState(2, 8, 1.0, ArrivalHistory(50, 600.0, 10_000.0, 20_000.0))

    def candidates(max_start_slowdown: float) -> set[str | None]:
        policy = QueuePolicy(order=QueueOrder.LEARNED, starvation_seconds=0, max_start_slowdown=max_start_slowdown, min_wait_speedup=0.0)
        agent = choosers(policy).agent
        assert agent is not None
        return {score.job for score in agent([poor], [QueueRunningJob("running", 4, 50.0)], cluster).scores}

    assert "poor" in candidates(4.0)
    assert "poor" not in candidates(1.2)
