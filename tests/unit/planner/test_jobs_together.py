"""Pending jobs placed together: what is saved, what stays, what is refused."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import pytest

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_check import unsound
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.service.frames import AskTurns, ClusterFrame, Turned
from hyperscale.planner.service.worker import PlannerService
from hyperscale.planner.together.start_together import FAILED, Together, TogetherPlanner, posed_like
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import gpu_node, snapshot, training

POLICY = PolicySpec()


def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
    return make_plan(request, graph, profile(request.job), POLICY, expired=expired)


def together_on(graph: ClusterGraph) -> TogetherPlanner:
    return TogetherPlanner(graph, POLICY, lambda request: profile(request.job), plan_in_order)


def decided(jobs: Sequence[QueuedJob], cluster: ClusterSnapshot, together: bool | Together = True) -> AdmissionResult:
    graph = build(cluster, POLICY)
    planner = together_on(graph) if together is True else together or None
    return take_turns(
        AdmissionRequest(jobs=tuple(jobs)), PlacementOracle(graph, POLICY, place), POLICY.queue, choosers(POLICY.queue), planner
    )


def job(name: str, workers: int, epochs: int = 10, hidden: int = 256, weight: float = 1.0) -> QueuedJob:
    spec = training(
        model={"architecture": "GraphSAGE", "layers": 2, "hiddenSize": hidden, "epochs": epochs},
        workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": 1}}},
    )
    return QueuedJob(PlanRequest(job_key=f"team/{name}", job=spec), 1.0, weight)


def fast_and_slow() -> ClusterSnapshot:
    """Four fast GPUs in one rack, four slow ones in another: a short job that starts first takes what a long one needs more."""
    fast = [gpu_node(f"fast{index}", free=1, domain="eu/a", product="NVIDIA-H100-80GB-HBM3") for index in range(4)]
    slow = [gpu_node(f"slow{index}", free=1, domain="eu/b", product="Tesla-T4") for index in range(4)]
    return snapshot(*fast, *slow)


def weighted_sum(turns: AdmissionResult, jobs: Sequence[QueuedJob]) -> float:
    of_key = {queued.request.job_key: queued for queued in jobs}
    return sum(of_key[start.key].weight * of_key[start.key].request.job.model.epochs * start.plan.objective for start in turns.starts)


JOBS = (job("short", 4, epochs=200), job("long", 4, epochs=300))


def test_the_longer_job_gets_the_faster_nodes_when_both_start_together() -> None:
    cluster = fast_and_slow()
    alone, together = decided(JOBS, cluster, together=False), decided(JOBS, cluster)
    assert [start.key for start in together.starts] == [start.key for start in alone.starts] == ["team/short", "team/long"]
    assert weighted_sum(together, JOBS) < 0.99 * weighted_sum(alone, JOBS)
    nodes = {start.key: {worker.node[:4] for worker in start.plan.workers} for start in together.starts}
    assert nodes == {"team/short": {"slow"}, "team/long": {"fast"}}


def test_the_plans_say_what_placing_them_together_saves() -> None:
    turns = decided(JOBS, fast_and_slow())
    for start in turns.starts:
        assert start.plan.reasons[0].startswith("placed together with 1 other job: the sum of their predicted runs is ")
        assert start.run_seconds == start.plan.predicted.epoch_seconds * (200 if start.key == "team/short" else 300)


def test_the_operator_s_check_accepts_every_plan() -> None:
    cluster = fast_and_slow()
    assert unsound(decided(JOBS, cluster), AdmissionRequest(jobs=JOBS), cluster) == ()


def test_a_job_that_has_waited_too_long_is_not_slowed_for_others() -> None:
    late = msgspec.structs.replace(JOBS[0], waited_seconds=POLICY.queue.starvation_seconds + 1.0)
    cluster = fast_and_slow()
    alone, turns = decided((late, JOBS[1]), cluster, together=False), decided((late, JOBS[1]), cluster)
    before, after = ({start.key: start.run_seconds for start in each.starts} for each in (alone, turns))
    assert after["team/short"] <= before["team/short"] * (1.0 + 1e-9)


def test_a_fault_leaves_the_plans_made_one_after_the_other() -> None:
    cluster = fast_and_slow()
    graph = build(cluster, POLICY)

    def broken(*_: object) -> Plan | None:
        raise ValueError("no plan")

    turns = decided(JOBS, cluster, TogetherPlanner(graph, POLICY, lambda request: profile(request.job), broken))
    alone = decided(JOBS, cluster, together=False)
    assert turns.starts == alone.starts
    assert turns.fallbacks == (FAILED,)


def test_a_plan_that_the_check_refuses_leaves_all_as_they_are() -> None:
    cluster = fast_and_slow()
    refusing = TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), lambda *_: None)
    assert decided(JOBS, cluster, refusing).starts == decided(JOBS, cluster, together=False).starts


def test_a_single_job_is_planned_as_before() -> None:
    cluster = fast_and_slow()
    assert decided(JOBS[:1], cluster) == decided(JOBS[:1], cluster, together=False)


def test_out_of_memory_ends_the_planner() -> None:
    cluster = fast_and_slow()

    def full(*_: object) -> Plan | None:
        raise MemoryError

    with pytest.raises(MemoryError):
        decided(JOBS, cluster, TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), full))


def test_a_decision_that_must_be_answered_keeps_the_plans_one_after_the_other() -> None:
    cluster = fast_and_slow()
    late = TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), plan_in_order, expired=lambda: True)
    turns = decided(JOBS, cluster, late)
    assert (turns.starts, turns.fallbacks) == (decided(JOBS, cluster, together=False).starts, ())


def test_a_problem_taken_from_a_job_alike_is_the_one_that_would_be_posed() -> None:
    graph = build(fast_and_slow(), POLICY)
    first, second = (queued.request for queued in (job("one", 4), job("other", 2, epochs=3)))
    posed = pose(second, graph, profile(second.job), POLICY)
    taken = posed_like(pose(first, graph, profile(first.job), POLICY), second, profile(second.job))
    assert taken is not None
    assert taken.identity == posed.identity
    assert taken.vetting == posed.vetting


def test_a_job_with_other_needs_is_posed_anew() -> None:
    graph = build(fast_and_slow(), POLICY)
    first, second = job("one", 4).request, job("other", 4).request
    apart = msgspec.structs.replace(second, apart=True)
    assert posed_like(pose(first, graph, profile(first.job), POLICY), second, profile(second.job)) is not None
    assert posed_like(pose(first, graph, profile(first.job), POLICY), apart, profile(second.job)) is None


def test_the_planner_process_places_jobs_together() -> None:
    service, cluster = PlannerService(time.monotonic), fast_and_slow()
    service.learn(ClusterFrame("cluster", cluster, POLICY))
    answer = service.answer(AskTurns(1, "cluster", AdmissionRequest(jobs=JOBS)))
    assert isinstance(answer, Turned)
    assert all(start.plan.reasons[0].startswith("placed together with 1 other job") for start in answer.turns.starts)
    assert unsound(answer.turns, AdmissionRequest(jobs=JOBS), cluster) == ()
