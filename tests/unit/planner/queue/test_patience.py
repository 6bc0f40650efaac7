"""Waiting for better nodes in one decision: it ends under the rule, and the agent sees the job as it is all the while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
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
from hyperscale.planner.queue.later_ends import later_ends
from hyperscale.planner.queue.options import FreeGpus
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, choosers, settings_of
from hyperscale.planner.queue.queue_types import ClusterState, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.rollout import Choose
from hyperscale.planner.queue.wait_bounds import IDLE_COSTS, IDLE_RUNS, PATIENCE_COSTS
from hyperscale.planner.workload.profile import profile
from hyperscale.util.rfc3339 import duration_text
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

POLICY = PolicySpec(queue=QueuePolicy(order=QueueOrder.LEARNED, max_start_slowdown=2.0, starvation_seconds=0))
HELD = gpu_node("fast", product="NVIDIA-H100-80GB-HBM3", requested_gpus=1)
SEEN = snapshot(HELD, gpu_node("slow", product="Tesla-T4"), links=both_ways(["fast", "slow"]))


BUSY = RunningShare("team/running", 1, 1e6)


def queued(waited_seconds: float) -> QueuedJob:
    """A job of one worker."""
    model = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 1024, "epochs": 1000}
    job = training(model=model, workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 1}}})
    return QueuedJob(PlanRequest(job_key="team/job", job=job), waited_seconds)


def decide(
    waited_seconds: float,
    shown: list[PendingJob],
    chooser: Choose | None = None,
    *,
    running: RunningShare = BUSY,
    max_start_slowdown: float = 2.0,
    asked: bool = True,
) -> AdmissionResult:
    """One job, the fast node held by another; `shown` becomes what the agent, which follows the rule, was asked about.

    asked: whether an agent decides; else the rule
    """
    queue = msgspec.structs.replace(POLICY.queue, max_start_slowdown=max_start_slowdown)

    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), POLICY, expired=expired)

    def by_rule(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
        return rule.choose(pending, running, cluster, settings_of(queue))

    def agent(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState) -> QueueChoice:
        shown.extend(pending)
        return by_rule(pending, running, cluster)

    question = AdmissionRequest(
        jobs=(queued(waited_seconds),),
        running=(running,),
        claims={"fast": Claim(gpus=1)},
    )
    desk = PlacementOracle(build(SEEN, POLICY), POLICY, place)
    return take_turns(question, desk, queue, Choosers(by_rule, (chooser or agent) if asked else None, decides=True))


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
    cost_seconds = option.seconds - option.empty_seconds
    bound_seconds = IDLE_COSTS * cost_seconds + IDLE_RUNS * option.empty_seconds
    (early,) = decide(0.0, [], waits).holds
    assert early.reason == WAITING_FOR_BETTER_NODES
    assert f"at most {duration_text(bound_seconds)} longer" in early.message
    (late,) = decide(PATIENCE_COSTS * cost_seconds + 1.0, [], waits).holds
    assert (late.reason, late.message) == (WAITING_FOR_ADMISSION, "the agent keeps the free nodes for others")
    assert late.retry_seconds == pytest.approx(bound_seconds - PATIENCE_COSTS * cost_seconds - 1.0)


def test_a_wait_that_the_rule_decides_ends_with_its_patience() -> None:
    shown: list[PendingJob] = []
    decide(0.0, shown)
    (option,) = shown[0].options
    (hold,) = decide(0.0, [], asked=False).holds
    assert hold.reason == WAITING_FOR_BETTER_NODES
    assert f"at most {duration_text(PATIENCE_COSTS * (option.seconds - option.empty_seconds))} longer" in hold.message


def test_a_job_waits_for_the_running_job_that_leaves_it_better_nodes_soon_and_says_what_that_gains() -> None:
    shown: list[PendingJob] = []
    soon = RunningShare("team/running", 1, 2.0, claims={"fast": Claim(gpus=1)})
    (hold,) = decide(0.0, shown, running=soon, max_start_slowdown=1000.0).holds
    (option,), (later,) = shown[0].options, shown[0].later
    assert later.wait_seconds == 2.0
    assert later.seconds == pytest.approx(option.empty_seconds), "the fast node is free then"
    assert hold.reason == WAITING_FOR_BETTER_NODES
    assert hold.retry_seconds is not None
    ratio = rule.sooner(shown[0], POLICY.queue.communication_factor)
    assert later.freed_slots == 1
    assert hold.message == (
        f"the free nodes would take {duration_text(option.seconds)} with 1 workers; other jobs end in 2 s, and from then on it takes "
        f"{duration_text(later.seconds)}: with its communication, and with those that wait before it, "
        f"it ends {ratio:.1f} times sooner; "
        f"it waits for them at most {duration_text(hold.retry_seconds)} longer"
    )


@pytest.mark.parametrize(
    "running",
    [
        RunningShare("team/running", 1, 1e6, claims={"fast": Claim(gpus=1)}),
        RunningShare("team/running", 1, 2.0),
        RunningShare("team/running", 1, 2.0, claims={"elsewhere": Claim(gpus=1)}),
    ],
    ids=["ends too late", "what it leaves is unknown", "leaves nothing of use"],
)
def test_a_job_waits_for_no_running_job_that_does_not_help_it(running: RunningShare) -> None:
    result = decide(0.0, [], running=running, max_start_slowdown=1000.0)
    assert [start.key for start in result.starts] == ["team/job"]


def test_what_a_job_leaves_is_free_at_its_end_and_with_it_what_those_before_it_left() -> None:
    first, second = {"a": Claim(gpus=1)}, {"a": Claim(gpus=2), "b": Claim(gpus=1)}
    ends = later_ends([(5.0, second), (9.0, {}), (1.0, first)], [(3.0, {"c": Claim(gpus=4, further={"cpu": 2.0})})])
    assert [(end.wait_seconds, {name: claim.gpus for name, claim in end.left.items()}) for end in ends] == [
        (1.0, {"a": 1}),
        (3.0, {"a": 1}),
        (5.0, {"a": 3, "b": 1}),
    ]
    ledger = FreeGpus({"a": 0, "b": 0, "c": 4}, {"a": 0, "c": 0}, reserved_amounts={"c": {"cpu": 2.5}})
    then = ledger.after(ends[-1])
    assert then.changed == {"a": 3, "c": 4}, "of nodes that the snapshot knows, the cluster without those claims says it"
    assert then.reserved_amounts == {"c": {"cpu": 0.5}}
    assert ledger.changed == {"a": 0, "c": 0}


def test_no_later_start_is_looked_for_where_no_job_may_wait_for_one_and_no_agent_sees_it() -> None:
    asked: list[bytes] = []

    class Counting(PlacementOracle):
        def after(self, request: PlanRequest, ended: Mapping[str, Claim]) -> Plan | Infeasible:
            asked.append(msgspec.msgpack.encode(ended))
            return super().after(request, ended)

    desk = Counting(build(SEEN, POLICY), POLICY, lambda request, graph, expired: make_plan(request, graph, profile(request.job), POLICY))
    desk.rough = lambda: desk  # type: ignore[method-assign] # the questions are counted where they arrive
    soon = RunningShare("team/running", 1, 2.0, claims={"fast": Claim(gpus=1)})
    for speedup, known in ((0.0, 0), (1.5, 1)):
        asked.clear()
        queue = QueuePolicy(order=QueueOrder.RULE, min_wait_speedup=speedup, max_start_slowdown=1000.0)
        question = AdmissionRequest(jobs=(queued(0.0),), running=(soon,), claims={"fast": Claim(gpus=1)})
        take_turns(question, desk, queue, choosers(queue))
        assert len(set(asked)) == known
