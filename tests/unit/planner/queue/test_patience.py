"""Waiting for better nodes in one decision: it ends under the rule, and the agent sees the job as it is all the while."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Chooser, Claim, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.deferrals import WAITING_FOR_ADMISSION, WAITING_FOR_BETTER_NODES
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, settings_of
from hyperscale.planner.queue.queue_types import ClusterState, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.rollout import Choose
from hyperscale.planner.queue.wait_bounds import IDLE_RUNS, PATIENCE_COSTS
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

POLICY = PolicySpec(queue=QueuePolicy(order=QueueOrder.LEARNED, starvation_seconds=0))
HELD = gpu_node("fast", product="NVIDIA-H100-80GB-HBM3", requested_gpus=1)
SEEN = snapshot(HELD, gpu_node("slow", product="Tesla-T4"), links=both_ways(["fast", "slow"]))


def decide(waited_seconds: float, shown: list[PendingJob], chooser: Choose | None = None) -> AdmissionResult:
    """One job, the fast node held by another; `shown` becomes what the agent, which follows the rule, was asked about."""

    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), POLICY, expired=expired)

    def by_rule(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
        return rule.choose(pending, running, cluster, settings_of(POLICY.queue))

    def agent(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
        shown.extend(pending)
        return by_rule(pending, running, cluster)

    model = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 1024, "epochs": 1000}
    job = training(model=model, workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 1}}})
    question = AdmissionRequest(
        jobs=(QueuedJob(PlanRequest(job_key="team/job", job=job), waited_seconds),),
        running=(RunningShare("team/running", 1, 1e6),),
        claims={"fast": Claim(gpus=1)},
    )
    desk = PlacementOracle(build(SEEN, POLICY), POLICY, place)
    return take_turns(question, desk, POLICY.queue, Choosers(by_rule, chooser or agent, decides=True))


def test_the_wait_for_better_nodes_ends_and_the_agent_sees_the_empty_cluster_before_and_after() -> None:
    shown: list[PendingJob] = []
    waiting = decide(0.0, shown)
    assert not waiting.starts
    (option,) = shown[0].options
    cost_seconds = option.seconds - option.empty_seconds
    assert cost_seconds > option.empty_seconds
    assert waiting.holds[0].retry_seconds == pytest.approx(PATIENCE_COSTS * cost_seconds)

    started = decide(PATIENCE_COSTS * cost_seconds + 1.0, shown)
    assert [start.key for start in started.starts] == ["team/job"]
    assert started.score is not None
    assert started.score.used is Chooser.LEARNED
    assert shown[1].options == shown[0].options, "a long wait does not make poor nodes look like the best"


def test_a_wait_beyond_the_rules_patience_is_the_agents_and_says_how_long_it_may_last() -> None:
    def waits(*_: object) -> QueueChoice:
        return QueueChoice(None)

    shown: list[PendingJob] = []
    decide(0.0, shown)
    (option,) = shown[0].options
    cost_seconds, bound_seconds = option.seconds - option.empty_seconds, IDLE_RUNS * option.empty_seconds
    (early,) = decide(0.0, [], waits).holds
    assert early.reason == WAITING_FOR_BETTER_NODES
    assert f"at most {PATIENCE_COSTS * cost_seconds + bound_seconds:.3g} s longer" in early.message
    (late,) = decide(PATIENCE_COSTS * cost_seconds + 1.0, [], waits).holds
    assert (late.reason, late.message) == (WAITING_FOR_ADMISSION, "the agent keeps the free nodes for others")
    assert late.retry_seconds == pytest.approx(bound_seconds - 1.0)
